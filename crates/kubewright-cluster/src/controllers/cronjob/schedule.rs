//! Cron schedules, as Kubernetes reads them: minute, hour, day of the month, month and day of the week, or a name
//! for a common one. A schedule is due at each instant whose local time matches: one that a clock skips is left
//! out, one that it shows twice counts twice.

use jiff::{SignedDuration, Timestamp, Zoned, tz::TimeZone};

/// After how many years without a match a schedule counts as one that never is due.
const YEARS: i16 = 5;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// When something is due, again and again.
#[derive(Debug, Clone)]
pub(super) struct Schedule {
    rhythm: Rhythm,
    zone: TimeZone,
}

#[derive(Debug, Clone)]
enum Rhythm {
    At(Box<Fields>),
    Every(SignedDuration),
}

#[derive(Debug, Clone)]
struct Fields {
    minute: Field,
    hour: Field,
    day: Field,
    month: Field,
    weekday: Field,
}

/// The values that match, as bits.
#[derive(Debug, Clone, Copy)]
struct Field {
    bits: u64,
    /// It was written as a star: it does not restrict anything.
    is_any: bool,
}

impl Schedule {
    /// Reads a schedule; `None` if it is none.
    pub(super) fn parse(text: &str, zone: TimeZone) -> Option<Self> {
        let rhythm = match text.trim() {
            "@yearly" | "@annually" => fields("0 0 1 1 *")?,
            "@monthly" => fields("0 0 1 * *")?,
            "@weekly" => fields("0 0 * * 0")?,
            "@daily" | "@midnight" => fields("0 0 * * *")?,
            "@hourly" => fields("0 * * * *")?,
            text => match text.strip_prefix("@every ") {
                Some(pause) => {
                    let pause: SignedDuration = pause.parse().ok()?;
                    Rhythm::Every(SignedDuration::from_secs(pause.as_secs().max(1)))
                }
                None => fields(text)?,
            },
        };
        Some(Self { rhythm, zone })
    }

    /// The first time after another at which it is due; `None` if there is none for years.
    pub(super) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.rhythm {
            Rhythm::Every(pause) => Timestamp::from_second(after.as_second()).ok()?.checked_add(*pause).ok(),
            Rhythm::At(fields) => fields.next(after, &self.zone),
        }
    }

    pub(super) fn zone(&self) -> &TimeZone {
        &self.zone
    }
}

fn fields(text: &str) -> Option<Rhythm> {
    let parts: Vec<&str> = text.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = parts[..] else { return None };
    Some(Rhythm::At(Box::new(Fields {
        minute: Field::parse(minute, 0, 59, &[])?,
        hour: Field::parse(hour, 0, 23, &[])?,
        day: Field::parse(day, 1, 31, &[])?,
        month: Field::parse(month, 1, 12, &MONTHS)?,
        weekday: Field::parse(weekday, 0, 6, &WEEKDAYS)?,
    })))
}

impl Field {
    /// A list of ranges with steps. The names stand for the values from `min` on.
    fn parse(text: &str, min: u32, max: u32, names: &[&str]) -> Option<Self> {
        let mut field = Self { bits: 0, is_any: false };
        for item in text.split(',').filter(|item| !item.is_empty()) {
            let (range, step) = match item.split_once('/') {
                Some((range, step)) => (range, Some(step.parse::<u32>().ok()?)),
                None => (item, None),
            };
            let value = |text: &str| {
                let named = names.iter().position(|name| text.eq_ignore_ascii_case(name));
                named
                    .and_then(|place| u32::try_from(place).ok())
                    .map(|place| place + min)
                    .or(text.parse().ok())
            };
            let (first, last) = match (range, range.split_once('-')) {
                ("*" | "?", _) => (min, max),
                (_, Some((first, last))) => (value(first)?, value(last)?),
                // From here on, in steps.
                (first, None) if step.is_some() => (value(first)?, max),
                (only, None) => (value(only)?, value(only)?),
            };
            if first < min || last > max || first > last || step == Some(0) {
                return None;
            }
            let step = step.unwrap_or(1);
            field.is_any |= matches!(range, "*" | "?") && step == 1;
            let values = (first..=last).step_by(usize::try_from(step).ok()?);
            field.bits |= values.fold(0, |bits, value| bits | 1 << value);
        }
        Some(field)
    }

    fn has(self, value: i8) -> bool {
        u32::try_from(value).is_ok_and(|value| self.bits & (1 << value) != 0)
    }
}

