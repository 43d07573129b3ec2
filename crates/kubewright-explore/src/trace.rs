//! What happened in a run, in order: what the operator called and was told, and what was done to it.

use std::{
    fmt,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::plan::Fault;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Entry {
    /// When, since the run began, in virtual time.
    pub at: Duration,
    /// The step of the scenario it belongs to.
    pub step: usize,
    /// What it was.
    pub what: What,
    /// The call, the event, or what was done.
    pub text: String,
    /// What it ended with: the status of an answer; 0 if there is none.
    pub code: u16,
    /// Stands for what was sent and answered.
    pub digest: u64,
    /// What went wrong there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
}

/// What kind of thing happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// The user changed the resource.
    Step,
    /// The operator wrote.
    Write,
    /// The operator read.
    Read,
    /// The operator asked a system outside of the cluster.
    Ask,
    /// The operator was told of a change.
    Event,
    /// The operator began, or ended.
    Operator,
    /// The operator logged something; only in what is run again.
    Log,
}

impl Entry {
    /// Whether both tell of the same happening, at whatever time.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        (self.what, &self.text, self.code) == (other.what, &other.text, other.code)
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at.as_secs_f64();
        let what = match self.what {
            What::Step => "user ",
            What::Write => "write",
            What::Read => "read ",
            What::Ask => "ask  ",
            What::Event => "event",
            What::Operator => "-----",
            What::Log => "log  ",
        };
        write!(f, "{seconds:9.3} s  {what}  {}", self.text)?;
        if self.code != 0 {
            write!(f, "  {}", self.code)?;
        }
        if let Some(fault) = self.fault {
            write!(f, "  <-- {fault}")?;
        }
        Ok(())
    }
}

/// What stands for some bytes.
pub(crate) fn digest(parts: &[&[u8]]) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

/// What stands for objects of a resource. Keys and certificates in them are random by nature, and left out.
pub(crate) fn digest_of(resource: &str, parts: &[&[u8]]) -> u64 {
    let may_have_keys = matches!(resource, "configmaps" | "secrets")
        || resource.ends_with(".apiextensions.k8s.io")
        || resource.ends_with(".admissionregistration.k8s.io");
    if !may_have_keys {
        return digest(parts);
    }
    let mut hasher = DefaultHasher::new();
    for part in parts {
        let mut rest = *part;
        while let Some(at) = PEM.iter().filter_map(|begin| find(rest, begin)).min() {
            rest[..at].hash(&mut hasher);
            let end = rest[at..].iter().position(|byte| *byte == b'"').unwrap_or(rest.len() - at);
            rest = &rest[at + end..];
        }
        rest.hash(&mut hasher);
    }
    hasher.finish()
}

/// The beginning of PEM, as it is and in base64.
const PEM: [&[u8]; 2] = [b"-----BEGIN", b"LS0tLS1CRUdJTi"];

/// Where some bytes are in others.
pub(crate) fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}
