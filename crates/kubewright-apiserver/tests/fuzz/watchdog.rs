//! Ends the process when one request keeps the machine busy: virtual time does not pass while code runs, so
//! only the machine's own clock notices.

use std::{
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    time::Duration,
};

/// Far longer than any request takes, even unoptimised on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Watchdog(Sender<String>);

impl Watchdog {
    pub fn start() -> Self {
        let (sender, receiver) = channel::<String>();
        std::thread::spawn(move || {
            let mut current = String::new();
            loop {
                match receiver.recv_timeout(PATIENCE) {
                    Ok(next) => current = next,
                    Err(RecvTimeoutError::Timeout) => {
                        eprintln!("no answer after {PATIENCE:?} to\n{current}");
                        std::process::abort();
                    }
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        });
        Self(sender)
    }

    /// Says what happens next.
    pub fn next(&self, what: String) {
        // A watchdog that has gone away minds nothing.
        let _ = self.0.send(what);
    }
}
