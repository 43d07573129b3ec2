//! Who owns the number of replicas, seen through `/scale`.

use serde_json::{Value, json};

use crate::fields::ScaleFields;

fn entry(manager: &str, operation: &str, version: &str, fields: Value) -> Value {
    json!({"manager": manager, "operation": operation, "apiVersion": version, "fieldsType": "FieldsV1",
        "time": "2024-01-01T00:00:00Z", "fieldsV1": fields.to_string()})
}

fn untimed(mut entry: Value) -> Value {
    entry.as_object_mut().unwrap().remove("time");
    entry
}

#[test]
fn a_scale_shows_the_owners_of_the_replicas_and_gives_them_back() {
    let steps = ["spec", "replicas"].map(str::to_owned).to_vec();
    let paths = [("apps/v1".to_owned(), Some(steps)), ("apps/v1beta1".to_owned(), None)];
    let fields = ScaleFields { api_version: "apps/v1", paths: &paths };
    let replicas = json!({"f:spec": {"f:replicas": {}}});
    let object = json!([
        entry("applier", "Apply", "apps/v1", json!({"f:spec": {"f:replicas": {}, "f:paused": {}}})),
        entry("old", "Apply", "apps/v1beta1", json!({"f:spec": {"f:x": {}}})),
        entry("unknown", "Apply", "apps/v0", json!({"f:spec": {"f:x": {}}})),
    ]);
    let scale = fields.to_scale(Some(&object)).unwrap().unwrap();
    assert_eq!(scale, json!([entry("applier", "Apply", "autoscaling/v1", replicas.clone())]));

    // Nothing stolen: entries stay, those of unknown versions go.
    let back = fields.to_object(Some(&object), Some(&scale)).unwrap().unwrap();
    assert_eq!(back, json!([object[0], object[1]]));

    // An autoscaler takes the replicas.
    let mut taken = entry("hpa", "Update", "autoscaling/v1", replicas.clone());
    taken["subresource"] = "scale".into();
    let back = fields.to_object(Some(&object), Some(&json!([taken]))).unwrap().unwrap();
    let mut expected = untimed(entry("hpa", "Update", "apps/v1", replicas));
    expected["subresource"] = "scale".into();
    assert_eq!(
        back,
        json!([
            entry("applier", "Apply", "apps/v1", json!({"f:spec": {"f:paused": {}}})),
            object[1],
            expected
        ])
    );
}
