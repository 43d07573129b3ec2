//! Points and spans of time, as Go's `time` package reads and writes them. The clock is never read.

use std::{cmp::Ordering, fmt};

use jiff::tz::TimeZone;

const NANOS_PER_SECOND: i128 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;
/// 0001-01-01T00:00:00Z.
const MIN_SECONDS: i64 = -62_135_596_800;
/// 9999-12-31T23:59:59Z.
const MAX_SECONDS: i64 = 253_402_300_799;

/// A point in time between the years 1 and 9999, with the offset it was written with.
#[derive(Debug, Clone, Copy)]
pub struct Timestamp {
    pub(crate) seconds: i64,
    nanos: u32,
    offset: i32,
}

impl PartialEq for Timestamp {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Timestamp {}

impl PartialOrd for Timestamp {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timestamp {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.seconds, self.nanos).cmp(&(other.seconds, other.nanos))
    }
}

/// The parts of a date and a time of day.
pub(crate) struct Civil {
    pub(crate) year: i64,
    pub(crate) month: i64,
    pub(crate) day: i64,
    pub(crate) day_of_year: i64,
    pub(crate) day_of_week: i64,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
    pub(crate) millisecond: i64,
}

fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Takes a number of exactly so many digits.
fn digits(text: &mut &str, count: usize) -> Option<i64> {
    let number = text.get(..count).filter(|number| number.bytes().all(|b| b.is_ascii_digit()))?;
    *text = &text[count..];
    number.parse().ok()
}

fn literal(text: &mut &str, expected: char) -> Option<()> {
    *text = text.strip_prefix(expected)?;
    Some(())
}

impl Timestamp {
    pub(crate) fn from_seconds(seconds: i64) -> Option<Self> {
        (MIN_SECONDS..=MAX_SECONDS).contains(&seconds).then_some(Self { seconds, nanos: 0, offset: 0 })
    }

    /// RFC 3339.
    pub fn parse(text: &str) -> Option<Self> {
        Self::parse_with_zone(text, false)
    }

    /// RFC 3339, or without an offset, or nothing at all, as OpenAPI's `date-time` is read.
    pub(crate) fn parse_lenient(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Self::from_seconds(MIN_SECONDS);
        }
        Self::parse_with_zone(text, true)
    }

    /// A date without a time.
    pub(crate) fn parse_date(text: &str) -> Option<Self> {
        let mut rest = text;
        let days = Self::date(&mut rest)?;
        rest.is_empty().then(|| Self::from_seconds(days * SECONDS_PER_DAY))?
    }

    fn date(text: &mut &str) -> Option<i64> {
        let year = digits(text, 4)?;
        literal(text, '-')?;
        let month = digits(text, 2).filter(|month| (1..=12).contains(month))?;
        literal(text, '-')?;
        let day = digits(text, 2).filter(|day| (1..=days_in_month(year, month)).contains(day))?;
        Some(days_from_civil(year, month, day))
    }

    fn parse_with_zone(text: &str, zone_optional: bool) -> Option<Self> {
        let mut rest = text;
        let days = Self::date(&mut rest)?;
        literal(&mut rest, 'T')?;
        let hour = digits(&mut rest, 2).filter(|hour| *hour < 24)?;
        literal(&mut rest, ':')?;
        let minute = digits(&mut rest, 2).filter(|minute| *minute < 60)?;
        literal(&mut rest, ':')?;
        let second = digits(&mut rest, 2).filter(|second| *second < 60)?;
        let mut nanos = 0;
        if let Some(fraction) = rest.strip_prefix(['.', ',']) {
            let length = fraction.bytes().take_while(u8::is_ascii_digit).count();
            if length == 0 {
                return None;
            }
            for position in 0..9 {
                let digit = fraction.as_bytes()[..length].get(position).map_or(0, |b| u32::from(b - b'0'));
                nanos = nanos * 10 + digit;
            }
            rest = &fraction[length..];
        }
        let offset = match rest {
            "Z" => 0,
            "" if zone_optional => 0,
            _ => {
                let sign = match rest.chars().next()? {
                    '+' => 1,
                    '-' => -1,
                    _ => return None,
                };
                rest = &rest[1..];
                let hours = digits(&mut rest, 2).filter(|hours| *hours <= 24)?;
                literal(&mut rest, ':')?;
                let minutes = digits(&mut rest, 2).filter(|minutes| *minutes < 60)?;
                if !rest.is_empty() {
                    return None;
                }
                sign * (hours * 3600 + minutes * 60)
            }
        };
        let seconds = days * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second - offset;
        Self::from_seconds(seconds).map(|time| Self { nanos, offset: offset as i32, ..time })
    }

    pub(crate) fn is_zero(self) -> bool {
        self.seconds == MIN_SECONDS && self.nanos == 0
    }

    fn total_nanos(self) -> i128 {
        i128::from(self.seconds) * NANOS_PER_SECOND + i128::from(self.nanos)
    }

    /// Nothing if the sum is out of range.
    pub(crate) fn add(self, nanos: i128) -> Option<Self> {
        let total = self.total_nanos() + nanos;
        let seconds = i64::try_from(total.div_euclid(NANOS_PER_SECOND)).ok()?;
        let nanos = total.rem_euclid(NANOS_PER_SECOND) as u32;
        Self::from_seconds(seconds).map(|time| Self { nanos, offset: self.offset, ..time })
    }

    /// Nothing if the difference is out of range.
    pub(crate) fn since(self, other: Self) -> Option<Span> {
        i64::try_from(self.total_nanos() - other.total_nanos()).ok().map(|nanos| Span { nanos })
    }

    /// Date and time in a zone: a name from the IANA database or an offset such as `-07:00`.
    pub(crate) fn civil(self, zone: Option<&str>) -> Option<Civil> {
        let offset = match zone {
            None => 0,
            Some(zone) => offset_in(zone, self.seconds)?,
        };
        let local = self.seconds + offset;
        let days = local.div_euclid(SECONDS_PER_DAY);
        let second = local.rem_euclid(SECONDS_PER_DAY);
        let (year, month, day) = civil_from_days(days);
        Some(Civil {
            year,
            month,
            day,
            day_of_year: days - days_from_civil(year, 1, 1),
            day_of_week: (days + 4).rem_euclid(7),
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
            millisecond: i64::from(self.nanos) / 1_000_000,
        })
    }
}

