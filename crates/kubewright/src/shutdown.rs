//! Asking everything to come to its end.

use tokio::sync::watch;

/// Whether to stop. Clones hear the same request.
#[derive(Debug, Clone)]
pub struct Shutdown(watch::Receiver<bool>);

/// Asks to stop. Dropping it asks, too.
#[derive(Debug)]
pub(crate) struct Stop(watch::Sender<bool>);

impl Stop {
    pub(crate) fn new() -> (Self, Shutdown) {
        let (sender, receiver) = watch::channel(false);
        (Self(sender), Shutdown(receiver))
    }

    pub(crate) fn request(&self) {
        self.0.send_replace(true);
    }
}

impl Shutdown {
    /// Waits until it is asked to stop.
    pub async fn requested(&self) {
        // An error means that nobody is left who could ask.
        let _ = self.0.clone().wait_for(|stop| *stop).await;
    }
}
