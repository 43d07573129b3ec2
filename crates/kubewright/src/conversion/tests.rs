//! Three versions of a kind that could hardly differ more.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{Operator, conversion::round_trip};

mod v1 {
    use super::*;

    /// Knows nothing of parts.
    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
    #[kube(group = "example.com", version = "v1", kind = "Web", namespaced)]
    pub(super) struct WebSpec {
        pub size: i32,
        pub note: Option<String>,
    }
}

mod v2 {
    use super::*;

    /// The hub.
    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
    #[kube(group = "example.com", version = "v2", kind = "Web", namespaced)]
    pub(super) struct WebSpec {
        pub replicas: i32,
        #[serde(default)]
        pub parts: Vec<Part>,
    }

    #[derive(Serialize, Deserialize, JsonSchema, Clone, Debug)]
    pub(super) struct Part {
        pub name: String,
        pub port: Option<i32>,
    }
}

mod v3 {
    use super::*;

    /// Counts in dozens.
    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
    #[kube(group = "example.com", version = "v3", kind = "Web", namespaced)]
    pub(super) struct WebSpec {
        pub dozens: i32,
        #[serde(default)]
        pub parts: Vec<String>,
    }
}

impl From<v1::Web> for v2::Web {
    fn from(web: v1::Web) -> Self {
        Self { metadata: web.metadata, spec: v2::WebSpec { replicas: web.spec.size, parts: Vec::new() } }
    }
}

impl From<v2::Web> for v1::Web {
    fn from(web: v2::Web) -> Self {
        Self { metadata: web.metadata, spec: v1::WebSpec { size: web.spec.replicas, note: None } }
    }
}

impl TryFrom<v3::Web> for v2::Web {
    type Error = &'static str;

    fn try_from(web: v3::Web) -> Result<Self, &'static str> {
        let replicas = web.spec.dozens.checked_mul(12).ok_or("so many there can't be")?;
        let parts = web.spec.parts.into_iter().map(|name| v2::Part { name, port: None }).collect();
        Ok(Self { metadata: web.metadata, spec: v2::WebSpec { replicas, parts } })
    }
}

impl From<v2::Web> for v3::Web {
    fn from(web: v2::Web) -> Self {
        let parts = web.spec.parts.into_iter().map(|part| part.name).collect();
        Self { metadata: web.metadata, spec: v3::WebSpec { dozens: web.spec.replicas / 12, parts } }
    }
}

fn operator() -> Operator {
    Operator::new("web-operator").converts::<v1::Web, v2::Web>().converts::<v3::Web, v2::Web>()
}

fn web(version: &str, spec: Value) -> Value {
    let metadata = json!({
        "name": "shop", "namespace": "default", "uid": "1", "resourceVersion": "7", "unheardOf": true,
        "annotations": {"own": "x"},
    });
    json!({"apiVersion": format!("example.com/{version}"), "kind": "Web", "metadata": metadata, "spec": spec})
}

fn to(version: &str, object: &Value) -> Value {
    operator().convert(object, &format!("example.com/{version}")).unwrap()
}

fn hub() -> Value {
    web(
        "v2",
        json!({"replicas": 30, "parts": [{"name": "front", "port": 80}, {"name": "back", "port": null}]}),
    )
}

#[test]
fn an_object_gets_its_fields_and_keeps_its_metadata() {
    let old = to("v1", &web("v2", json!({"replicas": 3})));
    assert_eq!(old, web("v1", json!({"size": 3, "note": null})));
}

#[test]
fn every_way_leads_back() {
    let there_and_back = |versions: &[&str], object: Value| {
        let last = versions.iter().fold(object.clone(), |object, version| to(version, &object));
        assert_eq!(last, object, "by {versions:?}");
    };
    there_and_back(&["v1", "v2"], hub());
    there_and_back(&["v3", "v2"], hub());
    there_and_back(&["v3", "v1", "v2"], hub());
    there_and_back(&["v1", "v3", "v1", "v2", "v3", "v2"], hub());
    let old = web("v1", json!({"size": 5, "note": "mine"}));
    there_and_back(&["v2", "v1"], old.clone());
    there_and_back(&["v3", "v1"], old.clone());
    there_and_back(&["v3", "v2", "v3", "v1"], old);
}

