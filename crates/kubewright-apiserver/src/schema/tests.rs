//! What a custom resource goes through, as observed on kube-apiserver 1.36.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{object_meta::coerce_metadata, *};
use crate::field::{FieldError, Path};

/// A custom resource whose `spec.x` has `schema`.
fn resource(schema: &Value) -> Schema {
    Schema::custom_resource(&json!({
        "type": "object",
        "properties": { "spec": { "type": "object", "properties": { "x": schema } } },
    }))
}

fn object(x: Value) -> Value {
    json!({ "apiVersion": "ex.io/v1", "kind": "Foo", "metadata": { "name": "a" }, "spec": { "x": x } })
}

fn sorted(errors: Vec<FieldError>) -> Vec<String> {
    let mut texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    texts.sort();
    texts
}

/// Everything the server does to a new object; the value of `spec.x` or the errors.
fn create(schema: &Value, x: Value) -> Result<Value, Vec<String>> {
    let schema = resource(schema);
    let mut object = object(x);
    coerce(&mut object, &schema).map_err(|why| vec![why])?;
    default(&mut object, &schema);
    let mut errors = validate(&object, &schema, &Path::default());
    errors.extend(validate_embedded(&object, &schema));
    errors.extend(validate_lists(&object, &schema));
    if errors.is_empty() { Ok(object["spec"]["x"].take()) } else { Err(sorted(errors)) }
}

fn refused(schema: Value, x: Value, errors: &[&str]) {
    assert_eq!(
        create(&schema, x.clone()),
        Err(errors.iter().map(|e| (*e).to_owned()).collect()),
        "{schema} {x}"
    );
}

fn accepted(schema: Value, x: Value, becomes: Value) {
    assert_eq!(create(&schema, x.clone()), Ok(becomes), "{schema} {x}");
}

fn kept(schema: Value, x: Value) {
    accepted(schema, x.clone(), x);
}

