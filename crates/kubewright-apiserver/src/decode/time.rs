//! Times and durations, read and written as Go does, with its error messages.

/// A text in quotes; unlike elsewhere, anything but plain ASCII is shown byte by byte.
fn quote(text: &str) -> String {
    let mut quoted = String::from('"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..=0x7f => quoted.push(char::from(byte)),
            other => quoted.push_str(&format!("\\x{other:02x}")),
        }
    }
    quoted.push('"');
    quoted
}

const SECONDS: [(&str, &str); 7] =
    [("", "2006"), ("-", "01"), ("-", "02"), ("T", "15"), (":", "04"), (":", "05"), ("", "Z07:00")];
const MICROSECONDS: [(&str, &str); 8] = [
    ("", "2006"),
    ("-", "01"),
    ("-", "02"),
    ("T", "15"),
    (":", "04"),
    (":", "05"),
    ("", ".000000"),
    ("", "Z07:00"),
];

/// A time of `metav1.Time`: whole seconds in UTC. Nothing for the zero time, which is written as `null`.
pub(crate) fn seconds(text: &str) -> Result<Option<String>, String> {
    let time = parse(text, &SECONDS)?;
    Ok(time.filter(|time| !is_zero(time)).map(|time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()))
}

/// A time of `metav1.MicroTime`: microseconds in UTC. Nothing for the zero time.
pub(crate) fn microseconds(text: &str) -> Result<Option<String>, String> {
    let time = parse(text, &MICROSECONDS)?;
    Ok(time.filter(|time| !is_zero(time)).map(|time| time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()))
}

fn is_zero(time: &jiff::civil::DateTime) -> bool {
    *time == jiff::civil::date(1, 1, 1).at(0, 0, 0, 0)
}

/// A number of one digit or two; of exactly two if `fixed`.
fn number(text: &str, fixed: bool) -> Option<(i64, &str)> {
    let digits = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    if digits == 0 || (fixed && digits == 1) {
        return None;
    }
    Some((text[..digits].parse().ok()?, &text[digits..]))
}

fn fraction(digits: &str) -> Option<i64> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = &digits[..digits.len().min(9)];
    let value: i64 = digits.parse().ok()?;
    Some(value * 10_i64.pow(9 - u32::try_from(digits.len()).ok()?))
}

