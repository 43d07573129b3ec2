//! The foobar operator as a program.

#[cfg(not(feature = "explore"))]
fn main() -> std::process::ExitCode {
    kubewright::main(foobar_operator::operator())
}

#[cfg(feature = "explore")]
fn main() -> std::process::ExitCode {
    kubewright_explore::main(foobar_operator::operator)
}
