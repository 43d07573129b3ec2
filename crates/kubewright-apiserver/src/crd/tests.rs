//! CustomResourceDefinitions and their objects, as observed on kube-apiserver 1.36.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{jsonpath::JsonPath, *};
use crate::{field::FieldError, schema::Schema};

fn sorted(errors: &[FieldError]) -> Vec<String> {
    let mut texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    texts.sort();
    texts
}

fn crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "foos.ex.io" },
        "spec": {
            "group": "ex.io", "scope": "Namespaced", "names": { "plural": "foos", "kind": "Foo" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object", "properties": { "spec": { "type": "object", "properties": {} } } } } }],
        },
    })
}

fn created(change: impl FnOnce(&mut Value)) -> (Value, Vec<String>) {
    let mut crd = crd();
    change(&mut crd);
    default(&mut crd);
    prepare_create(&mut crd);
    let errors = sorted(&validate(&crd));
    (crd, errors)
}

/// The errors of a definition whose `spec.a` has `schema`, without the path down to it.
fn field_errors(schema: Value) -> Vec<String> {
    const AT: &str = "spec.validation.openAPIV3Schema.properties[spec].properties[a]";
    let (_, errors) = created(|crd| {
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["a"] =
            schema;
    });
    errors.iter().map(|error| error.replace(AT, "@")).collect()
}

const ONE_VERSION: &str = r#"{"Name":"v1","Served":true,"Storage":true,"Deprecated":false,"DeprecationWarning":null,"Schema":null,"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null}"#;

#[test]
fn a_new_definition_is_completed() {
    let (crd, errors) = created(|_| {});
    assert_eq!(errors, Vec::<String>::new());
    assert_eq!(
        crd["spec"]["names"],
        json!({ "kind": "Foo", "listKind": "FooList", "plural": "foos", "singular": "foo" })
    );
    assert_eq!(crd["spec"]["conversion"], json!({ "strategy": "None" }));
    assert_eq!(
        crd["status"],
        json!({ "acceptedNames": { "kind": "", "plural": "" }, "conditions": null, "storedVersions": ["v1"] })
    );
}

