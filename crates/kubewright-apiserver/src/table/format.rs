//! The texts that cells are made of: ages, selectors, lists cut short.
//!
//! Wording and rounding are those of kube-apiserver, because people and scripts read them.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::kinds::access::{entries, get, get_str, items};

pub(super) const NONE: &str = "<none>";
pub(super) const UNKNOWN: &str = "<unknown>";
pub(super) const UNSET: &str = "<unset>";

/// A row from values of any type.
macro_rules! row {
    ($($cell:expr),* $(,)?) => { vec![$(serde_json::Value::from($cell)),*] };
}
pub(super) use row;

/// A duration with two or three significant figures: `5s`, `3m20s`, `2d4h`, `5y`.
pub(crate) fn human_duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        ..-1 => return "<invalid>".to_owned(),
        -1 => return "0s".to_owned(),
        0..120 => return format!("{seconds}s"),
        _ => {}
    }
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let two = |large: i64, unit: char, small: i64, small_unit: char| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{small_unit}"),
    };
    if minutes < 10 {
        two(minutes, 'm', seconds % 60, 's')
    } else if minutes < 180 {
        format!("{minutes}m")
    } else if hours < 8 {
        two(hours, 'h', minutes % 60, 'm')
    } else if hours < 48 {
        format!("{hours}h")
    } else if days < 8 {
        two(days, 'd', hours % 24, 'h')
    } else if days < 2 * 365 {
        format!("{days}d")
    } else if days < 8 * 365 {
        two(days / 365, 'y', days % 365, 'd')
    } else {
        format!("{}y", days / 365)
    }
}

/// The time at `path`.
pub(super) fn time(object: &Value, path: &[&str]) -> Option<Timestamp> {
    get_str(object, path).parse().ok()
}

/// How long ago the time at `path` was.
pub(super) fn since(object: &Value, path: &[&str], now: Timestamp) -> String {
    time(object, path).map_or_else(|| UNKNOWN.to_owned(), |then| human_duration(now.duration_since(then)))
}

/// How long ago the object was made.
pub(super) fn age(object: &Value, now: Timestamp) -> String {
    since(object, &["metadata", "creationTimestamp"], now)
}

pub(super) fn name(object: &Value) -> Value {
    get_str(object, &["metadata", "name"]).into()
}

pub(super) fn created_at(object: &Value) -> Value {
    or(get_str(object, &["metadata", "creationTimestamp"]), "0001-01-01T00:00:00Z").into()
}

pub(super) fn name_and_age(object: &Value, now: Timestamp) -> Vec<Value> {
    row![name(object), age(object, now)]
}

/// `text`, or `otherwise` if it is empty.
pub(super) fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

/// The number at `path`, or 0.
pub(super) fn number(object: &Value, path: &[&str]) -> i64 {
    get(object, path).and_then(Value::as_i64).unwrap_or_default()
}

/// A number or string as text; `None` if there is neither.
pub(super) fn scalar(object: &Value, path: &[&str]) -> Option<String> {
    match get(object, path)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The quantity at `path`; stored quantities are canonical, so that their text is what is shown.
pub(super) fn quantity(object: &Value, path: &[&str]) -> String {
    scalar(object, path).unwrap_or_else(|| "0".to_owned())
}

/// The string items of the list at `path`.
pub(super) fn strings<'a>(object: &'a Value, path: &[&str]) -> Vec<&'a str> {
    items(object, path).iter().filter_map(Value::as_str).collect()
}

/// The condition of this type.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    items(object, &["status", "conditions"]).iter().find(|condition| get_str(condition, &["type"]) == kind)
}

/// Whether the first condition of this type is `True`.
pub(super) fn condition_is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| get_str(condition, &["status"]) == "True")
}

/// At most `max` of the items, and how many more there are. `<unset>` for none.
pub(super) fn list_with_more(items: &[String], max: usize) -> String {
    match items.len() {
        0 => UNSET.to_owned(),
        count if count > max => format!("{} + {} more...", items[..max].join(","), count - max),
        _ => or(&items.join(","), UNSET).to_owned(),
    }
}

/// A map of strings as `a=b,c=d`.
pub(super) fn labels(object: &Value, path: &[&str]) -> String {
    let list: Vec<String> = entries(object, path)
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if list.is_empty() { NONE.to_owned() } else { list.join(",") }
}

/// A label selector in its query form; empty for one that selects everything or nothing, `None` for one
/// that is not valid.
pub(super) fn selector(object: &Value, path: &[&str]) -> Option<String> {
    let Some(selector) = get(object, path) else { return Some(String::new()) };
    let mut requirements: Vec<(&str, String)> = entries(selector, &["matchLabels"])
        .map(|(key, value)| (key, format!("{key}={}", value.as_str().unwrap_or_default())))
        .collect();
    for expression in items(selector, &["matchExpressions"]) {
        let key = get_str(expression, &["key"]);
        let mut values = strings(expression, &["values"]);
        values.sort_unstable();
        let text = match (get_str(expression, &["operator"]), values.is_empty()) {
            ("In", false) => format!("{key} in ({})", values.join(",")),
            ("NotIn", false) => format!("{key} notin ({})", values.join(",")),
            ("Exists", true) => key.to_owned(),
            ("DoesNotExist", true) => format!("!{key}"),
            _ => return None,
        };
        requirements.push((key, text));
    }
    requirements.sort_by_key(|(key, _)| *key);
    let texts: Vec<String> = requirements.into_iter().map(|(_, text)| text).collect();
    Some(texts.join(","))
}

/// A label selector as most kinds show it.
pub(super) fn selector_or_none(object: &Value, path: &[&str]) -> String {
    let text = selector(object, path).unwrap_or_else(|| "<error>".to_owned());
    or(&text, NONE).to_owned()
}

/// Names and images of the containers at `path`.
pub(super) fn containers(object: &Value, path: &[&str]) -> (String, String) {
    let of = |field: &str| {
        let list: Vec<&str> =
            items(object, path).iter().map(|container| get_str(container, &[field])).collect();
        list.join(",")
    };
    (of("name"), of("image"))
}

/// A resource or kind with its group: `deployments.apps`.
pub(super) fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

/// Whether an annotation is `"true"`.
pub(super) fn annotated(object: &Value, annotation: &str) -> bool {
    get_str(object, &["metadata", "annotations", annotation]) == "true"
}
