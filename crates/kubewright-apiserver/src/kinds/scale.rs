//! The Scale of the built-in workloads.

use serde_json::{Value, json};

use super::access::{get, get_i64};
use crate::selector::LabelSelector;

/// The Scale of a Deployment, ReplicaSet, StatefulSet or ReplicationController.
pub(crate) fn read(kind: &str, object: &Value) -> Value {
    let mut metadata = serde_json::Map::new();
    for field in ["creationTimestamp", "name", "namespace", "resourceVersion", "uid"] {
        if let Some(value) = get(object, &["metadata", field]) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    let replicas = get_i64(object, &["spec", "replicas"]).unwrap_or(0);
    let selector = match kind {
        "ReplicationController" => {
            get(object, &["spec", "selector"]).and_then(Value::as_object).map(LabelSelector::from_labels)
        }
        _ => LabelSelector::from_object(get(object, &["spec", "selector"])).ok(),
    };
    let mut scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": {},
        "status": {"replicas": get_i64(object, &["status", "replicas"]).unwrap_or(0)},
    });
    if replicas != 0 {
        scale["spec"]["replicas"] = replicas.into();
    }
    let selector = selector.map(|selector| selector.to_string()).unwrap_or_default();
    if !selector.is_empty() {
        scale["status"]["selector"] = selector.into();
    }
    scale
}
