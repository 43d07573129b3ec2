//! The MyApp operator as a program.

#[cfg(not(feature = "explore"))]
fn main() -> std::process::ExitCode {
    kubewright::main(myapp_operator::operator())
}

#[cfg(feature = "explore")]
fn main() -> std::process::ExitCode {
    kubewright_explore::main(myapp_operator::operator)
}
