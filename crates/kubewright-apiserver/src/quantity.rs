//! Amounts of resources: `500m`, `1Gi`, `1e3`.
//!
//! Text in, an exact decimal number out, and back to the canonical text that a server would store. Nothing
//! is smaller than a nano: what is, is rounded up. Amounts of more than 36 significant digits are rounded
//! up as well, which keeps the arithmetic in 128 bits; no real amount comes near that.

use std::{cmp::Ordering, fmt, str::FromStr};

/// How the text of an amount ends: with a power of ten, of two, or an exponent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `12e6`
    DecimalExponent,
    /// `12Mi`
    BinarySi,
    /// `12M`
    DecimalSi,
}

/// Why a text is no amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// It does not look like one at all.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// What should be a number is none.
    #[error("unable to parse numeric part of quantity")]
    Number,
    /// There is no such suffix.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// An amount of a resource. Two amounts are equal if they are worth the same, however they were written.
#[derive(Debug, Clone)]
pub struct Quantity {
    mantissa: i128,
    /// The power of ten by which the mantissa counts.
    scale: i32,
    format: Format,
    /// The text it was read from, if that needs no change.
    text: Option<Box<str>>,
}

const NANO: i32 = -9;
const MAX_DIGITS: usize = 36;
const DECIMAL_SUFFIXES: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY_SUFFIXES: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

fn power_of_ten(exponent: u32) -> Option<i128> {
    10_i128.checked_pow(exponent)
}

/// `mantissa / 10^digits`, away from zero; and whether nothing was lost.
fn shift_down(mantissa: i128, digits: u32) -> (i128, bool) {
    let Some(divisor) = power_of_ten(digits) else { return (mantissa.signum(), mantissa == 0) };
    let (quotient, rest) = (mantissa / divisor, mantissa % divisor);
    if rest == 0 { (quotient, true) } else { (quotient + mantissa.signum(), false) }
}

struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

fn split(text: &str) -> Result<Parts<'_>, QuantityError> {
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let rest = unsigned.trim_start_matches('0');
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (whole, rest) = rest.split_at(end);
    let whole = if whole.is_empty() { "0" } else { whole };
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => {
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            rest.split_at(end)
        }
        None => ("", rest),
    };
    let exponent = suffix.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
    let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(QuantityError::Format);
    }
    Ok(Parts { negative, whole, fraction, suffix })
}

/// The power that a suffix stands for: of two for [`Format::BinarySi`], else of ten.
fn interpret(suffix: &str) -> Option<(i32, Format)> {
    if let Some((_, exponent)) = DECIMAL_SUFFIXES.iter().find(|(name, _)| *name == suffix) {
        return Some((*exponent, Format::DecimalSi));
    }
    if let Some(index) = BINARY_SUFFIXES.iter().position(|name| *name == suffix) {
        return Some((10 * (i32::try_from(index).ok()? + 1), Format::BinarySi));
    }
    let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    // Beyond any meaning, but the arithmetic below has to stay within its numbers.
    let exponent = exponent.clamp(-1_000_000_000, 1_000_000_000);
    Some((i32::try_from(exponent).ok()?, Format::DecimalExponent))
}

impl Quantity {
    /// A whole number of something.
    pub fn new(value: i64, format: Format) -> Self {
        Self { mantissa: value.into(), scale: 0, format, text: None }
    }

    /// Reads an amount.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let parts = split(text)?;
        let (exponent, format) = interpret(parts.suffix).ok_or(QuantityError::Suffix)?;
        let digits = parts.whole.len() + parts.fraction.len();
        let places = i32::try_from(parts.fraction.len()).map_err(|_| QuantityError::Number)?;

