//! One thing that is measured: its samples of both servers, its target, and whether that is met.

/// A thing that is measured.
pub(crate) struct Measure {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    higher_is_better: bool,
    target: Option<Target>,
    embedded: Vec<f64>,
    /// In the order of `embedded`, taken in the same round; empty if there is no counterpart.
    reference: Vec<f64>,
}

#[derive(Clone, Copy)]
enum Target {
    /// So many times better than the reference.
    Times(f64),
    /// A value of its own, or better.
    Value(f64),
}

impl Measure {
    /// Something of which less is better: a time, memory.
    pub(crate) fn less_is_better(name: impl Into<String>, unit: &'static str) -> Self {
        Self {
            name: name.into(),
            unit,
            higher_is_better: false,
            target: None,
            embedded: Vec::new(),
            reference: Vec::new(),
        }
    }

    /// Something of which more is better.
    pub(crate) fn more_is_better(name: impl Into<String>, unit: &'static str) -> Self {
        Self { higher_is_better: true, ..Self::less_is_better(name, unit) }
    }

    /// Sets the target: so many times better than the reference.
    pub(crate) fn at_least_times(mut self, times: f64) -> Self {
        self.target = Some(Target::Times(times));
        self
    }

    /// Sets the target: this value or better.
    pub(crate) fn reaching(mut self, value: f64) -> Self {
        self.target = Some(Target::Value(value));
        self
    }

    /// Gives it the samples.
    pub(crate) fn with(mut self, embedded: Vec<f64>, reference: Vec<f64>) -> Self {
        self.embedded = embedded;
        self.reference = reference;
        self
    }

    /// What the embedded server shows.
    pub(crate) fn embedded(&self) -> f64 {
        median(self.embedded.clone())
    }

    /// What the reference shows.
    pub(crate) fn reference(&self) -> Option<f64> {
        (!self.reference.is_empty()).then(|| median(self.reference.clone()))
    }

    /// How many times better than the reference: the median over the rounds.
    pub(crate) fn advantage(&self) -> Option<f64> {
        if self.reference.is_empty() {
            return None;
        }
        let ratio =
            |(ours, theirs): (&f64, &f64)| if self.higher_is_better { ours / theirs } else { theirs / ours };
        Some(median(self.embedded.iter().zip(&self.reference).map(ratio).collect()))
    }

    /// The target in words.
    pub(crate) fn target(&self) -> String {
        match self.target {
            None => String::new(),
            Some(Target::Times(times)) => format!("≥ {}×", number(times)),
            Some(Target::Value(value)) => {
                format!("{} {} {}", if self.higher_is_better { '≥' } else { '≤' }, number(value), self.unit)
            }
        }
    }

    /// Whether the target is met; `None` without one, or with nothing to compare.
    pub(crate) fn met(&self) -> Option<bool> {
        match self.target? {
            Target::Times(times) => self.advantage().map(|advantage| advantage >= times),
            Target::Value(value) if self.higher_is_better => Some(self.embedded() >= value),
            Target::Value(value) => Some(self.embedded() <= value),
        }
    }
}

/// The middle of some samples.
fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    let middle = samples.len() / 2;
    match samples.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => samples[middle],
        _ => f64::midpoint(samples[middle - 1], samples[middle]),
    }
}

/// A figure with three digits that count, thousands apart.
pub(crate) fn number(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 0.995 => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    let (whole, fraction) =
        text.split_once('.').map_or((text, None), |(whole, fraction)| (whole, Some(fraction)));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    match fraction {
        Some(fraction) => format!("{grouped}.{fraction}"),
        None => grouped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advantage_is_the_median_of_the_rounds() {
        let rate = Measure::more_is_better("creates", "/s")
            .at_least_times(10.0)
            .with(vec![100.0, 90.0, 500.0], vec![10.0, 10.0, 10.0]);
        assert_eq!(rate.advantage(), Some(10.0));
        assert_eq!(rate.met(), Some(true));
        let time = Measure::less_is_better("list", "ms")
            .at_least_times(5.0)
            .with(vec![10.0, 10.0], vec![40.0, 50.0]);
        assert_eq!(time.advantage(), Some(4.5));
        assert_eq!(time.met(), Some(false));
    }

    #[test]
    fn a_ratio_without_a_counterpart_is_neither_met_nor_missed() {
        let alone = Measure::less_is_better("list", "ms").at_least_times(5.0).with(vec![10.0], vec![]);
        assert_eq!((alone.met(), alone.advantage()), (None, None));
    }

    #[test]
    fn numbers_show_what_counts() {
        let cases = [
            (12_345.6, "12,346"),
            (999.6, "1,000"),
            (12.34, "12.3"),
            (10.0, "10"),
            (1.304, "1.3"),
            (0.0417, "0.042"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }
}
