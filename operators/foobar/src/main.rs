//! The foobar operator as a program.

fn main() -> std::process::ExitCode {
    kubewright::main(foobar_operator::operator())
}
