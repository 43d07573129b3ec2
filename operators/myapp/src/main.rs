//! The MyApp operator as a program.

fn main() -> std::process::ExitCode {
    kubewright::main(myapp_operator::operator())
}
