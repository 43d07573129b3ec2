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
    ///
    /// If that is less than five milliseconds, the object comes back after a pause that grows each time in a row, as
    /// after errors, until a reconcile asks for anything else. Nothing counts as an error for that.
    pub fn after(pause: Duration) -> Self {
        Self(Some(pause))
    }

    pub(crate) fn pause(self) -> Option<Duration> {
        self.0
    }
}
