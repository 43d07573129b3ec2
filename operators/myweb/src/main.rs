//! The MyWeb operator as a program.

fn main() -> std::process::ExitCode {
    kubewright::main(myweb_operator::operator())
}
