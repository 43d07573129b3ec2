# The two commands of a newcomer are `make up` and `make test`; the rest is for contributors.

.PHONY: up test lint book bench conformance facts

up: ## a local cluster, the operators and their resources, until Ctrl-C; ARGS="myweb --once" for flags
	cargo run --locked -p kubewright-cli -- up $(ARGS)

test: ## every test; needs only Rust
	cargo fetch --locked # all of it: the tests of scaffolds have no network
	cargo test --workspace --locked

lint: ## formatting, lints, documentation, licences
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet
	@if cargo deny --version >/dev/null 2>&1; then cargo deny --locked check bans licenses sources; \
	else echo "cargo-deny is not installed: licences and sources not checked (cargo install cargo-deny)"; fi

book: ## the book in docs as HTML, in target/book
	@if command -v mdbook >/dev/null; then mdbook build; \
	else echo "mdbook is not installed: cargo install mdbook --locked" >&2; exit 1; fi

bench: ## measure side by side with the reference
	bench/run

conformance: ## run the behaviour tests against the real Kubernetes as well, and compare
	conformance/run

facts: ## regenerate the data tables from the reference
	conformance/facts.sh
