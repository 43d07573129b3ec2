//! What the targets share: the driver of the bounded run in `cargo test`, and a runtime with virtual time.

#[path = "../../crates/kubewright-apiserver/tests/fuzz/choices.rs"]
pub mod choices;
#[path = "../../crates/kubewright-apiserver/tests/fuzz/client.rs"]
pub mod client;
#[path = "../../crates/kubewright-apiserver/tests/fuzz/driver.rs"]
pub mod driver;
#[path = "../../crates/kubewright-apiserver/tests/fuzz/mutate.rs"]
pub mod mutate;
#[path = "../../crates/kubewright-apiserver/tests/fuzz/objects.rs"]
pub mod objects;
#[path = "../../crates/kubewright-apiserver/tests/fuzz/requests.rs"]
pub mod requests;
#[path = "../../crates/kubewright-apiserver/tests/fuzz/watchdog.rs"]
pub mod watchdog;

use std::sync::LazyLock;

use driver::Driver;
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime"));
static DRIVER: LazyLock<Driver> = LazyLock::new(|| RUNTIME.block_on(Driver::new()));

/// Sends the requests that `bytes` decide on.
pub fn run(bytes: &[u8]) {
    RUNTIME.block_on(DRIVER.run(bytes, &mut |_, _| {}));
}

/// Sends one request to a server of its own and looks at the answer.
pub fn send(call: &client::Call) {
    RUNTIME.block_on(DRIVER.alone(call));
}
