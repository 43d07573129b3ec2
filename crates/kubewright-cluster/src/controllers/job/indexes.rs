//! Sets of completion indexes, written as `1,3-5,7`: few intervals, however many indexes there are.

use std::fmt;

/// A set of indexes, as intervals in order that neither overlap nor touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Indexes(Vec<(i32, i32)>);

impl Indexes {
    /// Reads a set; what is no index of a job with this many completions is left out.
    pub(super) fn parse(text: &str, completions: i32) -> Self {
        let intervals = text.split(',').filter_map(|interval| {
            let (first, last) = interval.split_once('-').unwrap_or((interval, interval));
            let (first, last): (i32, i32) = (first.parse().ok()?, last.parse().ok()?);
            (first < completions).then_some((first, last.min(completions - 1)))
        });
        Self::of_intervals(intervals.collect())
    }

    fn of_intervals(mut intervals: Vec<(i32, i32)>) -> Self {
        intervals.sort_unstable();
        let mut joined: Vec<(i32, i32)> = Vec::new();
        for (first, last) in intervals {
            match joined.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => joined.push((first, last)),
            }
        }
        Self(joined)
    }

    /// All that are in one of two sets.
    pub(super) fn union(&self, other: &Self) -> Self {
        Self::of_intervals(self.0.iter().chain(&other.0).copied().collect())
    }

    /// How many are in both of two sets.
    fn common(&self, other: &Self) -> i32 {
        let (mut mine, mut theirs, mut count) = (self.0.iter().peekable(), other.0.iter().peekable(), 0);
        while let (Some(one), Some(two)) = (mine.peek(), theirs.peek()) {
            count += (one.1.min(two.1) - one.0.max(two.0) + 1).max(0);
            if one.1 <= two.1 {
                mine.next();
            } else {
                theirs.next();
            }
        }
        count
    }

    /// Whether `wanted` of the indexes that are asked for are here, or all of them.
    pub(super) fn satisfies(&self, asked: &Self, wanted: Option<i32>) -> bool {
        let common = self.common(asked);
        common == asked.len() || wanted.is_some_and(|wanted| common >= wanted)
    }

    pub(super) fn contains(&self, index: i32) -> bool {
        let after = self.0.partition_point(|(_, last)| *last < index);
        self.0.get(after).is_some_and(|(first, _)| *first <= index)
    }

    pub(super) fn len(&self) -> i32 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// The first indexes below `completions` that are not here, at most `count` of them.
    pub(super) fn missing(&self, completions: i32, count: usize) -> Vec<i32> {
        let ends = self.0.iter().map(|(_, last)| last + 1);
        let starts = self.0.iter().map(|(first, _)| (*first).min(completions)).chain([completions]);
        std::iter::once(0).chain(ends).zip(starts).flat_map(|(from, to)| from..to).take(count).collect()
    }
}

impl FromIterator<i32> for Indexes {
    fn from_iter<I: IntoIterator<Item = i32>>(indexes: I) -> Self {
        Self::of_intervals(indexes.into_iter().map(|index| (index, index)).collect())
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (first, last)) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sets_are_written_as_people_read_them() {
        for text in ["", "0", "1,2", "1-3", "0,2-4,7,8,10-12"] {
            assert_eq!(Indexes::parse(text, 20).to_string(), text);
        }
        assert_eq!(Indexes::parse("1,2,3,x,9-30,40", 12).to_string(), "1-3,9-11");
    }

    proptest! {
        #[test]
        fn they_are_sets(
            one in prop::collection::btree_set(0..40i32, 0..30),
            other in prop::collection::btree_set(0..40i32, 0..30),
            completions in 0..50i32,
        ) {
            let (left, right): (Indexes, Indexes) = (one.iter().copied().collect(), other.iter().copied().collect());
            let both: BTreeSet<i32> = one.union(&other).copied().collect();
            prop_assert_eq!(&left.union(&right), &both.iter().copied().collect());
            prop_assert_eq!(usize::try_from(left.len()).unwrap(), one.len());
            prop_assert_eq!(usize::try_from(left.common(&right)).unwrap(), one.intersection(&other).count());
            prop_assert_eq!(&Indexes::parse(&left.to_string(), 40), &left);
            prop_assert!((0..45).all(|index| left.contains(index) == one.contains(&index)));
            let missing: Vec<i32> = (0..completions).filter(|index| !one.contains(index)).take(5).collect();
            prop_assert_eq!(left.missing(completions, 5), missing);
        }
    }
}