/// Walks `text` along the chunks of a layout: a separator, then a field. `None` is a time that no calendar
/// has a place for once it is moved to UTC.
fn parse(text: &str, layout: &[(&str, &str)]) -> Result<Option<jiff::civil::DateTime>, String> {
    let whole =
        || quote(&layout.iter().flat_map(|(separator, field)| [*separator, *field]).collect::<String>());
    let bad = |rest: &str, chunk: &str| {
        format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quote(text),
            whole(),
            quote(rest),
            quote(chunk)
        )
    };
    let out_of_range = |what: &str| format!("parsing time {}: {what} out of range", quote(text));
    let mut rest = text;
    let (mut fields, mut nanoseconds, mut offset) = ([0_i64; 6], 0, 0);
    for (index, &(separator, chunk)) in layout.iter().enumerate() {
        rest = match rest.strip_prefix(separator) {
            Some(after) => after,
            None => return Err(bad(rest, separator)),
        };
        match chunk {
            "2006" => {
                let year = rest.get(..4).filter(|year| year.bytes().all(|byte| byte.is_ascii_digit()));
                let year = year.ok_or_else(|| bad(rest, chunk))?;
                fields[0] = year.parse().unwrap_or_default();
                rest = &rest[4..];
            }
            ".000000" => {
                let digits = rest.strip_prefix(['.', ',']).and_then(|digits| digits.get(..6));
                nanoseconds = digits.and_then(fraction).ok_or_else(|| bad(rest, chunk))?;
                rest = &rest[7..];
            }
            "Z07:00" => {
                let (hours, minutes, after) = zone(rest).ok_or_else(|| bad(rest, chunk))?;
                if hours.abs() > 24 {
                    return Err(out_of_range("time zone offset hour"));
                }
                if minutes.abs() > 60 {
                    return Err(out_of_range("time zone offset minute"));
                }
                (offset, rest) = (hours * 3600 + minutes * 60, after);
            }
            _ => {
                let (value, after) = number(rest, chunk != "15").ok_or_else(|| bad(rest, chunk))?;
                let name = match chunk {
                    "01" if !(1..=12).contains(&value) => "month",
                    "15" if value >= 24 => "hour",
                    "04" if value >= 60 => "minute",
                    "05" if value >= 60 => "second",
                    _ => "",
                };
                if !name.is_empty() {
                    return Err(out_of_range(name));
                }
                fields[index] = value;
                rest = after;
                // A fraction that the layout does not have is read all the same.
                if chunk == "05"
                    && layout[index + 1].1 != ".000000"
                    && let Some(after) = rest.strip_prefix(['.', ','])
                {
                    let digits = after.bytes().take_while(u8::is_ascii_digit).count();
                    if digits > 0 {
                        nanoseconds = fraction(&after[..digits]).unwrap_or_default();
                        rest = &after[digits..];
                    }
                }
            }
        }
    }
    if !rest.is_empty() {
        return Err(format!("parsing time {}: extra text: {}", quote(text), quote(rest)));
    }
    let small = |value: i64| i8::try_from(value).unwrap_or(i8::MAX);
    let [year, month, day, hour, minute, second] = fields;
    let time = jiff::civil::DateTime::new(
        i16::try_from(year).unwrap_or(i16::MAX),
        small(month),
        small(day),
        small(hour),
        small(minute),
        small(second),
        i32::try_from(nanoseconds).unwrap_or_default(),
    );
    let time = time.map_err(|_| out_of_range("day"))?;
    Ok(time.checked_sub(jiff::SignedDuration::from_secs(offset)).ok())
}

/// Hours and minutes to the east.
fn zone(text: &str) -> Option<(i64, i64, &str)> {
    if let Some(rest) = text.strip_prefix('Z') {
        return Some((0, 0, rest));
    }
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, rest) = number(&text[1..], true)?;
    let (minutes, rest) = number(rest.strip_prefix(':')?, true)?;
    Some((sign * hours, sign * minutes, rest))
}

/// A duration such as `1h30m`, in nanoseconds.
pub(crate) fn parse_duration(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {}", quote(text));
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let whole = digits(rest);
        let (whole, after) = rest.split_at(whole);
        let (part, after) = match after.strip_prefix('.') {
            Some(after) => after.split_at(digits(after)),
            None => ("", after),
        };
        if whole.is_empty() && part.is_empty() {
            return Err(invalid());
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let scale: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "" => return Err(format!("time: missing unit in duration {}", quote(text))),
            other => return Err(format!("time: unknown unit {} in duration {}", quote(other), quote(text))),
        };
        if !whole.is_empty() {
            let whole: i64 = whole.parse().map_err(|_| invalid())?;
            total += i128::from(whole) * scale;
        }
        let part = &part[..part.len().min(18)];
        if !part.is_empty() {
            let value: i128 = part.parse().map_err(|_| invalid())?;
            total += value * scale / 10_i128.pow(u32::try_from(part.len()).unwrap_or_default());
        }
        if total > i128::from(i64::MAX) + i128::from(negative) {
            return Err(invalid());
        }
        rest = after;
    }
    i64::try_from(if negative { -total } else { total }).map_err(|_| invalid())
}

