use serde_json::{Value, json};

use super::*;
use crate::field::Path;

#[test]
fn good_texts_pass_and_bad_ones_say_why() {
    let long = "a".repeat(64);
    type Row<'a> = (fn(&str) -> Vec<String>, &'a [&'a str], &'a [(&'a str, &'a str)]);
    let table: &[Row<'_>] = &[
        (
            dns1123_label,
            &["a", "0a-b"],
            &[
                ("a.b", "must not contain dots"),
                (
                    "-a",
                    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                ),
                (&long, "must be no more than 63 characters"),
            ],
        ),
        (
            dns1123_subdomain,
            &["a.b-c.1"],
            &[(
                "a..b",
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            )],
        ),
        (
            qualified_name,
            &["a", "example.com/A_b.c", "1/2"],
            &[
                ("/a", "prefix part must be non-empty"),
                (
                    "a/",
                    "name part must be non-empty; name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                ),
                (&long, "name part must be no more than 63 bytes"),
            ],
        ),
        (
            path_segment,
            &["a:b", "..a"],
            &[("..", "may not be '..'"), ("a/%", "may not contain '/'; may not contain '%'")],
        ),
        (
            port_name,
            &["http2"],
            &[("-1", "must contain at least one letter (a-z); must not begin or end with a hyphen")],
        ),
        (config_map_key, &["a.B_c-1"], &[("..x", "must not start with '..'"), (".", "must not be '.'")]),
        (relaxed_env_var_name, &["1 a"], &[("", "environment variable name must be non-empty")]),
        (
            percent,
            &["1%"],
            &[(
                "%",
                "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
            )],
        ),
        (wildcard_dns1123_subdomain, &["*.a.b"], &[]),
        (http_header_name, &["X-A"], &[]),
    ];
    for (check, good, bad) in table {
        for text in *good {
            assert_eq!(check(text), Vec::<String>::new(), "{text}");
        }
        for (text, why) in *bad {
            assert_eq!(check(text).join("; "), *why, "{text}");
        }
    }
    assert!(!wildcard_dns1123_subdomain("*.*.a").is_empty());
    assert!(!dns1035_label("1a").is_empty());
}

#[test]
fn a_generated_name_may_end_in_a_dash() {
    assert!(name_is_dns_subdomain("web-", true).is_empty());
    assert!(!name_is_dns_subdomain("web-", false).is_empty());
    assert!(!name_is_dns_subdomain("-", true).is_empty());
    // The mask takes the character before the dash along.
    assert!(name_is_dns_subdomain("web--", true).is_empty());
}

fn create(meta: Value) -> Vec<String> {
    validate_object_meta(&meta, true, name_is_dns_subdomain, &Path::new("metadata"))
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn metadata_of_a_new_object_is_checked_field_by_field() {
    assert_eq!(create(json!({"name": "a", "namespace": "b", "labels": {"a": ""}})), Vec::<String>::new());
    assert_eq!(
        create(json!({})),
        [
            "metadata.name: Required value: name or generateName is required",
            "metadata.namespace: Required value"
        ]
    );
    let owner =
        |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": "u", "controller": true});
    let errors = create(json!({"name": "a", "namespace": "b", "ownerReferences": [owner("x"), owner("y")],
        "finalizers": ["orphan", "foregroundDeletion"], "generation": -1}));
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert_eq!(errors[0], "metadata.generation: Invalid value: -1: must be greater than or equal to 0");
    assert!(errors[1].ends_with("Found \"true\" in references for Pod/x and Pod/y"));
    assert_eq!(
        errors[2],
        "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and foregroundDeletion cannot be both set"
    );
    assert_eq!(
        create(
            json!({"name": "a", "namespace": "b", "ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "e"}]})
        )[0],
        "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty"
    );
    assert_eq!(
        create(
            json!({"name": "a", "namespace": "b", "annotations": {"UPPER.com/a": "x".repeat(256 * 1024)}})
        ),
        ["metadata.annotations: Too long: may not be more than 262144 bytes"]
    );
}

#[test]
fn an_update_may_not_touch_identity_and_may_not_add_finalizers_while_deleting() {
    let old = json!({"name": "a", "namespace": "n", "uid": "1", "resourceVersion": "5", "generation": 2,
        "deletionTimestamp": "2024-01-01T00:00:00Z", "finalizers": ["a.io/x"]});
    let new = json!({"name": "a", "namespace": "n", "uid": "2", "generation": 1, "finalizers": ["a.io/x", "a.io/y"]});
    let errors: Vec<String> = validate_object_meta_update(&new, &old, &Path::new("metadata"))
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        errors,
        [
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"a.io/y\"}",
            "metadata.resourceVersion: Invalid value: \"\": must be specified for an update",
            "metadata.generation: Invalid value: 1: must not be decremented",
            "metadata.uid: Invalid value: \"2\": field is immutable",
            "metadata.deletionTimestamp: Invalid value: null: field is immutable",
        ]
    );
    assert!(validate_object_meta_update(&old, &old, &Path::new("metadata")).is_empty());
}
