//! Rules from the definition to the error, as observed on kube-apiserver 1.36.

use serde_json::{Value, json};

use super::compile;
use crate::{
    field::Path,
    schema::{Schema, check_rules, props::Props},
};

/// A schema whose `spec` is `spec`, its rules compiled, and what is wrong with them.
fn compiled(spec: &Value) -> (Schema, Vec<String>) {
    let openapi = json!({ "type": "object", "properties": { "spec": spec } });
    let schema = Schema::custom_resource(&openapi);
    let errors = compile(Props::of(&openapi).unwrap(), &schema, &Path::new("root"), &[]);
    (schema, errors.iter().map(ToString::to_string).collect())
}

fn check(spec: &Value, object: &Value, old: Option<&Value>) -> (Vec<String>, Vec<String>) {
    let (schema, wrong) = compiled(spec);
    assert_eq!(wrong, Vec::<String>::new());
    let with = |spec: &Value| json!({ "metadata": { "name": "x" }, "spec": spec });
    let report = check_rules(&with(object), old.map(with).as_ref(), &schema, &Path::default());
    (report.errors.iter().map(ToString::to_string).collect(), report.warnings)
}

fn object(properties: Value, rules: Value) -> Value {
    json!({ "type": "object", "properties": properties, "x-kubernetes-validations": rules })
}

#[test]
fn a_rule_that_does_not_hold_is_told_by_the_best_message_there_is() {
    let on = |rule: Value, value: i64| {
        let spec = object(json!({ "a": { "type": "integer" } }), json!([rule]));
        check(&spec, &json!({ "a": value }), None).0
    };
    let none = Vec::<String>::new();
    assert_eq!(on(json!({ "rule": "self.a > 0" }), 1), none);
    assert_eq!(on(json!({ "rule": " self.a > 0 " }), 0), ["spec: Invalid value: failed rule: self.a > 0"]);
    let both = |expression: &str| {
        on(json!({ "rule": "self.a > 0", "message": " plain ", "messageExpression": expression }), 0)
    };
    assert_eq!(both("self.a == 0 ? ' a is zero ' : 'a is not'"), ["spec: Invalid value: a is zero"]);
    for useless in ["''", "'two\\nlines'", "1 / self.a > 0 ? 'a' : 'b'", "oldSelf.a > 0 ? 'a' : 'b'"] {
        assert_eq!(both(useless), ["spec: Invalid value: plain"], "{useless}");
    }
    assert_eq!(
        on(json!({ "rule": "1 / self.a > 0" }), 0),
        [r#"spec: Invalid value: "object": division by zero evaluating rule: 1 / self.a > 0"#]
    );
    let placed =
        json!({ "rule": "self.a > 0", "message": "m", "fieldPath": ".a", "reason": "FieldValueRequired" });
    assert_eq!(on(placed, 0), ["spec.a: Required value: m"]);
}

#[test]
fn a_transition_rule_sees_the_old_value_of_the_same_item() {
    let item = object(
        json!({ "k": { "type": "string" }, "v": { "type": "integer" } }),
        json!([{ "rule": "self.v >= oldSelf.v" }]),
    );
    let spec = json!({ "type": "object", "properties": { "l": {
        "type": "array", "maxItems": 3, "items": item,
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
    } } });
    let old = json!({ "l": [{ "k": "a", "v": 1 }, { "k": "b", "v": 2 }] });
    let new = json!({ "l": [{ "k": "b", "v": 1 }, { "k": "c", "v": 0 }, { "k": "a", "v": 1 }] });
    assert_eq!(check(&spec, &new, None).0, Vec::<String>::new());
    assert_eq!(
        check(&spec, &new, Some(&old)).0,
        ["spec.l[0]: Invalid value: failed rule: self.v >= oldSelf.v"]
    );
}

#[test]
fn an_optional_old_value_makes_a_rule_hold_for_creation_too() {
    let rule = json!([{ "rule": "self == oldSelf.orValue('first')", "optionalOldSelf": true }]);
    let spec = json!({ "type": "object", "properties": { "a": {
        "type": "string", "maxLength": 9, "x-kubernetes-validations": rule,
    } } });
    let errors = |new: &str, old: Option<Value>| {
        check(&spec, &json!({ "a": new }), old.map(|old| json!({ "a": old })).as_ref()).0.len()
    };
    assert_eq!(errors("first", None), 0);
    assert_eq!(errors("other", None), 1);
    assert_eq!(errors("other", Some(json!("other"))), 0);
    assert_eq!(errors("first", Some(json!("other"))), 1);
}

#[test]
fn what_an_update_leaves_alone_is_only_warned_about() {
    let positive = json!({ "type": "integer", "x-kubernetes-validations": [{ "rule": "self > 0" }] });
    let spec = json!({ "type": "object", "properties": { "a": positive, "b": { "type": "integer" } } });
    let (errors, warnings) = check(&spec, &json!({ "a": 0, "b": 2 }), Some(&json!({ "a": 0, "b": 1 })));
    assert_eq!(errors, Vec::<String>::new());
    assert_eq!(warnings, ["spec.a: Invalid value: 0: failed rule: self > 0"]);
}

#[test]
fn a_rule_sees_of_metadata_only_the_name() {
    let openapi = |rule: &str| json!({ "type": "object", "x-kubernetes-validations": [{ "rule": rule }] });
    let errors = |rule: &str| {
        let openapi = openapi(rule);
        let schema = Schema::custom_resource(&openapi);
        compile(Props::of(&openapi).unwrap(), &schema, &Path::new("root"), &[]).len()
    };
    assert_eq!(errors("self.metadata.name.startsWith('a') && self.kind != ''"), 0);
    assert_eq!(errors("has(self.metadata.labels)"), 1);
}

#[test]
fn a_rule_that_may_cost_too_much_is_refused_with_its_factor() {
    let list = |most: Option<u32>| {
        let mut list = json!({ "type": "array", "items": {
            "type": "string", "maxLength": 50, "x-kubernetes-validations": [{ "rule": "self.contains('abc')" }],
        } });
        if let Some(most) = most {
            list["maxItems"] = most.into();
        }
        compiled(&json!({ "type": "object", "properties": { "l": list } })).1
    };
    assert_eq!(list(Some(1000)), Vec::<String>::new());
    let advice = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and \
                  strings are declared)";
    let at = "root.properties[spec].properties[l].items.x-kubernetes-validations[0].rule";
    assert_eq!(
        list(None),
        [format!("{at}: Forbidden: estimated rule cost exceeds budget by factor of 2.2x {advice}")]
    );
}

