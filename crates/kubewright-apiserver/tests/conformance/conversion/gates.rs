//! A kind in two versions that differ, and the webhook between them.

use std::{pin::Pin, sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{definition::Definition, harness::Server, network::Webhook};

/// What the webhook does instead of converting, and to which object; to all if the name is empty.
type Trouble = Arc<Mutex<Option<(&'static str, Value)>>>;

/// Gates, in `v1` with host and port and in `v2` with both in one, and the webhook that knows how they go together.
pub(super) struct Gates {
    pub(super) definition: Definition,
    pub(super) webhook: Webhook,
    trouble: Trouble,
}

pub(super) fn string() -> Value {
    json!({"type": "string"})
}

pub(super) fn version(name: &str, storage: bool, replicas: &str, spec: &Value) -> Value {
    json!({
        "name": name, "served": true, "storage": storage,
        "subresources": {"status": {}, "scale": {"specReplicasPath": replicas, "statusReplicasPath": ".status.replicas"}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": spec},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }}},
        "additionalPrinterColumns": [{"name": "Where", "type": "string", "jsonPath": if name == "v1" { ".spec.host" } else { ".spec.hostPort" }}],
    })
}

pub(super) fn versions(storage: &str) -> Value {
    let integer = json!({"type": "integer"});
    let v1 = json!({"host": string(), "port": string(), "replicas": integer, "note": {"type": "string", "maxLength": 9}});
    let v2 = json!({"hostPort": string(), "size": integer, "note": string()});
    json!([
        version("v1", storage == "v1", ".spec.replicas", &v1),
        version("v2", storage == "v2", ".spec.size", &v2)
    ])
}

fn spec_of_v2(spec: &mut Value) {
    let fields = spec.as_object_mut().expect("a spec is an object");
    if let Some(host) = fields.remove("host") {
        let port = fields.remove("port").unwrap_or_else(|| json!("0"));
        let both = format!("{}:{}", host.as_str().unwrap_or_default(), port.as_str().unwrap_or_default());
        fields.insert("hostPort".to_owned(), both.into());
    }
    if let Some(replicas) = fields.remove("replicas") {
        fields.insert("size".to_owned(), replicas);
    }
}

fn spec_of_v1(spec: &mut Value) {
    let fields = spec.as_object_mut().expect("a spec is an object");
    if let Some(both) = fields.remove("hostPort") {
        let (host, port) = both.as_str().and_then(|both| both.split_once(':')).unwrap_or_default();
        fields.insert("host".to_owned(), host.into());
        fields.insert("port".to_owned(), port.into());
    }
    if let Some(size) = fields.remove("size") {
        fields.insert("replicas".to_owned(), size);
    }
}

/// The answer of a webhook that converts as it should.
pub(super) fn convert(request: &Value) -> Value {
    let desired = &request["desiredAPIVersion"];
    let converted = request["objects"].as_array().into_iter().flatten().map(|object| {
        assert_ne!(object["apiVersion"], *desired, "an object of the desired version is not sent");
        let mut object = object.clone();
        object["apiVersion"] = desired.clone();
        if object["spec"].is_object() {
            let to_v2 = desired.as_str().is_some_and(|desired| desired.ends_with("/v2"));
            if to_v2 { spec_of_v2(&mut object["spec"]) } else { spec_of_v1(&mut object["spec"]) }
        }
        object
    });
    json!({"convertedObjects": converted.collect::<Vec<_>>(), "result": {"status": "Success"}})
}

impl Gates {
    /// Defined and served, kept in `v1`.
    pub(super) async fn defined(t: &Server) -> Self {
        Self::with_versions(t, versions("v1")).await
    }

    pub(super) async fn with_versions(t: &Server, versions: Value) -> Self {
        let trouble = Trouble::default();
        let webhook = Webhook::start(converter(trouble.clone())).await;
        let definition = Definition::free_form()
            .named("gates", "Gate")
            .set("/versions", versions)
            .set("/conversion", conversion(webhook.client_config(), &["v1"]));
        Self { definition: t.define(definition).await, webhook, trouble }
    }

    pub(super) fn at(&self, t: &Server, version: &str) -> String {
        self.definition.at(version, &t.namespace)
    }

    pub(super) fn one(&self, t: &Server, version: &str, name: &str) -> String {
        format!("{}/{name}", self.at(t, version))
    }

    pub(super) fn v1(&self, name: &str, host: &str, port: &str) -> Value {
        self.definition.object_in("v1", name, json!({"host": host, "port": port}))
    }

    pub(super) fn v2(&self, name: &str, host_port: &str) -> Value {
        self.definition.object_in("v2", name, json!({"hostPort": host_port}))
    }

    pub(super) fn trouble(&self, name: &'static str, answer: Value) {
        *self.trouble.lock() = Some((name, answer));
    }

    pub(super) fn no_trouble(&self) {
        *self.trouble.lock() = None;
    }

    /// Changes the definition's spec and waits until the server goes by it.
    pub(super) async fn redefine(&self, t: &Server, change: Value) {
        let trouble = self.trouble.lock().take();
        t.merge(&self.definition.path(), json!({"spec": change})).await.code(200);
        let stored = t.get(&self.definition.path()).await;
        let storage = stored.at("/spec/versions/0/storage") == true;
        let (storage, other) = if storage { ("v1", "v2") } else { ("v2", "v1") };
        let desired = format!("{}/{storage}", self.definition.group);
        t.until("the definition is in force", async || {
            self.webhook.forget();
            let mut probe = self.definition.object_in(other, "", json!({}));
            probe["metadata"] = json!({"generateName": "probe-"});
            t.post(&self.definition.at(other, "default"), probe).await.code(201);
            let asked = self.webhook.asked();
            asked.iter().any(|request| request["desiredAPIVersion"] == desired).then_some(())
        })
        .await;
        if !t.is_embedded() {
            // What the former definition has opened is closed by then.
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        self.webhook.forget();
        *self.trouble.lock() = trouble;
    }

    pub(super) async fn keep_in(&self, t: &Server, version: &str) {
        self.redefine(t, json!({"versions": versions(version)})).await;
    }
}

fn converter(
    trouble: Trouble,
) -> impl Fn(Value) -> Pin<Box<dyn Future<Output = Value> + Send>> + Clone + Send + 'static {
    move |request| {
        let trouble = trouble.lock().clone();
        let concerns = |name: &str, object: &Value| name.is_empty() || object["metadata"]["name"] == name;
        let mut objects = request["objects"].as_array().into_iter().flatten();
        let answer = match trouble {
            Some((name, answer)) if objects.any(|object| concerns(name, object)) => match answer.get("merge")
            {
                Some(change) => {
                    let mut answer = convert(&request);
                    let converted = answer["convertedObjects"].as_array_mut().into_iter().flatten();
                    converted
                        .filter(|object| concerns(name, object))
                        .for_each(|object| merge(object, change));
                    answer
                }
                None => answer,
            },
            _ => convert(&request),
        };
        Box::pin(async move { answer })
    }
}

fn merge(into: &mut Value, change: &Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (name, value) in change {
                if value.is_null() {
                    into.remove(name);
                } else {
                    merge(into.entry(name.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (into, change) => *into = change.clone(),
    }
}

pub(super) fn conversion(client_config: Value, review_versions: &[&str]) -> Value {
    json!({"strategy": "Webhook", "webhook": {"clientConfig": client_config, "conversionReviewVersions": review_versions}})
}

pub(super) fn failed(message: &str) -> Value {
    json!({"result": {"status": "Failed", "message": message}})
}