/// A duration in nanoseconds as Go prints it, such as `1h30m0s`.
pub(crate) fn format_duration(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let amount = nanoseconds.unsigned_abs();
    let with_fraction = |value: u64, unit: u64, name: &str| {
        let width = unit.ilog10() as usize;
        let rest = format!("{:0width$}", value % unit);
        let rest = rest.trim_end_matches('0');
        if unit == 1 || rest.is_empty() {
            format!("{}{name}", value / unit)
        } else {
            format!("{}.{rest}{name}", value / unit)
        }
    };
    let text = match amount {
        0 => "0s".to_owned(),
        1..1_000 => format!("{amount}ns"),
        1_000..1_000_000 => with_fraction(amount, 1_000, "µs"),
        1_000_000..1_000_000_000 => with_fraction(amount, 1_000_000, "ms"),
        _ => {
            const MINUTE: u64 = 60_000_000_000;
            let seconds = with_fraction(amount % MINUTE, 1_000_000_000, "s");
            match (amount / MINUTE / 60, amount / MINUTE % 60) {
                (0, 0) => seconds,
                (0, minutes) => format!("{minutes}m{seconds}"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
            }
        }
    };
    format!("{sign}{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_moved_to_utc_and_cut_to_their_precision() {
        for (text, expected) in [
            ("2024-02-29T10:11:12Z", Some("2024-02-29T10:11:12Z")),
            ("2024-02-29T10:11:12.999Z", Some("2024-02-29T10:11:12Z")),
            ("2024-01-01T00:30:00+01:00", Some("2023-12-31T23:30:00Z")),
            ("0001-01-01T00:00:00Z", None),
        ] {
            assert_eq!(seconds(text).unwrap().as_deref(), expected, "{text}");
        }
        assert_eq!(
            microseconds("2024-01-01T00:00:00.123456+00:00").unwrap().as_deref(),
            Some("2024-01-01T00:00:00.123456Z")
        );
    }

    #[test]
    fn bad_times_are_refused_in_the_words_of_go() {
        const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
        for (text, why) in [
            ("x", format!("parsing time \"x\" as \"{LAYOUT}\": cannot parse \"x\" as \"2006\"")),
            (
                "2024-1-01",
                format!("parsing time \"2024-1-01\" as \"{LAYOUT}\": cannot parse \"1-01\" as \"01\""),
            ),
            (
                "2024-01-01",
                format!("parsing time \"2024-01-01\" as \"{LAYOUT}\": cannot parse \"\" as \"T\""),
            ),
            ("2024-13-01T00:00:00Z", "parsing time \"2024-13-01T00:00:00Z\": month out of range".to_owned()),
            ("2023-02-29T00:00:00Z", "parsing time \"2023-02-29T00:00:00Z\": day out of range".to_owned()),
            ("2023-02-28T00:00:00Zz", "parsing time \"2023-02-28T00:00:00Zz\": extra text: \"z\"".to_owned()),
        ] {
            assert_eq!(seconds(text).unwrap_err(), why);
        }
        assert_eq!(
            microseconds("2024-01-01T00:00:00Z").unwrap_err(),
            "parsing time \"2024-01-01T00:00:00Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"Z\" as \".000000\""
        );
        assert!(seconds("2024-01-01T00:00:0é").is_err());
    }

    #[test]
    fn durations_go_there_and_back() {
        for (text, canonical) in [
            ("0", "0s"),
            ("90m", "1h30m0s"),
            ("1.5s", "1.5s"),
            ("1500ms", "1.5s"),
            ("100us", "100µs"),
            ("-1h1ns", "-1h0m0.000000001s"),
            ("1.5h", "1h30m0s"),
        ] {
            assert_eq!(format_duration(parse_duration(text).unwrap()), canonical, "{text}");
        }
        for (text, why) in [
            ("", "time: invalid duration \"\""),
            ("5", "time: missing unit in duration \"5\""),
            ("5x", "time: unknown unit \"x\" in duration \"5x\""),
            (".s", "time: invalid duration \".s\""),
            ("9999999999h", "time: invalid duration \"9999999999h\""),
        ] {
            assert_eq!(parse_duration(text).unwrap_err(), why);
        }
    }
}