#[test]
fn what_is_wrong_with_a_spec_is_said_as_the_real_server_says_it() {
    let not_stored = ONE_VERSION.replace(r#""Storage":true"#, r#""Storage":false"#);
    type Change = fn(&mut Value);
    let cases: Vec<(Change, Vec<String>)> = vec![
        (
            |crd| crd["metadata"]["name"] = json!("zorks.ex.io"),
            vec![r#"metadata.name: Invalid value: "zorks.ex.io": must be spec.names.plural+"."+spec.group"#.to_owned()],
        ),
        (
            |crd| crd["spec"]["versions"][0]["storage"] = json!(false),
            vec![
                format!("spec.versions: Invalid value: [{not_stored}]: must have exactly one version marked as storage version"),
                "status.storedVersions: Invalid value: null: must have at least one stored version".to_owned(),
            ],
        ),
        (
            |crd| {
                let mut second = crd["spec"]["versions"][0].clone();
                second["storage"] = json!(false);
                crd["spec"]["versions"].as_array_mut().unwrap().push(second);
            },
            vec![format!("spec.versions: Invalid value: [{ONE_VERSION},{not_stored}]: must contain unique version names")],
        ),
        (
            |crd| crd["spec"]["scope"] = json!("Zork"),
            vec![r#"spec.scope: Unsupported value: "Zork": supported values: "Cluster", "Namespaced""#.to_owned()],
        ),
        (
            |crd| {
                crd["spec"]["group"] = json!("zork");
                crd["metadata"]["name"] = json!("foos.zork");
            },
            vec![r#"spec.group: Invalid value: "zork": should be a domain with at least one dot"#.to_owned()],
        ),
        (
            |crd| crd["spec"]["conversion"] = json!({ "strategy": "Webhook" }),
            vec![
                "spec.conversion.conversionReviewVersions: Required value".to_owned(),
                "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook".to_owned(),
            ],
        ),
        (
            |crd| {
                crd["spec"]["versions"][0]["subresources"] =
                    json!({ "scale": { "specReplicasPath": "spec.replicas", "statusReplicasPath": ".status.x[0]" } });
            },
            vec![
                r#"spec.subresources.scale.specReplicasPath: Invalid value: "spec.replicas": must be a simple json path starting with ."#
                    .to_owned(),
            ],
        ),
        (
            |crd| {
                crd["spec"]["versions"][0]["additionalPrinterColumns"] =
                    json!([{ "name": "A", "type": "zork", "jsonPath": "a" }]);
            },
            vec![
                r#"spec.additionalPrinterColumns[0].JSONPath: Invalid value: "a": must be a simple json path starting with ."#.to_owned(),
                r#"spec.additionalPrinterColumns[0].type: Invalid value: "zork": must be one of boolean,date,integer,number,string"#
                    .to_owned(),
            ],
        ),
        (
            |crd| crd["spec"]["versions"][0]["selectableFields"] = json!([{ "jsonPath": ".spec.nope" }]),
            vec![
                r#"spec.selectableFields[0].jsonPath: Invalid value: ".spec.nope": is an invalid path: does not refer to a valid field"#
                    .to_owned(),
            ],
        ),
        (
            |crd| crd["spec"]["preserveUnknownFields"] = json!(true),
            vec![
                "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
                    .to_owned(),
            ],
        ),
        (
            |crd| {
                crd["spec"]["versions"][0].as_object_mut().unwrap().remove("schema");
            },
            vec!["spec.versions[0].schema.openAPIV3Schema: Required value".to_owned()],
        ),
        (
            |crd| {
                crd["spec"]["group"] = json!("x.k8s.io");
                crd["metadata"]["name"] = json!("foos.x.k8s.io");
            },
            vec![
                r#"metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111"#
                    .to_owned(),
            ],
        ),
    ];
    for (change, expected) in cases {
        assert_eq!(created(change).1, expected);
    }
}

#[test]
fn versions_that_differ_are_judged_where_they_stand() {
    let (_, errors) = created(|crd| {
        crd["spec"]["versions"].as_array_mut().unwrap().push(json!({
            "name": "v2", "served": true, "storage": false,
            "schema": { "openAPIV3Schema": { "type": "object", "properties": { "a": { "type": "zork" } } } },
        }));
    });
    assert_eq!(
        errors,
        [
            r#"spec.versions[1].schema.openAPIV3Schema.properties[a].type: Unsupported value: "zork": supported values: "array", "boolean", "integer", "number", "object", "string""#
        ]
    );
}

#[test]
fn schemas_are_structural_and_use_what_is_supported() {
    let string = || json!({ "type": "string" });
    let rule = |rule: Value| json!({ "type": "string", "x-kubernetes-validations": [rule] });
    let cases: Vec<(Value, &[&str])> = vec![
        (json!({ "$ref": "#/definitions/x" }), &["@.$ref: Forbidden: $ref is not supported"]),
        (
            json!({ "type": "array", "uniqueItems": true, "items": string() }),
            &[
                "@.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            ],
        ),
        (
            json!({ "type": "object", "properties": { "x": string() }, "default": { "y": 1 } }),
            &[r#"@.default: Invalid value: {"y":1}: must not have unknown fields"#],
        ),
        (json!({ "type": "string", "default": null }), &[]),
        (
            json!({ "type": "string", "default": 1 }),
            &[r#"@.default: Invalid value: "integer":  in body must be of type string: "integer""#],
        ),
        (
            json!({ "type": "string", "not": { "default": "x", "minLength": 2 } }),
            &["@.not.default: Forbidden: must be undefined to be structural"],
        ),
        (
            json!({ "x-kubernetes-embedded-resource": true, "properties": {} }),
            &[
                "@.properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
                "@.type: Required value: must be object if x-kubernetes-embedded-resource is true",
            ],
        ),
        (
            json!({ "type": "string", "pattern": "(" }),
            &[
                r#"@.pattern: Invalid value: "(": must be a valid regular expression, but isn't: error parsing regexp: missing closing ): `(`"#,
            ],
        ),
        (
            json!({ "type": "zork" }),
            &[
                r#"@.type: Unsupported value: "zork": supported values: "array", "boolean", "integer", "number", "object", "string""#,
            ],
        ),
        (
            json!({ "type": "string", "id": "x", "dependencies": { "a": ["b"] } }),
            &[
                "@.dependencies: Forbidden: dependencies is not supported",
                "@.id: Forbidden: id is not supported",
            ],
        ),
        (json!({}), &["@.type: Required value: must not be empty for specified object fields"]),
        (json!({ "type": "array" }), &["@.items: Required value: must be specified"]),
        (
            json!({ "x-kubernetes-int-or-string": true, "anyOf": [{ "type": "integer" }, { "type": "string" }] }),
            &[],
        ),
        (
            json!({ "type": "string", "anyOf": [{ "type": "string" }] }),
            &["@.anyOf[0].type: Forbidden: must be empty to be structural"],
        ),
        (
            json!({ "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": { "type": "object", "properties": { "k": string() } } }),
            &[
                "@.items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            ],
        ),
        (
            json!({ "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["z"],
                "items": { "type": "object", "properties": { "k": string() } } }),
            &[
                r#"@.x-kubernetes-list-map-keys: Invalid value: ["z"]: entries must all be names of item properties"#,
            ],
        ),
        (
            json!({ "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "object", "properties": {} } }),
            &[
                "@.items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set",
            ],
        ),
        (
            json!({ "type": "object", "properties": { "x": string() }, "additionalProperties": string() }),
            &["@.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
        ),
        (
            rule(json!({ "rule": "true", "message": "a\nb" })),
            &[
                r#"@.x-kubernetes-validations[0].message: Invalid value: "a\nb": must not contain line breaks"#,
            ],
        ),
        (
            rule(json!({ "rule": "true\n&& true" })),
            &[
                "@.x-kubernetes-validations[0].message: Required value: message must be specified if rule contains line breaks",
            ],
        ),
        (
            rule(json!({ "rule": "true", "reason": "Zork" })),
            &[
                r#"@.x-kubernetes-validations[0].reason: Unsupported value: "Zork": supported values: "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired""#,
            ],
        ),
        (
            rule(json!({ "rule": " " })),
            &["@.x-kubernetes-validations[0].rule: Required value: rule is not specified"],
        ),
        (
            json!({ "type": "object", "properties": { "x": string() },
                "x-kubernetes-validations": [{ "rule": "true", "fieldPath": ".nope" }] }),
            &[r#"@.x-kubernetes-validations[0].fieldPath: Invalid value: ".nope": must be a valid path"#],
        ),
        (
            rule(json!({ "rule": "self" })),
            &[concat!(
                r#"@.x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self","Message":"","#,
                r#""MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: "#,
                "cel expression must evaluate to a bool"
            )],
        ),
        (
            json!({ "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
                "properties": { "metadata": { "type": "object", "properties": {
                    "name": { "type": "string", "default": ".." } } } } }),
            &[
                r#"@.properties[metadata].properties[name].default: Invalid value: "..": must result in valid metadata: metadata.name: Invalid value: "..": may not be '..'"#,
            ],
        ),
    ];
    for (schema, expected) in cases {
        assert_eq!(field_errors(schema.clone()), expected, "{schema}");
    }
}

#[test]
fn at_the_root_only_some_things_are_allowed() {
    let root = |change: fn(&mut Value)| created(|crd| change(&mut crd["spec"]["versions"][0])).1;
    assert_eq!(
        root(|version| version["schema"]["openAPIV3Schema"]["definitions"] =
            json!({ "a": { "type": "string" } })),
        ["spec.validation.openAPIV3Schema.definitions: Forbidden: definitions is not supported"]
    );
    assert_eq!(
        root(|version| {
            version["schema"]["openAPIV3Schema"]["properties"]["metadata"] =
                json!({ "type": "object", "properties": { "name": { "type": "string", "pattern": "^a" } } });
        }),
        Vec::<String>::new()
    );
    assert_eq!(
        root(|version| {
            version["schema"]["openAPIV3Schema"]["properties"]["metadata"] =
                json!({ "type": "object", "description": "d" });
        }),
        [
            "spec.validation.openAPIV3Schema.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified"
        ]
    );
    let errors = root(|version| {
        version["subresources"] = json!({ "status": {} });
        version["schema"]["openAPIV3Schema"]["minProperties"] = json!(1);
    });
    let [error] = errors.as_slice() else { panic!("{errors:?}") };
    assert!(
        error.starts_with(
            r#"spec.validation.openAPIV3Schema: Invalid value: {"ID":"","Schema":"","Ref":null,"#
        ),
        "{error}"
    );
    assert!(
        error.ends_with("XPreserveUnknownFields XValidations] fields are allowed at the root of the schema if the status subresource is enabled"),
        "{error}"
    );
}

#[test]
fn selectable_fields_are_few_and_scalar() {
    let errors = |schema: Value, fields: Value| {
        created(|crd| {
            let version = &mut crd["spec"]["versions"][0];
            version["schema"]["openAPIV3Schema"]["properties"]["spec"] = schema;
            version["selectableFields"] = fields;
        })
        .1
    };
    let spec = json!({ "type": "object", "properties": {
        "s": { "type": "string" }, "o": { "type": "object", "properties": {} } } });
    let path = |path: &str| json!([{ "jsonPath": path }]);
    assert_eq!(errors(spec.clone(), path(".spec.s")), Vec::<String>::new());
    assert_eq!(
        errors(spec.clone(), path(".spec.o")),
        [
            r#"spec.selectableFields[0].jsonPath: Invalid value: ".spec.o": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."#
        ]
    );
    assert_eq!(
        errors(spec.clone(), path(".spec['s']")),
        [
            r#"spec.selectableFields[0].jsonPath: Invalid value: ".spec['s']": is an invalid path: array notation is not allowed"#
        ]
    );
    assert_eq!(
        errors(spec, json!([{ "jsonPath": ".spec.s" }, { "jsonPath": ".spec.s" }])),
        [r#"spec.selectableFields[1].jsonPath: Duplicate value: ".spec.s""#]
    );
    let names: Vec<String> = (0..9).map(|index| format!("f{index}")).collect();
    let properties: serde_json::Map<String, Value> =
        names.iter().map(|name| (name.clone(), json!({ "type": "string" }))).collect();
    let fields: Vec<Value> =
        names.iter().map(|name| json!({ "jsonPath": format!(".spec.{name}") })).collect();
    assert_eq!(
        errors(json!({ "type": "object", "properties": properties }), fields.into()),
        ["spec.selectableFields: Too many: 9: must have at most 8 items"]
    );
}

#[test]
fn unknown_formats_are_warned_about_once() {
    let (crd, errors) = created(|crd| {
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["a"] =
            json!({ "type": "string", "format": "zork" });
    });
    assert_eq!((errors.len(), warnings(&crd, None)), (0, vec![r#"unrecognized format "zork""#.to_owned()]));
    assert_eq!(warnings(&crd, Some(&crd)), Vec::<String>::new());
}

#[test]
fn an_update_keeps_identity_and_stored_versions() {
    let (mut old, _) = created(|_| {});
    old["status"] = next_status(&old, [], "2026-01-01T00:00:00Z").unwrap();
    let update = |change: &dyn Fn(&mut Value)| {
        let mut new = old.clone();
        change(&mut new);
        prepare_update(&mut new, &old);
        let errors = sorted(&validate_update(&new, &old));
        (new["status"]["storedVersions"].clone(), errors)
    };
    assert_eq!(
        update(&|crd| crd["spec"]["scope"] = json!("Cluster")).1,
        [r#"spec.scope: Invalid value: "Cluster": field is immutable"#]
    );
    assert_eq!(
        update(&|crd| crd["spec"]["names"]["kind"] = json!("Bar")).1,
        [r#"spec.names.kind: Invalid value: "Bar": field is immutable"#]
    );
    let (stored, errors) = update(&|crd| {
        let mut second = crd["spec"]["versions"][0].clone();
        crd["spec"]["versions"][0]["storage"] = json!(false);
        second["name"] = json!("v2");
        crd["spec"]["versions"].as_array_mut().unwrap().push(second);
    });
    assert_eq!((stored, errors), (json!(["v1", "v2"]), Vec::new()));
    let (_, errors) = update(&|crd| crd["spec"]["versions"][0]["name"] = json!("v2"));
    assert_eq!(
        errors,
        [
            r#"status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 and removes v1 from status.storedVersions"#
        ]
    );
}

fn condition(status: &Value, ty: &str) -> Value {
    let found = status["conditions"].as_array().unwrap().iter().find(|one| one["type"] == ty);
    found.map(|one| json!([one["status"], one["reason"], one["message"]])).unwrap_or_default()
}

#[test]
fn names_belong_to_the_first_definition_of_a_group_that_asks() {
    let now = "2026-01-01T00:00:00Z";
    let (mut first, _) = created(|_| {});
    first["status"] = next_status(&first, [], now).unwrap();
    assert_eq!(first["status"]["acceptedNames"], first["spec"]["names"]);
    assert_eq!(
        condition(&first["status"], "Established"),
        json!(["True", "InitialNamesAccepted", "the initial names have been accepted"])
    );
    assert_eq!(
        condition(&first["status"], "NamesAccepted"),
        json!(["True", "NoConflicts", "no conflicts found"])
    );
    assert_eq!(next_status(&first, [], "2027-01-01T00:00:00Z"), None);

    let (mut second, _) = created(|crd| {
        crd["metadata"]["name"] = json!("bars.ex.io");
        crd["spec"]["names"]["plural"] = json!("bars");
        crd["spec"]["names"]["singular"] = json!("bar");
    });
    second["status"] = next_status(&second, [&first], now).unwrap();
    assert_eq!(
        condition(&second["status"], "NamesAccepted"),
        json!(["False", "ListKindConflict", "\"FooList\" is already in use"])
    );
    assert_eq!(
        condition(&second["status"], "Established"),
        json!(["False", "NotAccepted", "not all names are accepted"])
    );
    assert_eq!(second["status"]["acceptedNames"], json!({ "kind": "", "plural": "bars", "singular": "bar" }));

    let freed = next_status(&second, [], now).unwrap();
    assert_eq!(condition(&freed, "Established")[0], "True");
    assert_eq!(freed["acceptedNames"], second["spec"]["names"]);
}

#[test]
fn protected_groups_show_their_approval() {
    let (crd, errors) = created(|crd| {
        crd["spec"]["group"] = json!("x.k8s.io");
        crd["metadata"] = json!({ "name": "foos.x.k8s.io",
            "annotations": { "api-approved.kubernetes.io": "https://github.com/kubernetes/x/pull/1" } });
    });
    assert_eq!(errors, Vec::<String>::new());
    let status = next_status(&crd, [], "2026-01-01T00:00:00Z").unwrap();
    assert_eq!(
        condition(&status, "KubernetesAPIApprovalPolicyConformant"),
        json!(["True", "ApprovedAnnotation", "approved in https://github.com/kubernetes/x/pull/1"])
    );
}

#[test]
fn a_definition_waits_for_its_objects_to_go() {
    let (mut crd, _) = created(|_| {});
    let now = "2026-01-01T00:00:00Z";
    crd["status"] = next_status(&crd, [], now).unwrap();
    begin_deletion(&mut crd, now);
    assert_eq!(crd["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    assert_eq!(condition(&crd["status"], "Terminating")[1], "InstanceDeletionPending");
    end_deletion(&mut crd, now);
    assert_eq!(crd["metadata"]["finalizers"], json!([]));
    assert_eq!(
        condition(&crd["status"], "Terminating"),
        json!(["False", "InstanceDeletionCompleted", "removed all instances"])
    );
}

#[test]
fn tables_show_the_columns_a_definition_asks_for() {
    let column = |name: &str, ty: &str, path: &str| json!({ "name": name, "type": ty, "jsonPath": path });
    let version = json!({ "name": "v1", "additionalPrinterColumns": [
        column("S", "string", ".spec.s"),
        { "name": "I", "type": "integer", "jsonPath": ".spec.i", "priority": 1, "description": "an int" },
        column("N", "number", ".spec.n"),
        column("B", "boolean", ".spec.b"),
        column("Missing", "string", ".spec.zork"),
        column("L", "string", ".spec.l[*]"),
        column("Cond", "string", ".status.conditions[?(@.type==\"Ready\")].status"),
        column("O", "string", ".spec.o"),
        column("Wrong", "integer", ".spec.s"),
        column("D", "date", ".metadata.creationTimestamp"),
        column("Lbl", "string", r".metadata.labels.a\.b/c"),
        column("First", "string", ".spec.l[0]"),
        column("Out", "string", ".spec.l[9]"),
        column("Null", "string", ".spec.null"),
    ] });
    let object = json!({
        "metadata": { "name": "a", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": { "a.b/c": "v" } },
        "spec": { "s": "str", "i": 5, "n": 1.5, "b": true, "l": ["x", "y"], "o": { "k": "<" }, "null": null },
        "status": { "conditions": [{ "type": "Other", "status": "False" }, { "type": "Ready", "status": "True" }] },
    });
    let now: Timestamp = "2026-01-01T00:05:30Z".parse().unwrap();
    let table = Table::of(Version(&version));
    assert_eq!(
        table.cells(&object, now),
        [
            json!("a"),
            json!("str"),
            json!(5),
            json!(1.5),
            json!(true),
            json!(null),
            json!("x"),
            json!("True"),
            json!(r#"{"k":"\u003c"}"#),
            json!(null),
            json!("5m30s"),
            json!("v"),
            json!("x"),
            json!(null),
            json!("<no value>"),
        ]
    );
    assert_eq!(
        table.definitions()[2],
        json!({ "name": "I", "type": "integer", "format": "", "description": "an int", "priority": 1 })
    );
    let plain = Table::of(Version(&json!({ "name": "v1" }))).definitions().to_vec();
    assert_eq!((plain.len(), &plain[1]["name"], &plain[1]["type"]), (2, &json!("Age"), &json!("date")));
}

#[test]
fn json_paths_are_those_of_client_go() {
    let data = json!({
        "l": [{ "n": 1, "t": "a" }, { "n": 2, "t": "b" }, { "n": 3 }],
        "m": { "a.b": 1, "c": { "d": 2 } }, "nested": { "deep": { "n": 9 } },
    });
    for (path, expected) in [
        (".l[*].n", json!([1, 2, 3])),
        (".l[0:2].n", json!([1, 2])),
        (".l[-1].n", json!([3])),
        (".l[::2].n", json!([1, 3])),
        (".l[0,2].n", json!([1, 3])),
        (".l[?(@.n>1)].n", json!([2, 3])),
        (".l[?(@.t)].n", json!([1, 2])),
        (".l[?(@.t!='a')].n", json!([2])),
        (r".m.a\.b", json!([1])),
        (r".m['a\.b']", json!([1])),
        (".m['c'].d", json!([2])),
        (".m.*", json!([1, { "d": 2 }])),
        (".nested..n", json!([9])),
        (".nope.x", json!([])),
        ("$.m.c.d", json!([2])),
    ] {
        let found = JsonPath::parse(path).unwrap().find(&data).unwrap();
        let found: Vec<Value> = found.into_iter().map(std::borrow::Cow::into_owned).collect();
        assert_eq!(Value::from(found), expected, "{path}");
    }
    for path in [".l[7]", ".m[0]", ".l[?(@.n>'a')]"] {
        assert!(JsonPath::parse(path).unwrap().find(&data).is_err(), "{path}");
    }
    for path in [".l[", ".l[x]", ".l[?(@.n", "."] {
        assert_eq!(JsonPath::parse(path).is_err(), path != ".", "{path}");
    }
}

#[test]
fn a_scale_reads_and_writes_the_replicas() {
    let paths = json!({ "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.sel" });
    let mut object = json!({ "metadata": { "name": "x", "uid": "u", "labels": {} }, "spec": { "replicas": 3 },
        "status": { "replicas": 2, "sel": "a=b" } });
    let scale = scale_of(&object, &paths).unwrap();
    assert_eq!(
        scale,
        json!({ "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": { "name": "x", "uid": "u" },
            "spec": { "replicas": 3 }, "status": { "replicas": 2, "selector": "a=b" } })
    );
    let mut changed = scale;
    changed["spec"]["replicas"] = json!(-1);
    write_scale(&mut object, &changed, &paths).unwrap();
    let version = json!({ "subresources": { "scale": paths } });
    let verdict = validate_object(Vec::new(), &object, &Schema::any(), Version(&version));
    assert_eq!(
        sorted(&verdict.errors),
        [".spec.replicas: Invalid value: -1: should be a non-negative integer"]
    );

    let mut bare = json!({ "metadata": {}, "spec": {} });
    let error = scale_of(&bare, &paths).unwrap_err();
    assert_eq!(
        error.message,
        r#"Internal error occurred: the spec replicas field ".spec.replicas" does not exist"#
    );
    let unset = scale_for_update(&bare, &paths).unwrap();
    let error = write_scale(&mut bare, &unset, &paths).unwrap_err();
    assert_eq!(
        (error.code, &*error.message),
        (400, r#"the spec replicas field ".spec.replicas" cannot be empty"#)
    );
    let wrong = json!({ "spec": { "replicas": "3" } });
    let error = scale_of(&wrong, &paths).unwrap_err();
    assert_eq!(error.message, ".spec.replicas accessor error: 3 is of the type string, expected int64");
}

#[test]
fn status_is_apart_and_generation_follows_the_rest() {
    let with_status = json!({ "name": "v1", "subresources": { "status": {} } });
    let plain = json!({ "name": "v1" });
    let old =
        json!({ "metadata": { "name": "x", "generation": 3 }, "spec": { "a": 1 }, "status": { "s": 1 } });
    let update = |version: &Value, mut object: Value| {
        prepare_object_update(&mut object, &old, Version(version));
        object
    };
    let mut wanted = old.clone();
    wanted["status"] = json!({ "s": 2 });
    assert_eq!(update(&with_status, wanted.clone()), old);
    assert_eq!(update(&plain, wanted.clone())["metadata"]["generation"], 4);
    wanted["spec"]["a"] = json!(2);
    let updated = update(&with_status, wanted.clone());
    assert_eq!((&updated["metadata"]["generation"], &updated["status"]), (&json!(4), &json!({ "s": 1 })));
    wanted["metadata"]["labels"] = json!({ "a": "b" });
    prepare_object_status(&mut wanted, &old);
    assert_eq!(
        wanted,
        json!({ "metadata": { "name": "x", "generation": 3 }, "spec": { "a": 1 }, "status": { "s": 2 } })
    );
    prepare_object(&mut wanted, Version(&with_status));
    assert_eq!(wanted, json!({ "metadata": { "name": "x", "generation": 1 }, "spec": { "a": 1 } }));
}

#[test]
fn status_is_validated_by_its_own_schema() {
    let schema = Schema::custom_resource(&json!({ "type": "object", "properties": {
        "spec": { "type": "object", "required": ["x"] },
        "status": { "type": "object", "properties": { "n": { "type": "integer" } } } } }));
    let version = json!({ "name": "v1" });
    let object = json!({ "spec": {}, "status": { "n": "x" } });
    let old = json!({ "spec": {} });
    let verdict = validate_object_status(Vec::new(), &object, &old, &schema, Version(&version));
    assert_eq!(
        sorted(&verdict.errors),
        [r#"status.n: Invalid value: "string": n in body must be of type integer: "string""#]
    );
}

#[test]
fn rules_are_skipped_when_the_schema_is_broken() {
    let schema = Schema::custom_resource(&json!({ "type": "object", "properties": { "spec": {
        "type": "object", "properties": { "s": { "type": "string", "maxLength": 1 } },
        "x-kubernetes-validations": [{ "rule": "r" }] } } }));
    let verdict = validate_object(
        Vec::new(),
        &json!({ "spec": { "s": "long" } }),
        &schema,
        Version(&json!({ "name": "v1" })),
    );
    assert_eq!(
        sorted(&verdict.errors),
        [
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
            "spec.s: Too long: may not be more than 1 byte",
        ]
    );
}

#[test]
fn deprecated_versions_name_a_better_one() {
    let (crd, _) = created(|crd| {
        crd["spec"]["versions"] = json!([
            { "name": "v1", "served": true }, { "name": "v1beta1", "served": true, "deprecated": true },
            { "name": "v1alpha1", "deprecated": true, "deprecationWarning": "go away" }, { "name": "v2alpha1", "served": true },
        ]);
    });
    let definition = Definition(&crd);
    let warning = |name: &str| deprecation_warning(definition, definition.version(name).unwrap());
    assert_eq!(warning("v1"), None);
    assert_eq!(warning("v1beta1").unwrap(), "ex.io/v1beta1 Foo is deprecated; use ex.io/v1 Foo");
    assert_eq!(warning("v1alpha1").unwrap(), "go away");
}

#[test]
fn finalizers_without_a_domain_are_warned_about() {
    let object = json!({ "metadata": { "finalizers": ["plain", "a.io/b", "a.io"] } });
    assert_eq!(
        finalizer_warnings(&object, None),
        [
            r#"metadata.finalizers: "a.io": prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers"#,
            r#"metadata.finalizers: "plain": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers"#,
        ]
    );
    assert!(finalizer_warnings(&object, Some(&object)).is_empty());
}

#[test]
fn selectable_fields_have_text_values() {
    let version = json!({ "selectableFields": [{ "jsonPath": ".spec.n" }, { "jsonPath": ".spec.b" }, { "jsonPath": ".spec.none" }] });
    let fields = SelectableFields::of(Version(&version));
    let object = json!({ "spec": { "n": 5, "b": true } });
    let values: Vec<(&str, String)> = fields.values(&object).into_iter().collect();
    assert_eq!(
        values,
        [("spec.b", "true".to_owned()), ("spec.n", "5".to_owned()), ("spec.none", String::new())]
    );
}

#[test]
fn a_definition_publishes_its_schema() {
    let (crd, _) = created(|crd| {
        let version = &mut crd["spec"]["versions"][0];
        version["selectableFields"] = json!([{ "jsonPath": ".spec.a" }]);
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] = json!({
            "a": { "type": "string", "nullable": true },
            "n": { "type": "integer", "default": 1, "x-kubernetes-validations": [{ "rule": "self > 0" }] },
            "i": { "x-kubernetes-int-or-string": true },
            "p": { "type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {} },
        });
    });
    let [(name, kind), (list_name, list)] = openapi_v3(Definition(&crd), "v1").unwrap();
    assert_eq!((&*name, &*list_name), ("io.ex.v1.Foo", "io.ex.v1.FooList"));
    assert_eq!(
        kind["x-kubernetes-group-version-kind"],
        json!([{ "group": "ex.io", "version": "v1", "kind": "Foo" }])
    );
    assert_eq!(kind["x-kubernetes-selectable-fields"], json!([{ "fieldPath": "spec.a" }]));
    assert_eq!(
        kind["properties"]["metadata"]["allOf"],
        json!([{ "$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" }])
    );
    assert_eq!(
        kind["properties"]["spec"]["properties"]["i"],
        json!({ "x-kubernetes-int-or-string": true, "anyOf": [{ "type": "integer" }, { "type": "string" }] })
    );
    assert_eq!(list["properties"]["items"]["items"], json!({ "$ref": "#/components/schemas/io.ex.v1.Foo" }));
    let [(_, kind), _] = openapi_v2(Definition(&crd), "v1").unwrap();
    assert_eq!(
        kind["properties"]["spec"],
        json!({ "type": "object", "properties": {
            "a": {}, "i": { "x-kubernetes-int-or-string": true },
            "n": { "type": "integer", "x-kubernetes-validations": [{ "rule": "self > 0" }] },
            "p": { "x-kubernetes-preserve-unknown-fields": true } } })
    );
    assert_eq!(
        kind["properties"]["metadata"]["$ref"],
        "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    );
}

#[test]
fn no_definition_makes_the_functions_fail_badly() {
    for crd in [
        json!(null),
        json!({}),
        json!({ "spec": 1 }),
        json!({ "spec": { "versions": [1, {}, { "schema": [] }] } }),
    ] {
        let mut new = crd.clone();
        default(&mut new);
        prepare_create(&mut new);
        assert!(!validate(&new).is_empty());
        let _ = (validate_update(&new, &crd), next_status(&new, [&crd], "t"), warnings(&new, None));
        assert_eq!(openapi_v3(Definition(&crd), "v9"), None);
    }
}

/// Answers of a real server, one a line: see the fields each test reads.
mod observed {
    use super::*;
    use crate::schema;

    fn cases(lines: &'static str) -> impl Iterator<Item = Value> {
        lines.lines().map(|line| serde_json::from_str(line).unwrap())
    }

    fn object(x: &Value) -> Value {
        json!({ "apiVersion": "ex.io/v1", "kind": "Foo", "metadata": { "name": "o" }, "spec": x })
    }

    fn resource(spec: &Value) -> Schema {
        Schema::custom_resource(&json!({ "type": "object", "properties": { "spec": spec } }))
    }

    #[test]
    fn new_objects_get_the_same_answer() {
        let version = json!({ "name": "v1" });
        for case in cases(include_str!("testdata/values.jsonl")) {
            let schema = resource(&json!({ "type": "object", "properties": { "x": case["schema"] } }));
            let mut object = object(&json!({ "x": case["value"] }));
            let mut answer = json!({ "schema": case["schema"], "value": case["value"] });
            match schema::coerce(&mut object, &schema) {
                Err(why) => answer["refused"] = why.into(),
                Ok(_) => {
                    schema::default(&mut object, &schema);
                    let errors = validate_object(Vec::new(), &object, &schema, Version(&version)).errors;
                    schema::normalise_numbers(&mut object);
                    if errors.is_empty() {
                        answer["becomes"] = object["spec"]["x"].take();
                    } else {
                        answer["errors"] = sorted(&errors).into();
                    }
                }
            }
            assert_eq!(answer, case);
        }
    }

    #[test]
    fn updated_objects_get_the_same_answer() {
        let version = json!({ "name": "v1" });
        for case in cases(include_str!("testdata/updates.jsonl")) {
            let schema = resource(&case["schema"]);
            let (mut new, mut old) = (object(&case["new"]), object(&case["old"]));
            schema::coerce(&mut old, &schema).unwrap();
            schema::coerce(&mut new, &schema).unwrap();
            let verdict = validate_object_update(Vec::new(), &new, &old, &schema, Version(&version));
            assert_eq!(json!(sorted(&verdict.errors)), case["errors"], "{}", case["new"]);
        }
    }

    #[test]
    fn definitions_get_the_same_answer() {
        for case in cases(include_str!("testdata/definitions.jsonl")) {
            let mut crd = case["crd"].clone();
            default(&mut crd);
            prepare_create(&mut crd);
            assert_eq!(json!(sorted(&validate(&crd))), case["errors"], "{}", case["crd"]);
        }
    }
}

mod any_json {
    use proptest::{collection, prelude::*, strategy::Strategy};

    use super::*;

    const WORDS: &[&str] = &[
        "type",
        "properties",
        "items",
        "additionalProperties",
        "default",
        "enum",
        "required",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "nullable",
        "pattern",
        "format",
        "minimum",
        "maximum",
        "multipleOf",
        "maxLength",
        "minItems",
        "object",
        "array",
        "string",
        "integer",
        "number",
        "boolean",
        "date-time",
        "set",
        "map",
        "atomic",
        "metadata",
        "name",
        "kind",
        "apiVersion",
        "spec",
        "status",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type",
        "x-kubernetes-validations",
        "rule",
        "fieldPath",
        ".a['b",
        "[?(@.a==1)]",
        "a.b[0]",
        "(",
        "é",
        "",
    ];

    /// JSON that often looks like a schema, and often does not.
    fn anything() -> impl Strategy<Value = Value> {
        let word = || prop::sample::select(WORDS).prop_map(str::to_owned);
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            word().prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 60, 6, move |inner| {
            prop_oneof![
                collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                collection::btree_map(word(), inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn is_survived_as_schema_and_as_object(openapi in anything(), object in anything(), old in anything()) {
            let mut crd = crd();
            crd["spec"]["versions"][0] = json!({
                "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": openapi },
                "subresources": old, "additionalPrinterColumns": [old], "selectableFields": [object],
            });
            default(&mut crd);
            let valid = validate(&crd).is_empty();
            let definition = Definition(&crd);
            let version = definition.storage_version().unwrap();
            let _ = (openapi_v3(definition, "v1"), openapi_v2(definition, "v1"));
            let schema = Schema::custom_resource(&openapi);
            let mut value = object.clone();
            if crate::schema::coerce(&mut value, &schema).is_ok() && valid {
                crate::schema::default(&mut value, &schema);
                let once = value.clone();
                prop_assert_eq!(crate::schema::coerce(&mut value, &schema), Ok(Vec::new()));
                crate::schema::default(&mut value, &schema);
                prop_assert_eq!(&once, &value);
            }
            let _ = validate_object(Vec::new(), &value, &schema, version);
            let _ = validate_object_update(Vec::new(), &value, &old, &schema, version);
            let _ = validate_object_status(Vec::new(), &value, &old, &schema, version);
            let _ = Table::of(version).cells(&value, Timestamp::UNIX_EPOCH);
            let _ = SelectableFields::of(version).values(&value);
            prepare_object_update(&mut value, &old, version);
            prepare_object_status(&mut value, &old);
            let _ = write_scale(&mut value, &old, &openapi);
        }

        #[test]
        fn is_survived_as_path_and_pattern(text in ".{0,40}") {
            let _ = JsonPath::parse(&text).map(|path| path.find(&json!({ "a": [1] })).map(|found| found.len()));
            let _ = crate::schema::Pattern::new(&text);
        }
    }
}
