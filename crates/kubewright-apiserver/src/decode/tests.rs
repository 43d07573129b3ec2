use serde_json::json;

use super::*;
use crate::schema::{Field, Schema, SchemaRef, Type};

fn formatted(ty: Type, format: &str) -> SchemaRef {
    SchemaRef::new(Schema { format: Some(format.to_owned()), ..Schema::scalar(ty) })
}

fn text() -> SchemaRef {
    SchemaRef::new(Schema::scalar(Type::String))
}

fn list(items: SchemaRef) -> SchemaRef {
    SchemaRef::new(Schema { items: Some(items), ..Schema::scalar(Type::Array) })
}

fn map(values: SchemaRef) -> SchemaRef {
    SchemaRef::new(Schema { values: Some(values), ..Schema::scalar(Type::Object) })
}

fn structure(name: &'static str, fields: Vec<(&str, Field)>) -> SchemaRef {
    SchemaRef::new(Schema {
        name: Some(name),
        properties: fields.into_iter().map(|(name, field)| (name.to_owned(), field)).collect(),
        ..Schema::scalar(Type::Object)
    })
}

fn optional(schema: SchemaRef) -> Field {
    Field { schema, omit_empty: true, ..Field::default() }
}

fn pointer(schema: SchemaRef) -> Field {
    Field { pointer: true, ..optional(schema) }
}

fn required(schema: SchemaRef) -> Field {
    Field { schema, ..Field::default() }
}

/// A kind with one field of everything.
fn thing() -> SchemaRef {
    let meta = structure(
        "v1.ObjectMeta",
        vec![
            ("name", optional(text())),
            ("labels", optional(map(text()))),
            ("creationTimestamp", pointer(formatted(Type::String, "date-time"))),
            ("deletionTimestamp", pointer(formatted(Type::String, "date-time"))),
        ],
    );
    let container = structure(
        "v1.Container",
        vec![
            ("name", required(text())),
            ("args", optional(list(text()))),
            ("tty", optional(SchemaRef::new(Schema::scalar(Type::Boolean)))),
            (
                "resources",
                optional(structure(
                    "v1.ResourceRequirements",
                    vec![("limits", optional(map(formatted(Type::String, "quantity"))))],
                )),
            ),
        ],
    );
    let spec = structure(
        "v1.ThingSpec",
        vec![
            ("replicas", pointer(formatted(Type::Integer, "int32"))),
            ("count", optional(formatted(Type::Integer, "int64"))),
            ("containers", required(list(container))),
            ("port", optional(SchemaRef::new(Schema::scalar(Type::IntOrString)))),
            ("time", optional(formatted(Type::String, "date-time"))),
            ("micro", pointer(formatted(Type::String, "micro-time"))),
            ("wait", pointer(formatted(Type::String, "duration"))),
            ("raw", pointer(SchemaRef::new(Schema::any()))),
        ],
    );
    structure(
        "v1.Thing",
        vec![
            ("apiVersion", optional(text())),
            ("kind", optional(text())),
            ("metadata", optional(meta)),
            ("data", optional(map(text()))),
            ("bytes", optional(map(formatted(Type::String, "byte")))),
            ("spec", pointer(spec)),
            (
                "status",
                optional(structure(
                    "v1.ThingStatus",
                    vec![("ready", optional(formatted(Type::Integer, "int32")))],
                )),
            ),
        ],
    )
}

fn decode(body: &str) -> Result<(Value, Vec<String>), String> {
    let parsed = json::parse(body.as_bytes())?.typed(&thing())?;
    Ok((parsed.value, parsed.problems.iter().map(ToString::to_string).collect()))
}

fn value(body: Value) -> Value {
    decode(&body.to_string()).unwrap().0
}

