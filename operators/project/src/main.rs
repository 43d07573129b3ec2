//! The Project operator as a program.

#[cfg(not(feature = "explore"))]
fn main() -> std::process::ExitCode {
    kubewright::main(project_operator::operator())
}

#[cfg(feature = "explore")]
fn main() -> std::process::ExitCode {
    kubewright_explore::main(project_operator::operator)
}
