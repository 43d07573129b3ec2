//! The memcached operator as a program.

#[cfg(not(feature = "explore"))]
fn main() -> std::process::ExitCode {
    kubewright::main(memcached_operator::operator())
}

#[cfg(feature = "explore")]
fn main() -> std::process::ExitCode {
    kubewright_explore::main(memcached_operator::operator)
}
