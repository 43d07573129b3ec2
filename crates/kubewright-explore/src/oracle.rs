//! What must hold, whatever goes wrong: each oracle by its name.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One thing that must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Oracle {
    /// After the faults, the same objects are there as in the undisturbed run.
    EndState,
    /// The operator comes to rest, and then writes nothing: not with time, not at a resync, not after a restart.
    Converges,
    /// Nothing is deleted or made smaller that the resource does not ask to be.
    Destruction,
    /// Nothing is left behind.
    Leaks,
    /// What is reached for a spec does not depend on what was there before.
    History,
    /// The status says what is so.
    Status,
    /// No panic, no task left over, no flood of calls, and pauses are kept.
    Budget,
    /// Nothing that a former leader writes is accepted.
    Fencing,
    /// The operator's own Role suffices, and no secret is told.
    Rights,
    /// The same plan gives the same run.
    Replay,
    /// What the author says must always hold.
    Always,
    /// What the author says must hold at last.
    Eventually,
    /// What the author says must hold at some time in some run.
    Sometimes,
}

impl Oracle {
    /// All there are.
    pub const ALL: [Self; 13] = [
        Self::EndState,
        Self::Converges,
        Self::Destruction,
        Self::Leaks,
        Self::History,
        Self::Status,
        Self::Budget,
        Self::Fencing,
        Self::Rights,
        Self::Replay,
        Self::Always,
        Self::Eventually,
        Self::Sometimes,
    ];

    /// Its name, as in reports and on the command line.
    pub fn name(self) -> String {
        serde_json::to_value(self).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// The one of a name.
    pub fn named(name: &str) -> Option<Self> {
        serde_json::from_value(name.into()).ok()
    }

    /// The heading under which the book tells of it.
    pub(crate) fn chapter(self) -> String {
        match self {
            Self::Always | Self::Eventually | Self::Sometimes => "your-own".to_owned(),
            _ => self.name(),
        }
    }

    /// What a finding of it means, and what usually mends it.
    pub fn explanation(self) -> &'static str {
        match self {
            Self::EndState => {
                "After the faults the operator came to rest, but not where it comes to rest undisturbed. Usually a \
                 reconcile did two things in a row and takes the first as a sign that both are done: look at what is \
                 there each time, and apply all of it."
            }
            Self::Converges => {
                "The operator does not come to rest, or writes though nothing has changed. Usually something is \
                 written that differs each time (a timestamp, an order), or a state kept in memory or in the status \
                 waits for something that will not come."
            }
            Self::Destruction => {
                "Something was deleted or made smaller that the resource does not ask to be. Usually an old view was \
                 taken for the present: delete with the UID that was seen, and read what you are about to destroy from \
                 the server first."
            }
            Self::Leaks => {
                "Something is left that nobody will remove. Usually it was created after the finalizer was removed, \
                 has no owner, or the finalizer waits for something that will not come."
            }
            Self::History => {
                "What is reached for a spec depends on what was there before. Usually something is only added to, \
                 never taken away, or changes are held back until a state is reached that a bad change prevents."
            }
            Self::Status => {
                "The status says something that is not so. Usually it is written before the work is done, or from what was \
                 meant rather than from what the children say."
            }
            Self::Budget => {
                "The operator panicked, hung, flooded the server, left a task behind or did not wait as long as it was told."
            }
            Self::Fencing => {
                "A replica that does not lead any more has written. Usually with a client that does not know of the election, \
                 or in a task that nobody awaits."
            }
            Self::Rights => "The operator did what its Role does not allow, or told a secret.",
            Self::Replay => {
                "The same plan gave another run. Usually the machine's clock, a random number that is not the \
                 operator's, or the order of a hash map shows."
            }
            Self::Always | Self::Eventually | Self::Sometimes => {
                "What the author of the operator demands did not hold."
            }
        }
    }
}

impl fmt::Display for Oracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// That something did not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// What.
    pub oracle: Oracle,
    /// What was seen.
    pub seen: String,
}

impl Violation {
    pub(crate) fn new(oracle: Oracle, seen: impl Into<String>) -> Self {
        Self { oracle, seen: seen.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_book_tells_of_every_oracle() {
        let book = include_str!("../../../docs/howto/reliability.md");
        for oracle in Oracle::ALL {
            let heading = format!("\n## {}\n", oracle.chapter().replace("your-own", "Your own"));
            assert!(book.contains(&heading), "{oracle}");
        }
    }

    #[test]
    fn the_book_tells_of_every_fault() {
        let book = include_str!("../../../docs/howto/reliability.md");
        for fault in crate::Fault::all() {
            assert!(book.contains(&format!("`{fault}`")), "{fault}");
        }
    }
}
