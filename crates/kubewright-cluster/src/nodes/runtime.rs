//! What runs containers. Everything around them, from statuses to restarts, is the same whatever does.

use std::{fmt, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use kubewright::Key;
use kubewright_apiserver::LogLine;
use tokio::sync::mpsc;

/// One run of a container: the first, or one of its restarts.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// The container.
    pub container: &'a Container,
    /// How often it was restarted before.
    pub restarts: i32,
    /// When this run was asked for first.
    pub asked: Timestamp,
    /// Whether it was running already when this process started: it goes on since `asked`.
    pub is_resumed: bool,
}

/// How a run is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doing {
    /// It will run soon.
    Starting,
    /// It can't be started, for a reason as a kubelet gives it, such as `ErrImagePull`.
    Stuck {
        /// One word.
        reason: String,
        /// What is wrong.
        message: String,
    },
    /// It runs.
    Running {
        /// Since when.
        since: Timestamp,
        /// Whether its startup probe has succeeded.
        is_started: bool,
        /// Whether its readiness probe succeeds.
        is_ready: bool,
        /// What a probe has against it.
        failing: Option<Failure>,
    },
    /// It has ended.
    Exited {
        /// Since when it ran.
        since: Timestamp,
        /// When it ended.
        at: Timestamp,
        /// Its exit code.
        code: i32,
        /// One word, if it is neither `Completed` nor `Error`.
        reason: Option<String>,
        /// What a probe had against it, if it was killed for that.
        killed_for: Option<Failure>,
    },
}

/// A probe of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// Whether it has started.
    Startup,
    /// Whether it is to be reached.
    Readiness,
    /// Whether it is still alive.
    Liveness,
}

impl Probe {
    /// Its name, as events say it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Readiness => "Readiness",
            Self::Liveness => "Liveness",
        }
    }
}

/// A probe that fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Which one.
    pub probe: Probe,
    /// What it has found.
    pub output: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} probe failed: {}", self.probe.name(), self.output)
    }
}

/// What is seen of a run, and when there will be something else to see, if that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sight {
    /// How it is doing.
    pub doing: Doing,
    /// When it will be doing something else; nothing if it is not known, or told otherwise.
    pub until: Option<Timestamp>,
}

/// Runs containers.
pub trait Runtime: Send + Sync + 'static {
    /// Runs a container, if it does not run yet, and says how it is doing. It is asked again and again.
    fn run(&self, run: &Run<'_>, now: Timestamp) -> Sight;

    /// Ends a run that was asked to end at `since` and may take `grace` for it, and says how it is doing.
    fn stop(&self, run: &Run<'_>, since: Timestamp, grace: Duration, now: Timestamp) -> Sight;

    /// What a run has written so far.
    fn logs(&self, run: &Run<'_>, now: Timestamp) -> Vec<LogLine>;

    /// Nothing of this pod is needed any more.
    fn forget(&self, pod: &Pod) {
        let _ = pod;
    }

    /// Pods whose containers have changed by themselves are told of here. Asked for once.
    fn changes(&self) -> Option<mpsc::Receiver<Key>> {
        None
    }
}
