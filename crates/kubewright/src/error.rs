//! What a reconcile can fail with, and what is to be done about it.

use std::{any::Any, error::Error as StdError, fmt, time::Duration};

use kube::core::Status;

/// What reconcilers return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something failed. Any error becomes one by `?`, and is then tried again with growing pauses, unless it
/// was said to be [terminal](Error::terminal).
///
/// ```
/// # use kubewright::{Error, Result};
/// fn size(text: &str) -> Result<u32> {
///     let size: u32 = text.parse()?;                                       // tried again
///     if size > 5 {
///         return Err(Error::terminal("spec.size: at most 5 are possible")); // not before the object changes
///     }
///     Ok(size)
/// }
/// ```
pub struct Error {
    source: Box<dyn StdError + Send + Sync>,
    is_terminal: bool,
}

impl Error {
    /// A failure that is tried again.
    pub fn new(why: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { source: why.into(), is_terminal: false }
    }

    /// A failure that trying again can't mend: it is not retried until the object changes.
    pub fn terminal(why: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { source: why.into(), is_terminal: true }
    }

    /// Whether it is not to be tried again until the object changes.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// The error as it was before it became this one.
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        self.chain().find_map(|error| error.downcast_ref())
    }

    /// The answer of the API server, if it was one.
    pub fn status(&self) -> Option<&Status> {
        self.chain().find_map(|error| match error.downcast_ref() {
            Some(kube::Error::Api(status)) => Some(&**status),
            _ => None,
        })
    }

    /// How long the API server asked to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = self.status()?.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    fn chain(&self) -> impl Iterator<Item = &(dyn StdError + 'static)> {
        let first: &(dyn StdError + 'static) = &*self.source;
        std::iter::successors(Some(first), |error: &&(dyn StdError + 'static)| (*error).source())
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        Self::new(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status() {
            // Of an answer its message counts; how it was packed does not.
            Some(status) => f.write_str(&status.message),
            None => self.source.fmt(f),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_terminal { "terminal: " } else { "" })?;
        fmt::Debug::fmt(&self.source, f)
    }
}

/// What a panic said.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a word")
}

#[cfg(test)]
mod tests {
    use kube::core::response::StatusDetails;

    use super::*;

    #[test]
    fn the_server_may_say_when_to_come_back() {
        let details: StatusDetails = serde_json::from_str(r#"{"retryAfterSeconds": 7}"#).unwrap();
        let status = Status::failure("too many requests", "TooManyRequests").with_details(details);
        let error = Error::from(kube::Error::Api(status.boxed()));
        assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
        assert_eq!(error.to_string(), "too many requests");
        assert_eq!(Error::new("else").retry_after(), None);
    }
}