#[test]
fn an_object_is_written_as_go_would_write_it() {
    assert_eq!(value(json!({})), json!({"metadata": {}, "status": {}}));
    assert_eq!(
        value(
            json!({"kind": "", "data": {}, "metadata": {"labels": {"a": null}, "creationTimestamp": null}, "status": null,
            "spec": {"count": 0, "replicas": 0, "raw": {"a": null}, "containers": [null, {"args": [], "tty": false}]}})
        ),
        json!({"metadata": {"labels": {"a": ""}}, "status": {},
            "spec": {"replicas": 0, "raw": {"a": null}, "port": 0, "time": null,
                "containers": [{"name": "", "resources": {}}, {"name": "", "resources": {}}]}})
    );
    assert_eq!(
        value(json!({"spec": {"containers": []}}))["spec"],
        json!({"containers": null, "port": 0, "time": null})
    );
}

#[test]
fn scalars_with_a_form_become_canonical() {
    let spec = value(
        json!({"bytes": {"a": "aG\nk="}, "spec": {"port": "http", "time": "2024-01-01T01:00:00.5+01:00",
        "micro": "2024-01-01T00:00:00.000001Z", "wait": "90s", "replicas": 2.0,
        "containers": [{"name": "c", "resources": {"limits": {"cpu": 0.5, "memory": " 1024Mi ", "x": null}}}]}}),
    );
    assert_eq!(spec["bytes"], json!({"a": "aGk="}));
    assert_eq!(
        spec["spec"],
        json!({"port": "http", "time": "2024-01-01T00:00:00Z", "micro": "2024-01-01T00:00:00.000001Z", "wait": "1m30s",
            "replicas": 2, "containers": [{"name": "c", "resources": {"limits": {"cpu": "500m", "memory": "1Gi", "x": "0"}}}]})
    );
}

#[test]
fn unknown_and_repeated_fields_are_reported_in_the_order_of_the_document() {
    let (value, problems) = decode(
        r#"{"zork":1,"spec":{"x":{"d":1,"d":2},"containers":[{"name":"a","name":"b","q":1}],"x":1},"Data":{},"data":{"a":"1","a":"2"}}"#,
    )
    .unwrap();
    assert_eq!(value["data"], json!({"a": "2"}));
    assert_eq!(value.get("zork"), None);
    assert_eq!(
        problems,
        [
            "unknown field \"zork\"",
            "unknown field \"spec.x\"",
            "duplicate field \"spec.containers[0].name\"",
            "unknown field \"spec.containers[0].q\"",
            "unknown field \"Data\"",
            "duplicate field \"data.a\"",
        ]
    );
    assert_eq!(
        strict_error(&problems[..2]),
        "strict decoding error: unknown field \"zork\", unknown field \"spec.x\""
    );
}