fn offset_in(zone: &str, seconds: i64) -> Option<i64> {
    if let Some((hours, minutes)) = zone.split_once(':') {
        let hours: i64 = hours.parse().ok()?;
        let minutes: i64 = minutes.parse().ok()?;
        let minutes = if zone.starts_with('-') { -minutes } else { minutes };
        return hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?);
    }
    if zone.is_empty() || zone == "UTC" {
        return Some(0);
    }
    let zone = TimeZone::get(zone).ok()?;
    let instant = jiff::Timestamp::from_second(seconds).ok()?;
    Some(i64::from(zone.to_offset(instant).seconds()))
}

/// RFC 3339 with as many digits as needed.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let local = self.seconds + i64::from(self.offset);
        let (year, month, day) = civil_from_days(local.div_euclid(SECONDS_PER_DAY));
        let second = local.rem_euclid(SECONDS_PER_DAY);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}",
            second / 3600,
            second / 60 % 60,
            second % 60
        )?;
        if self.nanos != 0 {
            let fraction = format!("{:09}", self.nanos);
            write!(f, ".{}", fraction.trim_end_matches('0'))?;
        }
        if self.offset == 0 {
            return f.write_str("Z");
        }
        let minutes = self.offset.abs() / 60;
        write!(f, "{}{:02}:{:02}", if self.offset < 0 { '-' } else { '+' }, minutes / 60, minutes % 60)
    }
}

/// A span of time of at most some 292 years.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    pub(crate) nanos: i64,
}

impl Span {
    /// Go's notation: numbers with units, such as `-1h30m` or `1.5s`.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, mut rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Some(Self { nanos: 0 });
        }
        if rest.is_empty() {
            return None;
        }
        let mut total: i128 = 0;
        while !rest.is_empty() {
            let whole = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (number, mut after) = rest.split_at(whole);
            let mut fraction = "";
            if let Some(stripped) = after.strip_prefix('.') {
                let length = stripped.bytes().take_while(u8::is_ascii_digit).count();
                (fraction, after) = stripped.split_at(length);
            }
            if number.is_empty() && fraction.is_empty() {
                return None;
            }
            let unit_length = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
            let (unit, next) = after.split_at(unit_length);
            let unit: i128 = match unit {
                "ns" => 1,
                "us" | "µs" | "μs" => 1_000,
                "ms" => 1_000_000,
                "s" => NANOS_PER_SECOND,
                "m" => 60 * NANOS_PER_SECOND,
                "h" => 3600 * NANOS_PER_SECOND,
                _ => return None,
            };
            let number: i128 = if number.is_empty() { 0 } else { number.parse::<i64>().ok()?.into() };
            total += number * unit;
            if !fraction.is_empty() {
                let digits = &fraction[..fraction.len().min(18)];
                let scale = 10_i128.pow(digits.len() as u32);
                total += digits.parse::<i128>().ok()? * unit / scale;
            }
            rest = next;
        }
        i64::try_from(if negative { -total } else { total }).ok().map(|nanos| Self { nanos })
    }

    /// Go's notation, or numbers with unit words up to weeks, as OpenAPI's `duration` is read.
    pub(crate) fn parse_lenient(text: &str) -> Option<Self> {
        if let Some(span) = Self::parse(text) {
            return Some(span);
        }
        let mut total: i128 = 0;
        let mut found = false;
        let mut rest = text;
        while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
            rest = &rest[start..];
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let number: i128 = rest[..digits].parse().ok()?;
            let after = rest[digits..].trim_start();
            let length = after.find(|c: char| !c.is_ascii_alphabetic() && c != 'µ').unwrap_or(after.len());
            rest = &after[length..];
            let unit = after[..length].to_lowercase();
            let unit: i128 = match unit.as_str() {
                "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => 1,
                "us" | "µs" | "micro" | "micros" | "microsecond" | "microseconds" => 1_000,
                "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1_000_000,
                "s" | "sec" | "secs" | "second" | "seconds" => NANOS_PER_SECOND,
                "m" | "min" | "mins" | "minute" | "minutes" => 60 * NANOS_PER_SECOND,
                "h" | "hr" | "hour" | "hours" => 3600 * NANOS_PER_SECOND,
                "d" | "day" | "days" => 86_400 * NANOS_PER_SECOND,
                "w" | "wk" | "week" | "weeks" => 7 * 86_400 * NANOS_PER_SECOND,
                _ => continue,
            };
            total = total.checked_add(number.checked_mul(unit)?)?;
            found = true;
        }
        i64::try_from(total).ok().filter(|_| found).map(|nanos| Self { nanos })
    }
}

/// Seconds, with as many digits as needed.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = (self.nanos / 1_000_000_000) as f64;
        let fraction = (self.nanos % 1_000_000_000) as f64 / 1e9;
        write!(f, "{}s", seconds + fraction)
    }
}
