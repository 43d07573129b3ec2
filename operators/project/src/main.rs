//! The Project operator as a program.

fn main() -> std::process::ExitCode {
    kubewright::main(project_operator::operator())
}