#[test]
fn nobody_looks_into_raw_values() {
    let (_, problems) =
        decode(r#"{"kind":"a","kind":"b","spec":{"raw":{"a":1,"a":2},"raw":{"b":[{"a":1,"a":2}]}}}"#)
            .unwrap();
    assert_eq!(problems, ["duplicate field \"kind\"", "duplicate field \"spec.raw\""]);
}

#[test]
fn no_more_than_a_hundred_problems_are_reported() {
    let fields: Vec<String> = (0..300).map(|index| format!("\"x{index}\":1")).collect();
    let (_, problems) = decode(&format!("{{{}}}", fields.join(","))).unwrap();
    assert_eq!(problems.len(), 100);
    assert_eq!(problems[99], "unknown field \"x99\"");
}

#[test]
fn wrong_types_are_refused_in_the_words_of_go() {
    for (body, why) in [
        (
            json!({"data": {"a": 1}}),
            "json: cannot unmarshal number into Go struct field Thing.data of type string",
        ),
        (
            json!({"data": [1]}),
            "json: cannot unmarshal array into Go struct field Thing.data of type map[string]string",
        ),
        (
            json!({"metadata": "x"}),
            "json: cannot unmarshal string into Go struct field Thing.metadata of type v1.ObjectMeta",
        ),
        (
            json!({"spec": {"containers": [{"args": "x"}]}}),
            "json: cannot unmarshal string into Go struct field Container.spec.containers.args of type []string",
        ),
        (
            json!({"spec": {"containers": {}}}),
            "json: cannot unmarshal object into Go struct field ThingSpec.spec.containers of type []v1.Container",
        ),
        (
            json!({"spec": {"replicas": 3_000_000_000_i64}}),
            "json: cannot unmarshal number 3000000000 into Go struct field ThingSpec.spec.replicas of type int32",
        ),
        (
            json!({"spec": {"count": 1.5}}),
            "json: cannot unmarshal number 1.5 into Go struct field ThingSpec.spec.count of type int64",
        ),
        (
            json!({"spec": {"count": "1"}}),
            "json: cannot unmarshal string into Go struct field ThingSpec.spec.count of type int64",
        ),
        (
            json!({"spec": {"port": true}}),
            "json: cannot unmarshal bool into Go struct field ThingSpec.spec.port of type int32",
        ),
        (
            json!({"spec": {"time": 5}}),
            "json: cannot unmarshal number into Go struct field ThingSpec.spec.time of type string",
        ),
        (json!({"spec": {"wait": "5"}}), "time: missing unit in duration \"5\""),
        (json!({"bytes": {"a": "***"}}), "illegal base64 data at input byte 0"),
        (
            json!({"spec": {"containers": [{"resources": {"limits": {"cpu": "abc"}}}]}}),
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (json!([]), "json: cannot unmarshal array into Go value of type v1.Thing"),
    ] {
        assert_eq!(decode(&body.to_string()).unwrap_err(), why);
    }
    // The first in the document counts, unless a type's own decoder stopped at a later one.
    assert!(decode(r#"{"kind":1,"data":5}"#).unwrap_err().contains("Thing.kind"));
    assert!(decode(r#"{"kind":1,"apiVersion":5}"#).unwrap_err().contains("Thing.kind"));
    assert!(decode(r#"{"kind":1,"spec":{"port":true}}"#).unwrap_err().ends_with("type int32"));
}

#[test]
fn the_converter_has_its_own_words() {
    for (object, why) in [
        (json!({"data": {"a": 1}}), "cannot convert int64 to string"),
        (json!({"data": {"a": true}}), "unrecognized type: string"),
        (json!({"data": [1]}), "cannot restore map from slice"),
        (json!({"metadata": "x"}), "cannot restore struct from: string"),
        (json!({"spec": {"containers": {}}}), "cannot restore slice from map"),
        (json!({"spec": {"replicas": "x"}}), "unrecognized type: int32"),
        (json!({"spec": {"replicas": 1.5}}), "cannot convert float64 to int32"),
        (json!({"bytes": {"a": "***"}}), "error decoding from json: illegal base64 data at input byte 0"),
    ] {
        assert_eq!(convert(object, &thing()).unwrap_err(), why);
    }
    assert_eq!(
        typed(json!({"kind": 5}), &thing()).unwrap_err(),
        "json: cannot unmarshal number into Go struct field Thing.kind of type string"
    );
    let (_, problems) = convert(json!({"z": 1, "spec": {"b": 1}, "a": 1}), &thing()).unwrap();
    let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems, ["unknown field \"a\"", "unknown field \"spec.b\"", "unknown field \"z\""]);
}

#[test]
fn a_kind_is_found_or_said_to_be_missing() {
    assert_eq!(type_meta(&json!({"apiVersion": "v1", "kind": "Pod"})), Ok(("v1", "Pod")));
    assert_eq!(type_meta(&json!({})), Ok(("", "")));
    assert_eq!(
        type_meta(&json!({"kind": 5})).unwrap_err(),
        "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of type string"
    );
    assert_eq!(
        type_meta(&json!({"apiVersion": "a/b/c"})).unwrap_err(),
        "unexpected GroupVersion string: a/b/c"
    );
    let why = type_meta(&json!("abc")).unwrap_err();
    assert_eq!(
        unrecognized("ConfigMap", b"\"abc\"", why).message,
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" } (2261626322)"
    );
    assert_eq!(
        unrecognized("ConfigMap", br#"{"apiVersion":"v1","kind":"ConfigMap""#, "x").message,
        "the object provided is unrecognized (must be of type ConfigMap): x ({\"apiVersion\":\"v1\",\"kind\":\"Con ...)"
    );
    assert_eq!(
        undecodable("ConfigMap", "v1", "ConfigMap", "why").message,
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: why"
    );
    assert_eq!(invalid_patch("x", "why").message, " \"\" is invalid: patch: Invalid value: \"x\": why");
}
