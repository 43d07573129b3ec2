//! Decisions, taken from bytes: random ones in `cargo test`, those of a fuzzer in `fuzz/`.
//!
//! Once the bytes are used up every decision is the first one, so that all input is valid and ends.

/// A source of decisions.
#[derive(Debug)]
pub struct Choices<'a> {
    bytes: &'a [u8],
}

impl<'a> Choices<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        *first
    }

    pub fn number(&mut self) -> u64 {
        (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: usize) -> usize {
        if end <= 256 {
            return usize::from(self.byte()) * end / 256;
        }
        (usize::from(self.byte()) << 16 | usize::from(self.byte()) << 8 | usize::from(self.byte())) % end
    }

    /// True in one of `times` cases.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }

    pub fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[self.below(from.len())]
    }

    /// Some bytes as they are.
    pub fn raw(&mut self, up_to: usize) -> &'a [u8] {
        let length = self.below(up_to + 1).min(self.bytes.len());
        let (raw, rest) = self.bytes.split_at(length);
        self.bytes = rest;
        raw
    }
}