#[test]
fn lengths_count_characters() {
    let schema = || json!({ "type": "string", "minLength": 2, "maxLength": 4 });
    kept(schema(), json!("éé"));
    kept(schema(), json!("日本語"));
    refused(
        schema(),
        json!("a"),
        &[r#"spec.x: Invalid value: "a": spec.x in body should be at least 2 chars long"#],
    );
    refused(schema(), json!("ééééé"), &["spec.x: Too long: may not be more than 4 bytes"]);
}

#[test]
fn a_pattern_is_searched_as_go_would() {
    refused(
        json!({ "type": "string", "pattern": "^[a-z]+$" }),
        json!("a1"),
        &[r#"spec.x: Invalid value: "a1": spec.x in body should match '^[a-z]+$'"#],
    );
    for (pattern, text, found) in [
        (r"^\d+$", "٣", false),
        (r"^[\w-]+$", "a-b_c", true),
        (r"^\w$", "é", false),
        ("^a{,2}$", "a{,2}", true),
        ("^{a}$", "{a}", true),
        ("^[[]$", "[", true),
        (r"^\Qa.b\E$", "axb", false),
        (r"\bfoo\b", "a foo b", true),
        (r"^[^\s]+$", "a b", false),
        ("^[a&&b]+$", "&", true),
        (r"^\/x$", "/x", true),
    ] {
        let compiled = Pattern::new(pattern);
        assert_eq!(compiled.problem(), None, "{pattern}");
        assert_eq!(compiled.is_match(text), found, "{pattern} {text}");
    }
    for (pattern, problem) in [
        ("(", "missing closing ): `(`"),
        ("a)", "unexpected ): `a)`"),
        ("[a", "missing closing ]: `[a`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{1}{2}", "invalid nested repetition operator: `{1}{2}`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        ("(?<=a)b", "invalid named capture: `(?<=a)b`"),
        ("((a{100}){100})", "invalid repeat count: `{100}`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        (r"\y", r"invalid escape sequence: `\y`"),
    ] {
        assert_eq!(Pattern::new(pattern).problem(), Some(&*format!("error parsing regexp: {problem}")));
    }
}

#[test]
fn a_value_of_the_wrong_type_is_named_by_the_type_it_has() {
    for (value, found) in [
        (json!(1), "integer"),
        (json!(1.5), "number"),
        (json!(true), "boolean"),
        (json!({}), "object"),
        (json!([]), "array"),
    ] {
        let text =
            format!(r#"spec.x: Invalid value: "{found}": spec.x in body must be of type string: "{found}""#);
        refused(json!({ "type": "string" }), value, &[&text]);
    }
    refused(
        json!({ "x-kubernetes-int-or-string": true }),
        json!(true),
        &[r#"spec.x: Invalid value: "boolean": spec.x in body must be of type integer,string: "boolean""#],
    );
    refused(
        json!({ "type": "string", "format": "date" }),
        json!(5),
        &[r#"spec.x: Invalid value: "int64": spec.x in body must be of type date: "int64""#],
    );
}

#[test]
fn integers_may_be_written_with_a_fraction_of_zero() {
    kept(json!({ "type": "integer" }), json!(1.0));
    kept(json!({ "type": "integer" }), json!(9_223_372_036_854_775_807_i64));
    refused(
        json!({ "type": "integer" }),
        json!(1.5),
        &[
            r#"<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.x"#,
            r#"spec.x: Invalid value: "number": spec.x in body must be of type integer: "number""#,
        ],
    );
    refused(
        json!({ "type": "integer", "format": "int32" }),
        json!(3_000_000_000_i64),
        &[r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.x"#],
    );
}

#[test]
fn a_whole_float_is_stored_as_an_integer() {
    let mut value = json!({ "a": [1.0, 1.5, -2.0], "b": 1e300 });
    normalise_numbers(&mut value);
    assert_eq!(value, json!({ "a": [1, 1.5, -2], "b": 1e300 }));
}

#[test]
fn numbers_keep_within_their_bounds() {
    let exclusive = || json!({ "type": "integer", "minimum": 0, "exclusiveMinimum": true, "maximum": 10, "exclusiveMaximum": true });
    kept(exclusive(), json!(1));
    refused(exclusive(), json!(0), &["spec.x: Invalid value: 0: spec.x in body should be greater than 0"]);
    refused(exclusive(), json!(10), &["spec.x: Invalid value: 10: spec.x in body should be less than 10"]);
    let inclusive = || json!({ "type": "number", "minimum": 0.5, "maximum": 10 });
    kept(inclusive(), json!(0.5));
    refused(
        inclusive(),
        json!(0.25),
        &["spec.x: Invalid value: 0.25: spec.x in body should be greater than or equal to 0.5"],
    );
    refused(
        inclusive(),
        json!(11),
        &["spec.x: Invalid value: 11: spec.x in body should be less than or equal to 10"],
    );
    refused(
        json!({ "type": "number", "multipleOf": 0.5 }),
        json!(1.25),
        &["spec.x: Invalid value: 1.25: spec.x in body should be a multiple of 0.5"],
    );
    kept(json!({ "type": "number", "multipleOf": 0.1 }), json!(0.3));
}

#[test]
fn lists_are_checked_item_by_item() {
    let schema = || json!({ "type": "array", "items": { "type": "integer" }, "minItems": 1, "maxItems": 2 });
    refused(
        schema(),
        json!([1, null]),
        &[r#"spec.x[1]: Invalid value: "null": spec.x[1] in body must be of type integer: "null""#],
    );
    refused(schema(), json!([]), &["spec.x: Invalid value: 0: spec.x in body should have at least 1 items"]);
    refused(schema(), json!([1, 2, 3]), &["spec.x: Too many: 3: must have at most 2 items"]);
}

#[test]
fn items_of_sets_and_keyed_lists_are_unique() {
    let set = || json!({ "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } });
    refused(set(), json!(["a", "a", "a", "b"]), &[r#"spec.x[1]: Duplicate value: "a""#]);
    let map = |keys: &[&str]| {
        json!({ "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys, "items": {
            "type": "object", "properties": { "k": { "type": "string" }, "p": { "type": "integer" } } } })
    };
    refused(
        map(&["k"]),
        json!([{ "k": "1", "p": 1 }, { "k": "1" }]),
        &[r#"spec.x[1]: Duplicate value: {"k":"1"}"#],
    );
    refused(map(&["k"]), json!([{}, {}]), &["spec.x[1]: Duplicate value: {}"]);
    kept(map(&["k", "p"]), json!([{ "k": "1", "p": 1 }, { "k": "1", "p": 2 }]));
}

#[test]
fn required_fields_and_limits_of_objects_hold() {
    let schema = || {
        json!({ "type": "object", "required": ["a", "b"],
            "properties": { "a": { "type": "string" }, "b": { "type": "string" } } })
    };
    refused(schema(), json!({}), &["spec.x.a: Required value", "spec.x.b: Required value"]);
    refused(schema(), json!({ "a": null, "b": "1" }), &["spec.x.a: Required value"]);
    let map =
        || json!({ "type": "object", "additionalProperties": { "type": "integer" }, "maxProperties": 1 });
    refused(
        map(),
        json!({ "a": "x" }),
        &[r#"spec.x.a: Invalid value: "string": spec.x.a in body must be of type integer: "string""#],
    );
    refused(map(), json!({ "a": 1, "b": 2 }), &["spec.x: Too many: 2: must have at most 1 item"]);
    kept(map(), json!({ "A b/c": 1 }));
    refused(
        json!({ "type": "object", "additionalProperties": false }),
        json!({ "a": 1 }),
        &[r#"spec.x: Invalid value: "a": spec.x.a in body is a forbidden property"#],
    );
    refused(
        json!({ "type": "string", "enum": ["A", "B"] }),
        json!("C"),
        &[r#"spec.x: Unsupported value: "C": supported values: "A", "B""#],
    );
}

#[test]
fn alternatives_report_the_best_failure() {
    let of = |word: &str| {
        json!({ "type": "object", "properties": { "a": { "type": "string" }, "b": { "type": "string" } },
            word: [{ "required": ["a"] }, { "required": ["b"] }] })
    };
    refused(
        of("oneOf"),
        json!({}),
        &[
            r#"<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found none valid"#,
            "spec.x.a: Required value",
        ],
    );
    refused(
        of("oneOf"),
        json!({ "a": "1", "b": "1" }),
        &[
            r#"<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
        ],
    );
    refused(
        of("anyOf"),
        json!({}),
        &[
            r#"<nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf)"#,
            "spec.x.a: Required value",
        ],
    );
    kept(of("anyOf"), json!({ "a": "1", "b": "2" }));
    let all = || json!({ "type": "string", "allOf": [{ "minLength": 2 }, { "pattern": "^a" }] });
    refused(
        all(),
        json!("a"),
        &[
            r#"<nil>: Invalid value: "": "spec.x" must validate all the schemas (allOf)"#,
            r#"spec.x: Invalid value: "a": spec.x in body should be at least 2 chars long"#,
        ],
    );
    refused(
        all(),
        json!("b"),
        &[
            r#"<nil>: Invalid value: "": "spec.x" must validate all the schemas (allOf). None validated"#,
            r#"spec.x: Invalid value: "b": spec.x in body should be at least 2 chars long"#,
            r#"spec.x: Invalid value: "b": spec.x in body should match '^a'"#,
        ],
    );
    refused(
        json!({ "type": "string", "not": { "enum": ["a"] } }),
        json!("a"),
        &[r#"<nil>: Invalid value: "": "spec.x" must not validate the schema (not)"#],
    );
}

#[test]
fn unknown_fields_are_dropped_and_reported() {
    let schema = resource(&json!({ "type": "object", "properties": {
        "a": { "type": "string" },
        "l": { "type": "array", "items": { "type": "object", "properties": { "q": { "type": "string" } } } },
        "m": { "type": "object", "additionalProperties": { "type": "object", "properties": {} } },
    } }));
    let mut value =
        object(json!({ "a": "1", "z": 1, "l": [{ "q": "1", "w": 2 }], "m": { "k": { "w": 3 } } }));
    value["top"] = json!(1);
    value["metadata"]["odd"] = json!(1);
    let unknown = coerce(&mut value, &schema).unwrap();
    assert_eq!(unknown, ["metadata.odd", "spec.x.l[0].w", "spec.x.m.k.w", "spec.x.z", "top"]);
    assert_eq!(value, object(json!({ "a": "1", "l": [{ "q": "1" }], "m": { "k": {} } })));
}

#[test]
fn fields_below_preserved_ones_are_pruned_again() {
    accepted(
        json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "a": { "type": "object", "properties": { "b": { "type": "string" } } } } }),
        json!({ "z": { "deep": [1] }, "a": { "b": "1", "c": 2 } }),
        json!({ "z": { "deep": [1] }, "a": { "b": "1" } }),
    );
    for x in [json!(1), json!([1, { "b": 2 }]), json!({ "c": null })] {
        kept(json!({ "x-kubernetes-preserve-unknown-fields": true }), x);
    }
    // a map of anything keeps scalars, but knows nothing of what is inside objects
    accepted(
        json!({ "type": "object", "additionalProperties": true }),
        json!({ "a": 1, "b": { "c": 2 } }),
        json!({ "a": 1, "b": {} }),
    );
}

#[test]
fn null_is_a_value_only_where_it_is_allowed() {
    kept(json!({ "type": "string", "nullable": true }), json!(null));
    kept(json!({ "type": "string", "nullable": true, "default": "d" }), json!(null));
    accepted(json!({ "type": "string", "default": "d" }), json!(null), json!("d"));
    accepted(json!({ "type": "string" }), json!(null), json!(null)); // dropped
    kept(json!({ "type": "array", "items": { "type": "string", "nullable": true } }), json!([null, "a"]));
}

#[test]
fn defaults_fill_only_objects_that_are_there() {
    let nested = || {
        json!({ "type": "object", "properties": { "a": { "type": "object", "properties": {
            "b": { "type": "string", "default": "x" } } } } })
    };
    kept(nested(), json!({}));
    accepted(nested(), json!({ "a": {} }), json!({ "a": { "b": "x" } }));
    accepted(
        json!({ "type": "array", "items": { "type": "object", "properties": {
            "p": { "type": "string", "default": "TCP" }, "q": { "type": "string" } } } }),
        json!([{ "q": "1" }, {}]),
        json!([{ "p": "TCP", "q": "1" }, { "p": "TCP" }]),
    );
}

#[test]
fn embedded_resources_are_whole_objects() {
    let schema = || {
        json!({ "type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true })
    };
    let pod = |metadata: Value| json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata });
    kept(schema(), pod(json!({ "name": "x", "labels": { "a": "b" } })));
    accepted(
        schema(),
        pod(json!({ "name": "x", "zork": 1, "creationTimestamp": null })),
        pod(json!({ "name": "x" })),
    );
    refused(schema(), json!({ "apiVersion": "v1" }), &["spec.x.kind: Required value"]);
    refused(
        schema(),
        pod(json!({ "name": 5 })),
        &[
            r#"spec.x.metadata: Invalid value: {"name":5}: json: cannot unmarshal number into Go struct field ObjectMeta.name of type string"#,
        ],
    );
    refused(
        schema(),
        pod(json!({ "name": ".." })),
        &[r#"spec.x.metadata.name: Invalid value: "..": may not be '..'"#],
    );
    refused(
        schema(),
        json!({ "apiVersion": "a/b/c", "kind": "Pod" }),
        &[r#"spec.x.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c"#],
    );
}

#[test]
fn metadata_decodes_as_in_go() {
    for (metadata, why) in [
        (json!("x"), "json: cannot unmarshal string into Go value of type v1.ObjectMeta"),
        (
            json!({ "labels": { "a": 1 } }),
            "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
        ),
        (
            json!({ "ownerReferences": [{ "uid": true }] }),
            "json: cannot unmarshal bool into Go struct field OwnerReference.ownerReferences.uid of type types.UID",
        ),
        (
            json!({ "generation": 1.5 }),
            "json: cannot unmarshal number 1.5 into Go struct field ObjectMeta.generation of type int64",
        ),
    ] {
        let mut object = json!({ "metadata": metadata });
        assert_eq!(coerce_metadata(&mut object, "metadata"), Err(why.to_owned()));
    }
    let mut object = json!({ "metadata": {
        "name": "a", "labels": {}, "namespace": "", "deletionTimestamp": "2020-01-01T02:00:00.5+02:00",
        "ownerReferences": [{ "name": "o", "x": 1 }] } });
    assert_eq!(
        coerce_metadata(&mut object, "metadata"),
        Ok(vec!["metadata.ownerReferences[0].x".to_owned()])
    );
    assert_eq!(
        object["metadata"],
        json!({ "name": "a", "deletionTimestamp": "2020-01-01T00:00:00Z",
            "ownerReferences": [{ "name": "o", "apiVersion": "", "kind": "", "uid": "" }] })
    );
}

#[test]
fn the_name_may_be_restricted_and_the_rest_of_metadata_stays() {
    let schema = Schema::custom_resource(&json!({ "type": "object", "properties": { "metadata": {
        "type": "object", "properties": { "name": { "type": "string", "maxLength": 4, "pattern": "^a" } } } } }));
    let errors = |name: &str| {
        let object = json!({ "metadata": { "name": name, "labels": { "a": "b" } } });
        sorted(validate(&object, &schema, &Path::default()))
    };
    assert_eq!(errors("abc"), Vec::<String>::new());
    assert_eq!(errors("abcde"), ["metadata.name: Too long: may not be more than 4 bytes"]);
    assert_eq!(
        errors("bcd"),
        [r#"metadata.name: Invalid value: "bcd": metadata.name in body should match '^a'"#]
    );
}

#[test]
fn formats_are_those_of_the_real_server() {
    for (format, good, bad) in [
        ("date", "2020-02-29", "2021-02-29"),
        ("date-time", "2020-01-01T00:00:00.5Z", "2020-01-01 00:00:00Z"),
        ("datetime", "2020-01-01t23:59:59+01:00", "2020-01-01T24:00:00Z"),
        ("duration", "1h30m", "soon"),
        ("duration", "22 ns", "1"),
        ("uri", "https://a.io/x%20y", "a b"),
        ("uri", "/path", "path"),
        ("email", "a@b.io", "a.b.io"),
        ("email", "Ann <a@b>", "a@"),
        ("hostname", "a.example.com", "a_b.com"),
        ("ipv4", "10.01.0.1", "10.0.0.256"),
        ("ipv6", "::1", "1.2.3.4"),
        ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
        ("mac", "01:23:45:67:89:ab", "01:23:45:67:89"),
        ("uuid", "A0EEBC999C0B4EF8BB6D6BB9BD380A11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1"),
        ("uuid4", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc99-9c0b-3ef8-bb6d-6bb9bd380a11"),
        ("isbn10", "0321751043", "0321751044"),
        ("isbn13", "978-0321751041", "978-0321751042"),
        ("isbn", "978 0321751041", "1"),
        ("creditcard", "4111-1111-1111-1111", "4111-1111-1111-1112"),
        ("ssn", "111-11-1111", "111111111"),
        ("hexcolor", "#FFF", "#FFFF"),
        ("rgbcolor", "rgb(1, 2,255)", "rgb(1,2,256)"),
        ("byte", "aGk=", "a"),
        ("bsonobjectid", "507f1f77bcf86cd799439011", "507f"),
        ("k8s-short-name", "a-b", "a.b"),
        ("k8s-long-name", "a.b", "a..b"),
    ] {
        kept(json!({ "type": "string", "format": format }), json!(good));
        let text =
            format!(r#"spec.x: Invalid value: "{bad}": spec.x in body must be of type {format}: "{bad}""#);
        refused(json!({ "type": "string", "format": format }), json!(bad), &[&text]);
    }
    kept(json!({ "type": "string", "format": "zork" }), json!("anything"));
}

#[test]
fn what_an_update_leaves_alone_is_not_validated_again() {
    let schema = Schema::custom_resource(&json!({ "type": "object", "properties": { "spec": {
        "type": "object", "properties": {
            "a": { "type": "string", "maxLength": 2 },
            "b": { "type": "string", "maxLength": 2 },
            "l": { "type": "array", "items": { "type": "string", "maxLength": 2 } },
            "m": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": { "type": "object", "required": ["k"], "properties": {
                    "k": { "type": "string" }, "v": { "type": "string", "maxLength": 2 } } } },
        } } } }));
    let old = json!({ "spec": { "a": "invalid", "b": "b", "l": ["bad", "bad2"],
        "m": [{ "k": "1", "v": "bad" }, { "k": "2", "v": "ok" }] } });
    let errors = |change: &dyn Fn(&mut Value)| {
        let mut new = old.clone();
        change(&mut new["spec"]);
        sorted(validate_update(&new, &old, &schema, &Path::default()))
    };
    assert_eq!(errors(&|spec| spec["b"] = json!("c")), Vec::<String>::new());
    assert_eq!(errors(&|spec| spec["b"] = json!("cccc")), ["spec.b: Too long: may not be more than 2 bytes"]);
    assert_eq!(
        errors(&|spec| spec["a"] = json!("invalid2")),
        ["spec.a: Too long: may not be more than 2 bytes"]
    );
    assert_eq!(
        errors(&|spec| spec["l"] = json!(["bad", "bad2", "q"])),
        [
            "spec.l[0]: Too long: may not be more than 2 bytes",
            "spec.l[1]: Too long: may not be more than 2 bytes"
        ]
    );
    let reordered = |spec: &mut Value| spec["m"] = json!([{ "k": "2", "v": "q" }, { "k": "1", "v": "bad" }]);
    assert_eq!(errors(&reordered), Vec::<String>::new());
}

/// Rules whose "programs" compare with the text `ok`, so that the walk can be tested without CEL.
#[derive(Debug)]
struct IsOk {
    transition: bool,
}

impl Programs for IsOk {
    fn problem(&self, _: usize) -> Option<&str> {
        None
    }

    fn uses_old_self(&self, _: usize) -> bool {
        self.transition
    }

    fn evaluate(&self, _: usize, value: &Value, old: OldSelf<'_>) -> Evaluation<bool> {
        let result = match (value.as_str(), old) {
            (Some("error"), _) => Err("division by zero".to_owned()),
            (_, OldSelf::Value(old)) if self.transition => Ok(value == old),
            (text, _) => Ok(text == Some("ok")),
        };
        Evaluation { result, cost: 1 }
    }

    fn message(&self, _: usize, value: &Value, _: OldSelf<'_>) -> Option<Evaluation<String>> {
        let result = Ok(format!("got {}", value.as_str()?));
        (value == "say").then_some(Evaluation { result, cost: 1 })
    }
}

fn with_programs(transition: bool, rule: &Value) -> Schema {
    let schema = resource(&json!({ "type": "string", "x-kubernetes-validations": [rule] }));
    let node = &schema.properties["spec"].schema.properties["x"].schema;
    let rules = node.rules.as_ref().expect("the node has rules");
    assert!(rules.programs.set(Arc::new(IsOk { transition })).is_ok());
    schema
}

#[test]
fn a_broken_rule_is_told_in_its_own_words() {
    let check = |rule: Value, x: &str| {
        let schema = with_programs(false, &rule);
        sorted(check_rules(&object(json!(x)), None, &schema, &Path::default()).errors)
    };
    assert_eq!(check(json!({ "rule": "r" }), "ok"), Vec::<String>::new());
    assert_eq!(check(json!({ "rule": " r " }), "no"), [r#"spec.x: Invalid value: "no": failed rule: r"#]);
    assert_eq!(check(json!({ "rule": "r", "message": "m" }), "no"), [r#"spec.x: Invalid value: "no": m"#]);
    assert_eq!(
        check(json!({ "rule": "r", "message": "m" }), "say"),
        [r#"spec.x: Invalid value: "say": got say"#]
    );
    assert_eq!(
        check(json!({ "rule": "r" }), "error"),
        [r#"spec.x: Invalid value: "string": division by zero evaluating rule: r"#]
    );
    let forbidden = json!({ "rule": "r", "message": "m", "reason": "FieldValueForbidden" });
    assert_eq!(check(forbidden, "no"), ["spec.x: Forbidden: m"]);
}

#[test]
fn rules_forgive_what_has_not_changed_but_not_transitions() {
    let update = |transition: bool, old: &str, new: &str| {
        let schema = with_programs(transition, &json!({ "rule": "r" }));
        let report = check_rules(&object(json!(new)), Some(&object(json!(old))), &schema, &Path::default());
        (report.errors.len(), report.warnings.len())
    };
    assert_eq!(update(false, "no", "no"), (0, 1));
    assert_eq!(update(false, "no", "nope"), (1, 0));
    assert_eq!(update(true, "a", "a"), (0, 0));
    assert_eq!(update(true, "a", "b"), (1, 0));
    let schema = with_programs(true, &json!({ "rule": "r" }));
    assert!(check_rules(&object(json!("a")), None, &schema, &Path::default()).errors.is_empty());
}