#[test]
fn rules_that_cost_too_much_together_are_refused_together() {
    let rule = json!([{ "rule": "self.contains(self)" }]);
    let spec = json!({ "type": "object", "properties": {
        "a": { "type": "string", "x-kubernetes-validations": rule },
        "b": { "type": "string", "x-kubernetes-validations": rule },
    } });
    let errors = compiled(&spec).1;
    let contributed = "Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
    assert_eq!(errors.iter().filter(|error| error.ends_with(contributed)).count(), 2, "{errors:#?}");
    assert!(
        errors.iter().any(|error| error.starts_with(
            "root: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema \
             exceeds budget by factor of more than 100x"
        )),
        "{errors:#?}"
    );
}

#[test]
fn an_item_that_cannot_be_told_apart_has_no_old_value() {
    let spec = json!({ "type": "object", "properties": { "l": { "type": "array", "maxItems": 2, "items": {
        "type": "integer", "x-kubernetes-validations": [{ "rule": "self == oldSelf" }],
    } } } });
    assert_eq!(
        compiled(&spec).1,
        ["root.properties[spec].properties[l].items.x-kubernetes-validations[0].rule: Invalid value: \
          \"self == oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema within \
          root.properties[spec].properties[l]"]
    );
}

#[test]
fn what_is_not_typed_has_no_rules() {
    let rule = json!([{ "rule": "self > 1" }]);
    let preserved = json!({ "x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-validations": rule });
    let errors = compiled(&json!({ "type": "object", "properties": { "p": preserved } })).1;
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].contains("Internal error: internal error: failed to construct type information"),
        "{errors:?}"
    );
    let below = json!({ "x-kubernetes-preserve-unknown-fields": true, "properties": {
        "q": { "type": "integer", "x-kubernetes-validations": rule },
    } });
    let spec = json!({ "type": "object", "properties": { "p": below } });
    assert_eq!(check(&spec, &json!({ "p": { "q": 0 } }), None).0, Vec::<String>::new());
}

#[test]
fn an_object_whose_rules_cost_too_much_is_refused() {
    let spec = object(
        json!({ "l": { "type": "array", "maxItems": 200, "items": { "type": "integer" } } }),
        json!([{ "rule": "self.l.all(x, self.l.all(y, self.l.all(z, x + y + z >= 0)))" }]),
    );
    let (schema, _) = compiled(&spec);
    let numbers: Vec<i64> = (0..200).collect();
    let value = json!({ "spec": { "l": numbers } });
    let report = check_rules(&value, None, &schema, &Path::default());
    assert_eq!(report.errors.len(), 1);
    assert!(
        report.errors[0].to_string().contains(
            "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call \
             cost exceeds limit for rule: self.l.all"
        ),
        "{}",
        report.errors[0]
    );
}