#[test]
fn what_is_kept_is_found_in_an_annotation_as_long_as_it_is_needed() {
    let old = to("v1", &hub());
    let annotations = old["metadata"]["annotations"].as_object().unwrap();
    assert_eq!(annotations.keys().collect::<Vec<_>>(), ["kubewright.dev/kept-from-v2", "own"]);
    let kept: Value =
        serde_json::from_str(annotations["kubewright.dev/kept-from-v2"].as_str().unwrap()).unwrap();
    let front = json!({"name": "front", "port": 80});
    assert_eq!(kept[0], json!({"at": ["spec", "parts", {"name": "front", "index": 0}], "was": front}));
    assert_eq!(to("v2", &old)["metadata"], hub()["metadata"]);
}

#[test]
fn what_a_client_of_an_old_version_changes_is_changed() {
    let mut old = to("v3", &hub());
    assert_eq!(old["spec"], json!({"dozens": 2, "parts": ["front", "back"]}));
    old["spec"]["parts"] = json!(["back", "front", "side"]);
    assert_eq!(to("v2", &old)["spec"]["replicas"], 30, "nobody changed that");
    assert_eq!(
        to("v2", &old)["spec"]["parts"],
        json!([{"name": "back", "port": null}, {"name": "front", "port": 80}, {"name": "side", "port": null}])
    );
    old["spec"]["dozens"] = json!(4);
    assert_eq!(to("v2", &old)["spec"]["replicas"], 48);
}

#[test]
fn an_annotation_that_makes_no_sense_does_no_harm() {
    let plain = to("v2", &web("v1", json!({"size": 3})))["spec"].clone();
    for forged in [
        "",
        "null",
        "{}",
        r#"[{"at": ["spec", "replicas"]}]"#,
        r#"[{"at": ["spec", "replicas"], "was": "many", "made": 3}]"#,
        r#"[{"at": [], "was": "gone"}]"#,
        r#"[{"at": ["spec", "parts", {"index": 9, "of": 0}], "was": 1}]"#,
        r#"[{"at": ["spec", "parts", {"name": "x", "index": 99}], "was": 1}]"#,
        r#"[{"at": ["metadata", "name"], "was": "other", "made": "shop"}]"#,
    ] {
        let mut old = web("v1", json!({"size": 3}));
        old["metadata"]["annotations"]["kubewright.dev/kept-from-v2"] = json!(forged);
        let new = to("v2", &old);
        assert_eq!(new["spec"], plain, "{forged}");
        assert_eq!(new["metadata"], web("v2", json!({}))["metadata"], "{forged}");
    }
}

#[test]
fn more_than_fits_into_annotations_is_no_silent_loss() {
    let converted = |length: usize| {
        let long = web("v1", json!({"size": 3, "note": "x".repeat(length)}));
        operator().convert(&long, "example.com/v2")
    };
    let size = |object: &Value| -> usize {
        let annotations = object["metadata"]["annotations"].as_object().unwrap();
        annotations.iter().map(|(name, value)| name.len() + value.as_str().unwrap().len()).sum()
    };
    let room = 256 * 1024 - size(&converted(1).unwrap());
    assert_eq!(size(&converted(1 + room).unwrap()), 256 * 1024);
    let why = converted(2 + room).unwrap_err().to_string();
    assert!(why.starts_with("what only v1 has a place for would go into an annotation"), "{why}");
    assert!(
        why.ends_with("all annotations would have 262145 bytes, more than the 262144 that are allowed"),
        "{why}"
    );
}

