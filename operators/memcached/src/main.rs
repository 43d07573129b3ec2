//! The memcached operator as a program.

fn main() -> std::process::ExitCode {
    kubewright::main(memcached_operator::operator())
}
