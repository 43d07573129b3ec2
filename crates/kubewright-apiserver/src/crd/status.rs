//! The status of a CustomResourceDefinition: which names it has got, and whether it is served.
//!
//! What the naming, establishing and approval controllers of the real server do, as one function. The
//! caller applies it to every definition of a group whenever one of them changes or goes.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{Definition, Names, approval, webhook};

/// The status a definition should have, given all `others` of its group and the time `now` (RFC 3339);
/// `None` if it has it already.
pub(crate) fn next_status<'a>(
    crd: &'a Value,
    others: impl IntoIterator<Item = &'a Value>,
    now: &str,
) -> Option<Value> {
    let definition = Definition(crd);
    let mut status = crd.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
    name(definition, others, now, &mut status);
    establish(definition, now, &mut status);
    if let Some(condition) = approval::condition(definition) {
        set_condition(&mut status, condition, now);
    }
    let status = Value::Object(status);
    (crd.get("status") != Some(&status)).then_some(status)
}

/// What keeps a definition until its objects are gone.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Marks a definition as being deleted at `now` (RFC 3339): it stays until [`end_deletion`].
pub(crate) fn begin_deletion(crd: &mut Value, now: &str) {
    let Some(object) = crd.as_object_mut() else { return };
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.entry("deletionTimestamp").or_insert(now.into());
        if let Value::Array(finalizers) = metadata.entry("finalizers").or_insert_with(|| json!([]))
            && !finalizers.iter().any(|finalizer| finalizer == CLEANUP)
        {
            finalizers.push(CLEANUP.into());
        }
    }
    let pending = condition(
        "Terminating",
        true,
        "InstanceDeletionPending",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    );
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        set_condition(status, pending, now);
    }
}

/// Whether a definition that was deleted still waits for its objects to go.
pub(crate) fn awaits_cleanup(crd: &Value) -> bool {
    let finalizers = crd.pointer("/metadata/finalizers").and_then(Value::as_array);
    finalizers.into_iter().flatten().any(|finalizer| finalizer == CLEANUP)
}

/// Lets go of a definition whose objects are gone. If that was its last finalizer, it can be removed.
pub(crate) fn end_deletion(crd: &mut Value, now: &str) {
    let established = Definition(crd).is_true("Established");
    let (reason, message) = if established {
        ("InstanceDeletionCompleted", "removed all instances")
    } else {
        ("NeverEstablished", "resource was never established")
    };
    if let Some(Value::Array(finalizers)) = crd.pointer_mut("/metadata/finalizers") {
        finalizers.retain(|finalizer| finalizer != CLEANUP);
    }
    if let Some(status) = crd.get_mut("status").and_then(Value::as_object_mut) {
        set_condition(status, condition("Terminating", false, reason, message), now);
    }
}

fn condition(ty: &str, is_true: bool, reason: &str, message: &str) -> Value {
    let status = if is_true { "True" } else { "False" };
    json!({ "type": ty, "status": status, "reason": reason, "message": message })
}

/// Accepts the names that are free.
fn name<'a>(
    definition: Definition<'a>,
    others: impl IntoIterator<Item = &'a Value>,
    now: &str,
    status: &mut Map<String, Value>,
) {
    let (wanted, accepted) = (definition.names(), definition.accepted_names());
    let mut resources = BTreeSet::new();
    let mut kinds = BTreeSet::new();
    let mut claim = |names: Names<'a>| {
        resources.extend([names.plural(), names.singular()]);
        resources.extend(names.short_names());
        kinds.extend([names.kind(), names.list_kind()]);
    };
    claim(accepted);
    let group = definition.group();
    for other in others.into_iter().map(Definition) {
        if other.group() == group && other.name() != definition.name() {
            claim(other.accepted_names());
        }
    }
    let conflict = |wanted: &str, accepted: &str, used: &BTreeSet<&str>| {
        (wanted != accepted && used.contains(wanted)).then(|| format!("{wanted:?} is already in use"))
    };
    let mut problem: Option<(&str, String)> = None;
    let mut names = status.get("acceptedNames").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut settle = |key: &str, value: Value, reason: &'static str, conflict: Option<String>| match conflict
    {
        Some(why) => problem = Some((reason, why)),
        None if value.is_null() => {
            names.remove(key);
        }
        None => {
            names.insert(key.to_owned(), value);
        }
    };
    let text = |text: &str, required: bool| {
        if text.is_empty() && !required { Value::Null } else { text.into() }
    };
    let plural = conflict(wanted.plural(), accepted.plural(), &resources);
    settle("plural", text(wanted.plural(), true), "PluralConflict", plural);
    let singular = conflict(wanted.singular(), accepted.singular(), &resources);
    settle("singular", text(wanted.singular(), false), "SingularConflict", singular);
    let own: BTreeSet<&str> = accepted.short_names().collect();
    let taken: Vec<String> = wanted
        .short_names()
        .filter(|name| !own.contains(name))
        .filter_map(|name| conflict(name, "", &resources))
        .collect();
    let taken = match taken.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        many => Some(format!("[{}]", many.join(", "))),
    };
    let listed = |names: Vec<&str>| if names.is_empty() { Value::Null } else { names.into() };
    settle("shortNames", listed(wanted.short_names().collect()), "ShortNamesConflict", taken);
    let kind = conflict(wanted.kind(), accepted.kind(), &kinds);
    settle("kind", text(wanted.kind(), true), "KindConflict", kind);
    let list_kind = conflict(wanted.list_kind(), accepted.list_kind(), &kinds);
    settle("listKind", text(wanted.list_kind(), false), "ListKindConflict", list_kind);
    settle("categories", listed(wanted.categories().collect()), "", None);
    status.insert("acceptedNames".to_owned(), Value::Object(names));
    let accepted = problem.is_none();
    let (reason, message) = problem.unwrap_or(("NoConflicts", "no conflicts found".to_owned()));
    set_condition(status, condition("NamesAccepted", accepted, reason, &message), now);
    if !accepted && definition.condition("Established").is_none() {
        let not_accepted = condition("Established", false, "NotAccepted", "not all names are accepted");
        set_condition(status, not_accepted, now);
    }
}

/// Serves the definition once its names are accepted. It stays served when later names conflict.
fn establish(definition: Definition<'_>, now: &str, status: &mut Map<String, Value>) {
    let is_true = |ty: &str| {
        let conditions = status.get("conditions").and_then(Value::as_array);
        conditions.into_iter().flatten().any(|one| one["type"] == ty && one["status"] == "True")
    };
    if !is_true("NamesAccepted") || is_true("Established") {
        return;
    }
    let established = if webhook::has_invalid_ca_bundle(definition) {
        condition("Established", false, "InvalidCABundle", "The conversion webhook CABundle is invalid")
    } else {
        condition("Established", true, "InitialNamesAccepted", "the initial names have been accepted")
    };
    set_condition(status, established, now);
}

/// Sets a condition; its transition time only moves with its status.
fn set_condition(status: &mut Map<String, Value>, mut condition: Value, now: &str) {
    condition["lastTransitionTime"] = now.into();
    let conditions = status.entry("conditions").or_insert(Value::Null);
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(list) = conditions.as_array_mut() else { return };
    match list.iter_mut().find(|one| one["type"] == condition["type"]) {
        None => list.push(condition),
        Some(known) => {
            if known["status"] == condition["status"] && known["lastTransitionTime"].is_string() {
                condition["lastTransitionTime"] = known["lastTransitionTime"].take();
            }
            *known = condition;
        }
    }
}
