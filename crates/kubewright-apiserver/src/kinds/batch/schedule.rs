//! Whether a text is a cron schedule or the name of a time zone, in the words of the Go packages that
//! Kubernetes uses for it.

/// The names of time zones there are, sorted, one a line.
const TIME_ZONES: &str = include_str!("time_zones.txt");

struct Field {
    min: u32,
    max: u32,
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field { min: 0, max: 59, names: &[] },
    Field { min: 0, max: 23, names: &[] },
    Field { min: 1, max: 31, names: &[] },
    Field {
        min: 1,
        max: 12,
        names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    },
    Field { min: 0, max: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];

/// Checks a schedule: five fields, or a descriptor such as `@daily`.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    if schedule.is_empty() {
        return Err("empty spec string".to_owned());
    }
    let mut spec = schedule;
    for prefix in ["TZ=", "CRON_TZ="] {
        if let Some(rest) = schedule.strip_prefix(prefix) {
            let Some((zone, rest)) = rest.split_once(' ') else {
                let end = schedule.find('=').map_or(0, |at| at + 1);
                return Err(format!(
                    "invalid schedule format: runtime error: slice bounds out of range [{end}:-1]"
                ));
            };
            if !zone.is_empty() && !is_time_zone(zone) {
                return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
            }
            spec = rest.trim();
            break;
        }
    }
    if spec.starts_with('@') {
        return descriptor(spec);
    }
    let parts: Vec<&str> = spec.split_whitespace().collect();
    if parts.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", parts.len(), parts.join(" ")));
    }
    for (part, field) in parts.iter().zip(&FIELDS) {
        for range in part.split(',').filter(|range| !range.is_empty()) {
            check_range(range, field)?;
        }
    }
    Ok(())
}

fn descriptor(text: &str) -> Result<(), String> {
    match text {
        "@yearly" | "@annually" | "@monthly" | "@weekly" | "@daily" | "@midnight" | "@hourly" => Ok(()),
        _ => match text.strip_prefix("@every ") {
            Some(duration) if is_duration(duration) => Ok(()),
            Some(duration) => {
                Err(format!("failed to parse duration {text}: time: invalid duration \"{duration}\""))
            }
            None => Err(format!("unrecognized descriptor: {text}")),
        },
    }
}

/// Whether Go would read this as a duration, such as `1h30m`.
fn is_duration(text: &str) -> bool {
    let mut rest = text.trim_start_matches(['+', '-']);
    if text.len() - rest.len() > 1 {
        return false;
    }
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, unit) = rest.split_at(end);
        if !number.bytes().any(|byte| byte.is_ascii_digit()) || number.matches('.').count() > 1 {
            return false;
        }
        let Some(unit) = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"].iter().find(|one| {
            let after = unit.strip_prefix(**one);
            after.is_some_and(|after| {
                after.is_empty() || after.starts_with(|c: char| c.is_ascii_digit() || c == '.')
            })
        }) else {
            return false;
        };
        rest = &rest[end + unit.len()..];
    }
    true
}

fn check_range(range: &str, field: &Field) -> Result<(), String> {
    let stepped: Vec<&str> = range.split('/').collect();
    let bounds: Vec<&str> = stepped[0].split('-').collect();
    let (start, mut end) = match bounds.as_slice() {
        ["*" | "?", ..] => (field.min, field.max),
        [one] => number_or_name(one, field).map(|one| (one, one))?,
        [low, high] => (number_or_name(low, field)?, number_or_name(high, field)?),
        _ => {
            number_or_name(bounds[0], field)?;
            return Err(format!("too many hyphens: {range}"));
        }
    };
    let step = match stepped.as_slice() {
        [_] => 1,
        [_, step] => {
            if bounds.len() == 1 {
                end = field.max;
            }
            number(step)?
        }
        _ => return Err(format!("too many slashes: {range}")),
    };
    if start < field.min {
        return Err(format!("beginning of range ({start}) below minimum ({}): {range}", field.min));
    }
    if end > field.max {
        return Err(format!("end of range ({end}) above maximum ({}): {range}", field.max));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {range}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {range}"));
    }
    Ok(())
}

fn number_or_name(text: &str, field: &Field) -> Result<u32, String> {
    let named = field.names.iter().position(|name| text.eq_ignore_ascii_case(name));
    match named.and_then(|index| u32::try_from(index).ok()) {
        Some(index) => Ok(index + field.min),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u32, String> {
    match text.parse::<i64>() {
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => Ok(u32::try_from(number).unwrap_or(u32::MAX)),
        Err(_) => {
            Err(format!("failed to parse int from {text}: strconv.Atoi: parsing \"{text}\": invalid syntax"))
        }
    }
}

/// Whether there is a time zone of this name.
pub(super) fn is_time_zone(name: &str) -> bool {
    TIME_ZONES.lines().any(|zone| zone == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read_as_cron_does() {
        for good in
            ["*/5 * * * *", "0 0 1,15 * MON-FRI", "@hourly", "@every 1h30m", "0 22 * * 1-5/2", "? * * * ?"]
        {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, why) in [
            ("zork", "expected exactly 5 fields, found 1: [zork]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ("@zork", "unrecognized descriptor: @zork"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("TZ=Zork/Zork * * * * *", "provided bad location Zork/Zork: unknown time zone Zork/Zork"),
        ] {
            assert_eq!(check(bad), Err(why.to_owned()), "{bad}");
        }
        assert!(check("TZ=0").is_err() && check("@every 5x").is_err() && check("@every ").is_err());
    }

    #[test]
    fn time_zones_are_known_by_name() {
        assert!(is_time_zone("Europe/Berlin") && is_time_zone("Etc/UTC") && is_time_zone("UTC"));
        assert!(!is_time_zone("Zork/Zork") && !is_time_zone("") && !is_time_zone("Local"));
    }
}