        // What is written canonically keeps its text, and this alone decides what counts as canonical.
        let scale = if format == Format::BinarySi { 0 } else { exponent.saturating_sub(places) };
        let small = match format {
            Format::BinarySi => {
                // 2^10 is worth about three digits
                let precision =
                    14 - i64::try_from(parts.whole.len()).unwrap_or(i64::MAX) - i64::from(exponent) * 3 / 10;
                places == 0 && precision >= 0
            }
            _ => digits <= 18,
        };
        if small && scale >= NANO {
            let shifted = format!("{}{}", parts.whole, parts.fraction);
            let number: i64 = shifted.parse().map_err(|_| QuantityError::Number)?;
            let canonical = match format {
                Format::BinarySi => number & 7 != 0,
                _ => scale % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0'),
            };
            let factor = if format == Format::BinarySi { 1_i128 << exponent } else { 1 };
            let mantissa = i128::from(number) * factor * if parts.negative { -1 } else { 1 };
            let text = (canonical || text == "0").then(|| text.into());
            return Ok(Self { mantissa, scale, format, text });
        }
        let number = text.strip_suffix(parts.suffix).unwrap_or(text);
        if !number.bytes().any(|byte| byte.is_ascii_digit()) {
            return Err(QuantityError::Number);
        }
        Ok(Self::parse_large(&parts, exponent, format, places))
    }

    fn parse_large(parts: &Parts<'_>, exponent: i32, mut format: Format, places: i32) -> Self {
        let mut mantissa: i128 = 0;
        let (mut dropped, mut inexact, mut used) = (0_i32, false, 0_usize);
        for digit in parts.whole.bytes().chain(parts.fraction.bytes()).map(|byte| byte - b'0') {
            if used < MAX_DIGITS {
                mantissa = mantissa * 10 + i128::from(digit);
                used += usize::from(mantissa != 0);
            } else {
                dropped = dropped.saturating_add(1);
                inexact |= digit != 0;
            }
        }
        mantissa += i128::from(inexact);
        let mut scale = dropped.saturating_sub(places);
        if format == Format::BinarySi {
            let factor = 1_i128 << exponent;
            while mantissa.checked_mul(factor).is_none() {
                mantissa = shift_down(mantissa, 1).0;
                scale += 1;
            }
            mantissa *= factor;
        } else {
            scale = scale.saturating_add(exponent);
        }
        if scale < NANO {
            mantissa = shift_down(mantissa, NANO.abs_diff(scale)).0;
            scale = NANO;
        }
        let mut amount = Self { mantissa, scale, format, text: None };
        if format == Format::BinarySi {
            let most = Self::new(i64::MAX, format);
            if amount > most {
                amount = most;
            }
            if amount.mantissa != 0 && amount < Self::new(1, format) {
                format = Format::DecimalSi;
            }
            amount.format = format;
        }
        if parts.negative {
            amount.mantissa = -amount.mantissa;
        }
        amount
    }

    /// Whether it is nothing.
    pub fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    /// -1, 0 or 1.
    pub fn sign(&self) -> i32 {
        match self.mantissa.cmp(&0) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        }
    }

    /// The amount in units of `10^scale`, rounded away from zero, and at most what 64 bits hold.
    pub fn scaled_value(&self, scale: i32) -> i64 {
        let value = if self.scale < scale {
            shift_down(self.mantissa, scale.abs_diff(self.scale)).0
        } else {
            power_of_ten(self.scale.abs_diff(scale))
                .and_then(|factor| self.mantissa.checked_mul(factor))
                .unwrap_or(self.mantissa.signum() * i128::MAX)
        };
        i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
    }

    /// The amount in whole units, rounded away from zero.
    pub fn value(&self) -> i64 {
        self.scaled_value(0)
    }

    /// The amount in thousandths, rounded away from zero.
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(-3)
    }

    /// The amount as a whole number, if it is one that fits.
    pub fn as_i64(&self) -> Option<i64> {
        let whole = Self::new(self.value(), self.format);
        (whole == *self).then(|| self.value())
    }

    /// The amount as the nearest floating-point number.
    pub fn as_f64(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "approximate by its contract")]
        let base = self.mantissa as f64;
        base * 10_f64.powi(self.scale)
    }

    /// Rounds away from zero to a multiple of `10^scale`.
    #[must_use]
    pub fn round_up(mut self, scale: i32) -> Self {
        if self.scale < scale {
            let (mantissa, exact) = shift_down(self.mantissa, scale.abs_diff(self.scale));
            if !exact {
                self.text = None;
            }
            (self.mantissa, self.scale) = (mantissa, scale);
        }
        self
    }

    /// The sum of both, written as the first unless that is zero.
    #[must_use]
    pub fn add(&self, other: &Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        let (left, right, scale) = self.aligned(other);
        Self { mantissa: left.saturating_add(right), scale, format, text: None }
    }

    /// What is left of the first without the second.
    #[must_use]
    pub(crate) fn subtract(&self, other: &Self) -> Self {
        self.add(&Self { mantissa: -other.mantissa, text: None, ..other.clone() })
    }

    /// Both mantissas at the finer of the two scales.
    fn aligned(&self, other: &Self) -> (i128, i128, i32) {
        let scale = match (self.is_zero(), other.is_zero()) {
            (true, _) => other.scale,
            (_, true) => self.scale,
            _ => self.scale.min(other.scale),
        };
        let at = |quantity: &Self| {
            if quantity.is_zero() {
                return 0;
            }
            power_of_ten(quantity.scale.abs_diff(scale))
                .and_then(|factor| quantity.mantissa.checked_mul(factor))
                .unwrap_or(quantity.mantissa.signum() * i128::MAX)
        };
        (at(self), at(other), scale)
    }

    /// The mantissa and exponent whose exponent is a multiple of three and whose mantissa is smallest.
    fn engineering(&self) -> (i128, i32) {
        let (mut mantissa, mut exponent) = (self.mantissa, self.scale);
        while mantissa % 10 == 0 && mantissa != 0 {
            mantissa /= 10;
            exponent += 1;
        }
        match exponent.rem_euclid(3) {
            1 => (mantissa.saturating_mul(10), exponent - 1),
            2 => (mantissa.saturating_mul(100), exponent - 2),
            _ => (mantissa, exponent),
        }
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for Quantity {
    /// The canonical text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = &self.text {
            return f.write_str(text);
        }
        if self.is_zero() {
            return f.write_str("0");
        }
        let kibi = Self::new(1024, self.format);
        if self.format == Format::BinarySi
            && (*self >= kibi || *self <= Self::new(-1024, self.format))
            && let Some(mut value) = self.as_i64()
        {
            let mut suffix = "";
            for name in BINARY_SUFFIXES {
                if value % 1024 != 0 {
                    break;
                }
                value /= 1024;
                suffix = name;
            }
            return write!(f, "{value}{suffix}");
        }
        let (mantissa, exponent) = self.engineering();
        if self.format == Format::DecimalExponent {
            return if exponent == 0 { write!(f, "{mantissa}") } else { write!(f, "{mantissa}e{exponent}") };
        }
        let suffix =
            DECIMAL_SUFFIXES.iter().find(|(_, power)| *power == exponent).map_or("", |(name, _)| name);
        write!(f, "{mantissa}{suffix}")
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.scale == other.scale || self.sign() != other.sign() {
            return self.mantissa.cmp(&other.mantissa);
        }
        // The coarser of the two is brought down to the finer one; too large to do so is larger.
        let difference = self.scale.abs_diff(other.scale);
        let raised =
            |mantissa: i128| power_of_ten(difference).and_then(|factor| mantissa.checked_mul(factor));
        let beyond = if self.sign() < 0 { Ordering::Less } else { Ordering::Greater };
        if self.scale > other.scale {
            raised(self.mantissa).map_or(beyond, |mantissa| mantissa.cmp(&other.mantissa))
        } else {
            raised(other.mantissa).map_or(beyond.reverse(), |mantissa| self.mantissa.cmp(&mantissa))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_canonical() {
        for (text, canonical) in [
            ("0", "0"),
            ("0m", "0"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("1.500", "1.500"), // a server keeps what already has an exponent of three
            ("0.500", "500m"),
            ("+5", "+5"),
            ("1000", "1k"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("100000", "100k"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("1Ki", "1Ki"),
            ("1000Ki", "1000Ki"),
            ("0.1Mi", "104857600m"),
            ("1e3", "1e3"),
            ("1000e0", "1e3"),
            ("1E", "1E"),
            ("1E3", "1E3"),
            ("12e-3", "12e-3"),
            ("0.0000000001", "1n"),
            ("-0.0000000001", "-1n"),
            ("1e-100", "1e-9"),
            ("100Ei", "9223372036854775807"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("m", "0"),
            (".5", "500m"),
            ("5.", "5."),
        ] {
            let parsed = Quantity::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(parsed.to_string(), canonical, "{text}");
            assert_eq!(Quantity::parse(canonical).unwrap(), parsed, "{text}");
        }
    }

    #[test]
    fn what_is_no_amount_is_refused_with_its_reason() {
        for (text, error) in [
            ("", QuantityError::Format),
            ("abc", QuantityError::Format),
            ("1 ", QuantityError::Format),
            ("1.2.3", QuantityError::Format),
            ("1e", QuantityError::Suffix),
            ("1ki", QuantityError::Suffix),
            ("Pi", QuantityError::Number),
            ("1Kim", QuantityError::Suffix),
            ("ä", QuantityError::Format),
        ] {
            assert_eq!(Quantity::parse(text).unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn amounts_compare_by_worth() {
        let read = |text: &str| Quantity::parse(text).unwrap();
        assert_eq!(read("1"), read("1000m"));
        assert_eq!(read("1Ki"), read("1024"));
        for (less, more) in
            [("1", "1001m"), ("-1", "0"), ("1", "1e1000"), ("-1e1000", "-1"), ("1n", "1"), ("999Mi", "1Gi")]
        {
            assert!(read(less) < read(more), "{less} {more}");
            assert!(read(more) > read(less), "{more} {less}");
        }
        assert_eq!(
            (read("1500m").value(), read("-1500m").value(), read("2k").milli_value()),
            (2, -2, 2_000_000)
        );
        assert_eq!(
            (read("1500m").as_i64(), read("2k").as_i64(), read("1e30").as_i64()),
            (None, Some(2000), None)
        );
        assert_eq!((read("0").sign(), read("-1m").sign()), (0, -1));
    }

    #[test]
    fn sums_keep_the_way_of_writing() {
        let read = |text: &str| Quantity::parse(text).unwrap();
        assert_eq!(read("1Gi").add(&read("512Mi")).to_string(), "1536Mi");
        assert_eq!(read("0").add(&read("512Mi")).to_string(), "512Mi");
        assert_eq!(read("1500u").round_up(-3).to_string(), "2m");
        assert_eq!(read("1500m").round_up(-3).to_string(), "1500m");
    }
}
