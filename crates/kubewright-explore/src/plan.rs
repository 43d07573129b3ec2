//! A plan: what is done to an operator, and where. The same plan gives the same run.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where in a run something happens: at a call, or at the delivery of an event, of which there may be many alike.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Point {
    /// The step of the scenario.
    pub step: String,
    /// What is called or delivered, such as `apply deployments.apps default/sample`.
    pub call: String,
    /// The how-manieth of its like it is in that step, from 1.
    pub occurrence: u32,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.step, self.call)?;
        match self.occurrence {
            1 => Ok(()),
            n => write!(f, " (no. {n})"),
        }
    }
}

/// Something that goes wrong at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The operator dies before the write.
    CrashBefore,
    /// The operator dies after the write, before it hears of it.
    CrashAfter,
    /// The operator dies after the write, and is started again only after the next change of the resource.
    CrashPastChange,
    /// The operator dies before the write, and is started again only after the next change of the resource.
    CrashBeforePastChange,
    /// The write is refused: somebody else was faster.
    Conflict,
    /// The call is refused: there were too many.
    TooManyRequests,
    /// The call fails inside of the server.
    InternalError,
    /// The server can't be had, and not for this call for some seconds.
    Unavailable,
    /// The call never arrives, and nobody answers.
    TimeoutLost,
    /// The write is done, but nobody answers.
    TimeoutApplied,
    /// The write is refused by an admission webhook, for some seconds.
    Denied,
    /// What was written is deleted by somebody else.
    ChildDeleted,
    /// The same, but when all has come to rest.
    ChildDeletedLater,
    /// A pod goes without a goodbye.
    PodLost,
    /// All nodes are cut off for a while.
    NodeLost,
    /// The machine of the operator sleeps for an hour.
    ClockJump,
    /// Every call takes long for a while.
    SlowApi,
    /// The definition of the resource is changed: one more optional field.
    SchemaChange,
    /// The operator loses its connection and the lease, and another replica leads while it still believes it does.
    TwoLeaders,
    /// The answer is as old as the last change of the resource.
    StaleRead,
    /// The watch breaks off before the event.
    Disconnect,
    /// The server has forgotten where the watch was: everything is read again.
    Gone,
    /// The event comes late, and everything after it.
    Delay,
    /// The event comes late, after the next change of the resource.
    DelayPastChange,
    /// Only the last of several events is seen.
    Coalesce,
    /// The event comes twice.
    Duplicate,
    /// The operator is restarted and sees for a while what was before the last change of the resource.
    TimeTravel,
    /// The same, but before the change before that.
    TimeTravelFar,
    /// The operator is restarted and sees for a while the resource as it was before its last change, everything else
    /// as it is.
    StaleResource,
    /// The same, but before the change before that.
    StaleResourceFar,
}

impl Fault {
    /// Those that may befall a write.
    pub const OF_WRITES: [Self; 19] = [
        Self::CrashBefore,
        Self::CrashAfter,
        Self::CrashPastChange,
        Self::CrashBeforePastChange,
        Self::Conflict,
        Self::TooManyRequests,
        Self::InternalError,
        Self::Unavailable,
        Self::TimeoutLost,
        Self::TimeoutApplied,
        Self::Denied,
        Self::ChildDeleted,
        Self::ChildDeletedLater,
        Self::PodLost,
        Self::NodeLost,
        Self::ClockJump,
        Self::SlowApi,
        Self::SchemaChange,
        Self::TwoLeaders,
    ];
    /// Those that may befall a read that goes to the server.
    pub const OF_READS: [Self; 4] =
        [Self::InternalError, Self::TooManyRequests, Self::TimeoutLost, Self::StaleRead];
    /// Those that may befall a call of a system outside of the cluster.
    pub const OF_ASKS: [Self; 5] =
        [Self::CrashBefore, Self::CrashAfter, Self::Unavailable, Self::TimeoutLost, Self::TimeoutApplied];
    /// Those that may befall an event of a watch.
    pub const OF_DELIVERIES: [Self; 10] = [
        Self::Disconnect,
        Self::Gone,
        Self::Delay,
        Self::DelayPastChange,
        Self::Coalesce,
        Self::Duplicate,
        Self::TimeTravel,
        Self::TimeTravelFar,
        Self::StaleResource,
        Self::StaleResourceFar,
    ];

    /// Those that may befall an operator that has come to rest.
    pub const OF_REST: [Self; 4] =
        [Self::TimeTravel, Self::TimeTravelFar, Self::StaleResource, Self::StaleResourceFar];

    /// All there are, each once.
    pub fn all() -> Vec<Self> {
        let mut all: Vec<Self> = [&Self::OF_WRITES[..], &Self::OF_READS, &Self::OF_DELIVERIES].concat();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether the operator is started anew.
    pub(crate) fn restarts(self) -> bool {
        matches!(
            self,
            Self::CrashBefore
                | Self::CrashAfter
                | Self::CrashPastChange
                | Self::CrashBeforePastChange
                | Self::TimeTravel
                | Self::TimeTravelFar
                | Self::StaleResource
                | Self::StaleResourceFar
        )
    }

    /// Whether the operator is dead as soon as it strikes.
    pub(crate) fn kills(self) -> bool {
        let lives_on = [Self::CrashAfter, Self::CrashPastChange, Self::CrashBeforePastChange];
        self.restarts() && !lives_on.contains(&self)
    }

    /// How it begins, if others begin like it.
    pub(crate) fn beginning(self) -> Option<Beginning> {
        match self {
            Self::Delay | Self::Coalesce | Self::DelayPastChange => Some(Beginning::Late),
            _ => self.past().map(|_| Beginning::Death),
        }
    }

    /// How many changes ago it was what an operator sees that is started anew, and whether only the resource is seen so.
    pub(crate) fn past(self) -> Option<(usize, bool)> {
        match self {
            Self::TimeTravel => Some((1, false)),
            Self::TimeTravelFar => Some((2, false)),
            Self::StaleResource => Some((1, true)),
            Self::StaleResourceFar => Some((2, true)),
            _ => None,
        }
    }

    /// Its name, as in plans and on the command line.
    pub fn name(self) -> String {
        serde_json::to_value(self).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// The one of a name.
    pub fn named(name: &str) -> Option<Self> {
        serde_json::from_value(name.into()).ok()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// What faults that strike in the same place have in common at first. So far their runs are one, and then go their own ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// An event comes late.
    Late,
    /// The operator dies, and will see the past.
    Death,
}

/// A fault, and where it strikes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Planned {
    /// Where.
    #[serde(flatten)]
    pub point: Point,
    /// What.
    pub fault: Fault,
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.fault, self.point)
    }
}