impl Fields {
    fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let minute = after.as_second().div_euclid(60) + 1;
        let mut at = Timestamp::from_second(minute * 60).ok()?.to_zoned(zone.clone());
        let last = at.year().checked_add(YEARS)?;
        while at.year() <= last {
            let next = if !self.month.has(at.month()) {
                at.first_of_month()
                    .ok()?
                    .date()
                    .checked_add(jiff::Span::new().months(1))
                    .ok()?
                    .to_zoned(zone.clone())
            } else if !self.has_day(&at) {
                at.date().tomorrow().ok()?.to_zoned(zone.clone())
            } else if !self.hour.has(at.hour()) {
                at.checked_add(SignedDuration::from_mins(60 - i64::from(at.minute())))
            } else if !self.minute.has(at.minute()) {
                at.checked_add(SignedDuration::from_mins(1))
            } else {
                return Some(at.timestamp());
            };
            at = next.ok()?;
        }
        None
    }

    /// Where both the day of the month and that of the week are restricted, either will do.
    fn has_day(&self, at: &Zoned) -> bool {
        let (day, weekday) = (self.day.has(at.day()), self.weekday.has(at.weekday().to_sunday_zero_offset()));
        if self.day.is_any || self.weekday.is_any { day && weekday } else { day || weekday }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The times at which a schedule is due after another, as its zone shows them.
    fn due(schedule: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
        let schedule = Schedule::parse(schedule, TimeZone::get(zone).unwrap()).unwrap();
        let mut at: Timestamp = after.parse().unwrap();
        (0..count)
            .map_while(|_| {
                at = schedule.next(at)?;
                Some(at.to_zoned(schedule.zone().clone()).strftime("%a %Y-%m-%d %H:%M %:z").to_string())
            })
            .collect()
    }

    #[test]
    fn fields_lists_ranges_steps_and_names_are_read() {
        let after = "2026-01-01T00:00:30Z"; // a Thursday
        for (schedule, expected) in [
            ("* * * * *", "Thu 2026-01-01 00:01 +00:00"),
            ("*/15 * * * *", "Thu 2026-01-01 00:15 +00:00"),
            ("7/20 3 * * *", "Thu 2026-01-01 03:07 +00:00"),
            ("0 22 * * 1-5", "Thu 2026-01-01 22:00 +00:00"),
            ("30 6-16/4 * * MON-FRI", "Thu 2026-01-01 06:30 +00:00"),
            ("0 0 13 * fri", "Fri 2026-01-02 00:00 +00:00"),
            ("0 0 29 2 ?", "Tue 2028-02-29 00:00 +00:00"),
            ("5,,10 0 1,15 * *", "Thu 2026-01-01 00:05 +00:00"),
            ("@hourly", "Thu 2026-01-01 01:00 +00:00"),
            ("@daily", "Fri 2026-01-02 00:00 +00:00"),
            ("@weekly", "Sun 2026-01-04 00:00 +00:00"),
            ("@monthly", "Sun 2026-02-01 00:00 +00:00"),
            ("@yearly", "Fri 2027-01-01 00:00 +00:00"),
            ("@every 1h30m", "Thu 2026-01-01 01:30 +00:00"),
        ] {
            assert_eq!(due(schedule, "UTC", after, 1), [expected], "{schedule}");
        }
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        for text in [
            "",
            "* * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 7",
            "5-1 * * * *",
            "*/0 * * * *",
            "x * * * *",
            "1-2-3 * * * *",
            "@often",
            "@every soon",
        ] {
            assert!(Schedule::parse(text, TimeZone::UTC).is_none(), "{text}");
        }
    }

    #[test]
    fn a_day_that_never_comes_is_never_due() {
        assert!(due("0 0 31 2 *", "UTC", "2026-01-01T00:00:00Z", 1).is_empty());
    }

    #[test]
    fn clocks_that_change_skip_an_hour_and_repeat_another() {
        assert_eq!(
            due("30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z", 2),
            ["Sat 2026-03-28 02:30 +01:00", "Mon 2026-03-30 02:30 +02:00"]
        );
        assert_eq!(
            due("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 3),
            ["Sun 2026-10-25 02:30 +02:00", "Sun 2026-10-25 02:30 +01:00", "Mon 2026-10-26 02:30 +01:00"]
        );
    }

    fn field(max: u32, min: u32) -> impl Strategy<Value = String> {
        let item = prop_oneof![
            3 => Just("*".to_owned()),
            2 => (min..=max).prop_map(|value| value.to_string()),
            1 => (1..=max.max(2)).prop_map(|step| format!("*/{step}")),
            1 => (min..=max, min..=max).prop_map(|(one, two)| format!("{}-{}", one.min(two), one.max(two))),
        ];
        prop::collection::vec(item, 1..3).prop_map(|items| items.join(","))
    }

    proptest! {
        /// The next time is the first minute that matches: none before it does.
        #[test]
        fn the_next_time_is_the_first_that_matches(
            (minute, hour, day, month, weekday) in (field(59, 0), field(23, 0), field(31, 1), field(12, 1), field(6, 0)),
            start in 1_700_000_000i64..1_900_000_000,
            zone in prop::sample::select(vec!["UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
        ) {
            let text = format!("{minute} {hour} {day} {month} {weekday}");
            let schedule = Schedule::parse(&text, TimeZone::get(zone).unwrap()).unwrap();
            let Rhythm::At(fields) = &schedule.rhythm else { panic!("it has fields") };
            let after = Timestamp::from_second(start).unwrap();
            let found = schedule.next(after);
            let limit = after + SignedDuration::from_hours(24 * 40);
            let mut at = Timestamp::from_second((start / 60 + 1) * 60).unwrap();
            while at < limit && found.is_none_or(|found| at <= found) {
                let local = at.to_zoned(schedule.zone().clone());
                let matches = fields.minute.has(local.minute()) && fields.hour.has(local.hour())
                    && fields.month.has(local.month()) && fields.has_day(&local);
                prop_assert_eq!(matches, found == Some(at), "{} at {}", text, local);
                at += SignedDuration::from_mins(1);
            }
        }
    }
}
