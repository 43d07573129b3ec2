//! When a reconcile that went well wants to be called again.

use std::time::Duration;

/// When to reconcile this object again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Next(Option<Duration>);

impl Next {
    /// When something changes: the object, or what it owns or watches.
    pub fn on_change() -> Self {
        Self(None)
    }

    /// After some time, or earlier when something changes.
    pub fn after(pause: Duration) -> Self {
        Self(Some(pause))
    }

    pub(crate) fn pause(self) -> Option<Duration> {
        self.0
    }
}
