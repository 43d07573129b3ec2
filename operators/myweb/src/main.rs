//! The MyWeb operator as a program.

#[cfg(not(feature = "explore"))]
fn main() -> std::process::ExitCode {
    kubewright::main(myweb_operator::operator())
}

#[cfg(feature = "explore")]
fn main() -> std::process::ExitCode {
    kubewright_explore::main(myweb_operator::operator)
}
