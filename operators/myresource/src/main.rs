//! The myresource operator as a program.

fn main() -> std::process::ExitCode {
    kubewright::main(myresource_operator::operator())
}
