//! The operator in a process of its own, as it would run in a cluster.

use std::process::ExitCode;

fn main() -> ExitCode {
    kubewright::main(kubewright_bench_operator::operator())
}