fn review(objects: &Value, desired: &str) -> Value {
    let request = json!({"uid": "42", "desiredAPIVersion": desired, "objects": objects});
    let review =
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request});
    operator().conversions.review(review)
}

#[test]
fn a_review_is_answered_in_its_order() {
    let objects: Vec<Value> = (0..50)
        .map(|size| match size % 2 {
            0 => web("v1", json!({"size": size})),
            _ => web("v2", json!({"replicas": size})),
        })
        .collect();
    let review = review(&json!(objects), "example.com/v2");
    assert_eq!(review["kind"], "ConversionReview");
    assert_eq!(review["apiVersion"], "apiextensions.k8s.io/v1");
    assert_eq!(review["response"]["uid"], "42");
    assert_eq!(review["response"]["result"]["status"], "Success");
    let converted = review["response"]["convertedObjects"].as_array().unwrap();
    let sizes: Vec<Option<i64>> = converted.iter().map(|one| one["spec"]["replicas"].as_i64()).collect();
    assert_eq!(sizes, (0..50).map(Some).collect::<Vec<_>>());
}

#[test]
fn a_review_says_what_can_not_be_converted_and_why() {
    let refusal = |object: Value, desired: &str| {
        let good = web("v1", json!({"size": 1}));
        let response = review(&json!([good, object]), desired)["response"].clone();
        assert_eq!(response["uid"], "42");
        assert_eq!(response["result"]["status"], "Failure");
        assert_eq!(response["convertedObjects"], json!([]));
        response["result"]["message"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        refusal(web("v1", json!({"size": "big"})), "example.com/v2"),
        "Web default/shop: it is no example.com/v1: invalid type: string \"big\", expected i32"
    );
    assert_eq!(
        refusal(web("v3", json!({"dozens": i32::MAX})), "example.com/v2"),
        "Web default/shop: from v3 to v2: so many there can't be"
    );
    assert_eq!(
        refusal(web("v9", json!({})), "example.com/v2"),
        "Web default/shop: version v9 is unknown; there are v1, v3, v2"
    );
    let other = json!({"apiVersion": "example.com/v1", "kind": "Door", "metadata": {"name": "front"}});
    assert_eq!(
        refusal(other, "example.com/v2"),
        "Door front: nothing is known of Door in example.com/v1 as example.com/v2"
    );
    for review in [json!(7), json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1"})] {
        let response = operator().conversions.review(review)["response"].clone();
        assert_eq!(response["result"]["status"], "Failure");
    }
}

#[test]
fn a_round_trip_names_what_only_an_annotation_keeps() {
    let spec =
        v2::WebSpec { replicas: 30, parts: vec![v2::Part { name: "front".to_owned(), port: Some(80) }] };
    let web = v2::Web::new("shop", spec);
    assert_eq!(round_trip::<v2::Web, v1::Web>(&web).unwrap(), [".spec.parts[front]"]);
    assert_eq!(round_trip::<v2::Web, v3::Web>(&web).unwrap(), [".spec.parts[front].port", ".spec.replicas"]);
}

#[test]
fn conversions_that_lead_nowhere_are_refused() {
    let refusal = |operator: &Operator| {
        operator.conversions.check(&operator.definitions()).expect_err("it leads nowhere").to_string()
    };
    operator().conversions.check(&operator().definitions()).unwrap();
    assert_eq!(
        refusal(&Operator::new("web-operator").converts::<v2::Web, v2::Web>()),
        "v2 of webs.example.com is converted to itself: name two versions"
    );
    assert_eq!(
        refusal(&operator().converts::<v2::Web, v1::Web>()),
        "webs.example.com are converted to v2 and to v1: choose one version as the hub, and convert all others to it"
    );
    assert_eq!(
        refusal(&Operator::new("web-operator").converts::<v1::Web, v2::Web>().defines::<v3::Web>()),
        "v3 of webs.example.com is not converted to v2, as other versions are: add .converts::<..>() for it"
    );
}
