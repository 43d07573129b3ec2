//! What must not compile, and what the compiler says of it.
//!
//! With `TRYBUILD=overwrite` the messages are written anew.

#[test]
fn mistakes_are_found_by_the_compiler() {
    trybuild::TestCases::new().compile_fail("tests/compile/*.rs");
}
