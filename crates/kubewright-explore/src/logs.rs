//! What the operator logs during a run.

use std::{
    io,
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

use crate::wire::Wire;

/// The logs of a run: kept while it lasts, and part of its trace if they are wanted there.
#[derive(Clone, Default)]
pub(crate) struct Logs(Arc<Inner>);

#[derive(Default)]
struct Inner {
    text: Mutex<String>,
    /// Where each line is told, too.
    wire: OnceLock<Wire>,
}

impl Logs {
    /// From now on, and until the answer is dropped, what is logged on this thread is kept here and printed nowhere.
    pub(crate) fn keep(&self) -> DefaultGuard {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::INFO)
            .without_time()
            .with_ansi(false)
            .with_writer(self.clone())
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    /// Each line is part of the trace from now on.
    pub(crate) fn tell(&self, wire: Wire) {
        let _ = self.0.wire.set(wire);
    }

    /// Whether a text was logged.
    pub(crate) fn contain(&self, text: &str) -> bool {
        self.0.text.lock().contains(text)
    }
}

impl<'a> MakeWriter<'a> for Logs {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl io::Write for Logs {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = String::from_utf8_lossy(bytes);
        self.0.text.lock().push_str(&line);
        if let Some(wire) = self.0.wire.get() {
            wire.log(line.trim_end());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
