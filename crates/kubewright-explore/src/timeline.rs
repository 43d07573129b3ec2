//! Two runs side by side: what happened undisturbed, and what happened instead.

use crate::trace::{Entry, What};

/// A line of two timelines: what happened in both, or in one of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row<'t> {
    pub(crate) undisturbed: Option<&'t Entry>,
    pub(crate) disturbed: Option<&'t Entry>,
}

/// The two timelines, with what is alike on the same line. What is only told to the operator is left out, unless
/// something went wrong with it.
pub(crate) fn side_by_side<'t>(undisturbed: &'t [Entry], disturbed: &'t [Entry]) -> Vec<Row<'t>> {
    let is_shown = |entry: &&Entry| {
        entry.fault.is_some() || matches!(entry.what, What::Step | What::Write | What::Ask | What::Operator)
    };
    let left: Vec<&Entry> = undisturbed.iter().filter(is_shown).collect();
    let right: Vec<&Entry> = disturbed.iter().filter(is_shown).collect();
    let lengths = common(&left, &right);
    let (mut rows, mut at) = (Vec::new(), (0, 0));
    loop {
        let (one, other) = (left.get(at.0).copied(), right.get(at.1).copied());
        let (takes_left, takes_right) = match (one, other) {
            (None, None) => break,
            (Some(one), Some(other)) if one.is_like(other) => (true, true),
            (Some(_), Some(_)) => {
                let skips_left = lengths[at.0 + 1][at.1] >= lengths[at.0][at.1 + 1];
                (skips_left, !skips_left)
            }
            (one, other) => (one.is_some(), other.is_some()),
        };
        rows.push(Row { undisturbed: one.filter(|_| takes_left), disturbed: other.filter(|_| takes_right) });
        at = (at.0 + usize::from(takes_left), at.1 + usize::from(takes_right));
    }
    rows
}

/// How long the longest common rest of both is, from each place.
fn common(left: &[&Entry], right: &[&Entry]) -> Vec<Vec<usize>> {
    let mut lengths = vec![vec![0; right.len() + 1]; left.len() + 1];
    for (i, one) in left.iter().enumerate().rev() {
        for (j, other) in right.iter().enumerate().rev() {
            lengths[i][j] = match one.is_like(other) {
                true => lengths[i + 1][j + 1] + 1,
                false => lengths[i + 1][j].max(lengths[i][j + 1]),
            };
        }
    }
    lengths
}

impl Row<'_> {
    /// Whether it is a write that only one of the runs has.
    pub(crate) fn differs(&self) -> bool {
        let is_write = |entry: Option<&Entry>| entry.is_some_and(|entry| entry.what == What::Write);
        self.undisturbed.is_some() != self.disturbed.is_some()
            && (is_write(self.undisturbed) || is_write(self.disturbed))
    }
}
