//! Events of `events.k8s.io`, which are the events of the core group under other names.
//!
//! Both are stored as core events. The strategy takes either shape and, like kube-apiserver, names fields
//! as the core group does.

use std::borrow::Cow;

use serde_json::Value;

use super::{
    Strategy,
    access::{default_to, get_str, remove, same, set},
    core,
    internal_form::{Absent, Field, internal_form},
    report::{At, Errors},
};
use crate::field::FieldError;

/// The kinds of the group `events.k8s.io`.
pub(crate) const STRATEGIES: &[(&str, &str, Strategy)] = &[("v1", "Event", EVENT)];

const EVENT: Strategy = Strategy { validate, validate_update, ..Strategy::PLAIN };

/// The fields that differ: here, and in the core group.
const NAMES: &[(&str, &str)] = &[
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// Turns an event of `events.k8s.io/v1` into the core event it is stored as.
pub(crate) fn to_core(event: &mut Value) {
    for (here, core) in NAMES {
        if let Some(value) = remove(event, &[here]) {
            set(event, &[core], value);
        }
    }
    set(event, &["apiVersion"], "v1");
    // The core group writes these even if they are empty.
    default_to(event, &["reportingComponent"], "");
    default_to(event, &["reportingInstance"], "");
}

/// Turns a core event into one of `events.k8s.io/v1`.
pub(crate) fn from_core(event: &mut Value) {
    for (here, core) in NAMES {
        if let Some(value) = remove(event, &[core]) {
            set(event, &[here], value);
        }
    }
    set(event, &["apiVersion"], "events.k8s.io/v1");
    for optional in ["reportingController", "reportingInstance"] {
        if get_str(event, &[optional]).is_empty() {
            remove(event, &[optional]);
        }
    }
}

fn as_core(event: &Value) -> Cow<'_, Value> {
    if get_str(event, &["apiVersion"]) != "events.k8s.io/v1" {
        return Cow::Borrowed(event);
    }
    let mut converted = event.clone();
    to_core(&mut converted);
    Cow::Owned(converted)
}

fn series(event: &At<'_, '_>, errors: &mut Errors) {
    let series = event.field("series");
    if !series.exists() {
        return;
    }
    if series.field("count").int() < 2 {
        errors.invalid(&series.field("count"), "", "should be at least 2");
    }
    let observed = series.field("lastObservedTime");
    if !observed.exists() {
        errors.required(&observed, "");
    }
}

fn validate(object: &Value) -> Vec<FieldError> {
    Errors::of(&as_core(object), |event, errors| {
        core::event::validate(event, "reportingController", errors);
        series(event, errors);
        let time = event.field("eventTime");
        if !time.exists() {
            errors.required(&time, "");
        }
        let kind = event.field("type");
        if !matches!(kind.str(), "Normal" | "Warning") {
            errors.invalid(&kind, "", format!("has invalid value: {}", kind.str()));
        }
        for field in ["firstTimestamp", "lastTimestamp"] {
            if event.field(field).exists() {
                errors.invalid(&event.field(field), "", "needs to be unset");
            }
        }
        if event.field("count").int() != 0 {
            errors.invalid(&event.field("count"), "", "needs to be unset");
        }
        let source = event.field("source");
        if !source.field("component").str().is_empty() || !source.field("host").str().is_empty() {
            errors.invalid(&source, "", "needs to be unset");
        }
    })
}

/// All but the series. That the reason is here twice is the real server's doing, and shows in the causes.
const IMMUTABLE: [&str; 14] = [
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "reason",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
];

const SOURCE: &[Field] = &[("component", "Component", Absent::Text), ("host", "Host", Absent::Text)];

const REFERENCE: &[Field] = &[
    ("kind", "Kind", Absent::Text),
    ("namespace", "Namespace", Absent::Text),
    ("name", "Name", Absent::Text),
    ("uid", "UID", Absent::Text),
    ("apiVersion", "APIVersion", Absent::Text),
    ("resourceVersion", "ResourceVersion", Absent::Text),
    ("fieldPath", "FieldPath", Absent::Text),
];

fn validate_update(object: &Value, old: &Value) -> Vec<FieldError> {
    let old = as_core(old);
    Errors::of(&as_core(object), |event, errors| {
        core::event::validate(event, "reportingController", errors);
        let Some(now) = event.value() else { return };
        if !same(now, &old, &["series"]) {
            series(event, errors);
        }
        for field in IMMUTABLE {
            if same(now, &old, &[field]) {
                continue;
            }
            let value = event.field(field);
            let shown = match field {
                "involvedObject" | "related" => internal_form(&value, REFERENCE),
                "source" => internal_form(&value, SOURCE),
                _ => value.shown().to_string(),
            };
            let named = if field == "reportingComponent" { "reportingController" } else { field };
            errors.invalid_unshown(&event.field(named), format!("{shown}: field is immutable"));
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event() -> Value {
        json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e", "namespace": "n"},
            "eventTime": "2026-01-01T00:00:00.000000Z", "regarding": {"kind": "Pod", "name": "p", "namespace": "n"},
            "reportingController": "example.com/c", "reportingInstance": "c-0", "action": "Start",
            "reason": "Started", "note": "well", "type": "Normal",
        })
    }

    #[test]
    fn an_event_goes_to_the_core_group_and_comes_back_the_same() {
        let mut object = event();
        to_core(&mut object);
        assert_eq!(
            object,
            json!({
                "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "n"},
                "eventTime": "2026-01-01T00:00:00.000000Z",
                "involvedObject": {"kind": "Pod", "name": "p", "namespace": "n"},
                "reportingComponent": "example.com/c", "reportingInstance": "c-0", "action": "Start",
                "reason": "Started", "message": "well", "type": "Normal",
            })
        );
        from_core(&mut object);
        assert_eq!(object, event());
    }

    #[test]
    fn events_of_the_newer_group_are_held_to_stricter_rules() {
        let texts = |change: fn(&mut Value)| -> Vec<String> {
            let mut object = event();
            change(&mut object);
            validate(&object).iter().map(ToString::to_string).collect()
        };
        assert!(texts(|_| {}).is_empty());
        assert_eq!(
            texts(|event| event["type"] = "Odd".into()),
            ["type: Invalid value: \"\": has invalid value: Odd"]
        );
        assert_eq!(
            texts(|event| {
                remove(event, &["reportingController"]);
                remove(event, &["action"]);
                event["deprecatedCount"] = 3.into();
            }),
            [
                "reportingController: Required value",
                "reportingController: Invalid value: \"\": name part must be non-empty",
                "reportingController: Invalid value: \"\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                "action: Required value",
                "count: Invalid value: \"\": needs to be unset",
            ]
        );
    }

    #[test]
    fn only_the_series_of_an_event_may_change() {
        let old = event();
        let mut new = event();
        new["series"] = json!({"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"});
        assert!(validate_update(&new, &old).is_empty());
        new["note"] = "else".into();
        let texts: Vec<String> = validate_update(&new, &old).iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["message: Invalid value: \"else\": field is immutable"]);
        new["note"] = old["note"].clone();
        new["regarding"] = json!({"kind": "Pod", "namespace": "n"});
        let texts: Vec<String> = validate_update(&new, &old).iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "involvedObject: Invalid value: {\"Kind\":\"Pod\",\"Namespace\":\"n\",\"Name\":\"\",\"UID\":\"\",\"APIVersion\":\"\",\"ResourceVersion\":\"\",\"FieldPath\":\"\"}: field is immutable"
            ]
        );
    }
}
