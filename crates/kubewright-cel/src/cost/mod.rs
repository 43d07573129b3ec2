//! What an expression costs: estimated from declared sizes before it runs, and counted while it runs.

mod functions;
pub(crate) mod runtime;
mod statics;

pub(crate) use statics::estimate;

/// Cost of walking one character of a text.
const TRAVERSAL: f64 = 0.1;
/// Cost of one character of a pattern.
const PATTERN: f64 = 0.25;

/// The least and the most that something can cost, or how small and large something can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostRange {
    /// The least.
    pub min: u64,
    /// The most.
    pub max: u64,
}

impl CostRange {
    const UNKNOWN: Self = Self { min: 0, max: u64::MAX };
    const ZERO: Self = Self::fixed(0);

    const fn fixed(cost: u64) -> Self {
        Self { min: cost, max: cost }
    }

    fn add(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    fn multiply(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    fn times(self, factor: f64) -> Self {
        Self { min: scaled(self.min, factor), max: scaled(self.max, factor) }
    }

    fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// A multiple, rounded up; what is too large stays at the largest.
fn scaled(number: u64, factor: f64) -> u64 {
    (number as f64 * factor).ceil() as u64
}
