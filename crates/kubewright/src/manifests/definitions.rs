//! The definitions of an operator's kinds: as manifests, small enough to be applied by any client, and as they
//! are brought to a cluster without taking anything away from the objects that are there.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::{default_namespace, narrowing::narrowed};
use crate::{
    conversion::CONVERT,
    error::{Error, Result},
    operator::Operator,
    reach::Reach,
};

/// What a client-side apply can write down in an annotation.
const LARGEST: usize = 262_144;

/// How long a definition may take until it is served.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often somebody else may be faster.
const ATTEMPTS: u32 = 10;

/// One definition for each kind, with all versions that the operator names. The first one that says so is stored; if
/// none does, the first. As all say so unless they are told otherwise, the hub of a kind comes before them.
pub(super) fn merged(operator: &Operator) -> Vec<CustomResourceDefinition> {
    let mut all: Vec<CustomResourceDefinition> = Vec::new();
    for definition in operator.definitions() {
        let Some(known) = all.iter_mut().find(|known| known.metadata.name == definition.metadata.name) else {
            all.push(definition.clone());
            continue;
        };
        for version in &definition.spec.versions {
            if known.spec.versions.iter().all(|other| other.name != version.name) {
                known.spec.versions.push(version.clone());
            }
        }
    }
    for definition in &mut all {
        let hub = operator.conversions.hub_of(&definition.spec.group, &definition.spec.names.kind);
        let versions = &mut definition.spec.versions;
        let is_hub = |name: &str| hub.is_some_and(|hub| hub.version == name);
        let candidates = versions.iter().filter(|version| version.storage).count();
        let stored = match candidates {
            1 => versions.iter().position(|version| version.storage),
            _ => versions.iter().position(|version| is_hub(&version.name)),
        };
        let stored = stored.or_else(|| versions.iter().position(|version| version.storage)).unwrap_or(0);
        versions.iter_mut().enumerate().for_each(|(at, version)| version.storage = at == stored);
    }
    all.sort_by_key(|definition| definition.name_any());
    all
}

pub(super) fn definitions(operator: &Operator, reach: &Reach) -> Vec<Value> {
    documents(operator, reach).map(|(_, document)| fitting(document)).collect()
}

/// The definitions, also as they are written: with the way to the conversions of the kinds that have some.
fn documents(operator: &Operator, reach: &Reach) -> impl Iterator<Item = (CustomResourceDefinition, Value)> {
    merged(operator).into_iter().map(|definition| {
        let mut document = document(&definition);
        let (group, kind) = (&definition.spec.group, &definition.spec.names.kind);
        if operator.conversions.hub_of(group, kind).is_some() {
            let webhook = json!({
                "conversionReviewVersions": ["v1"],
                "clientConfig": reach.client_config(CONVERT),
            });
            document["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": webhook});
        }
        (definition, document)
    })
}

fn document(definition: &CustomResourceDefinition) -> Value {
    let mut document = json!(definition);
    document["apiVersion"] = json!("apiextensions.k8s.io/v1");
    document["kind"] = json!("CustomResourceDefinition");
    write_whole(&mut document);
    document
}

/// Writes numbers that are whole without a fraction, as everybody does: limits are floats in the type of a schema.
fn write_whole(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(write_whole),
        Value::Array(items) => items.iter_mut().for_each(write_whole),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e15 => {
                *value = json!(float as i64);
            }
            _ => {}
        },
        _ => {}
    }
}

/// Leaves descriptions out, the most deeply nested first, until it is small enough.
fn fitting(document: Value) -> Value {
    const DEEPEST: usize = 32;
    let is_small = |document: &Value| document.to_string().len() < LARGEST;
    if is_small(&document) {
        return document;
    }
    let mut trimmed = document;
    for depth in (0..DEEPEST).rev() {
        for version in trimmed["spec"]["versions"].as_array_mut().into_iter().flatten() {
            trim(&mut version["schema"]["openAPIV3Schema"], depth);
        }
        if is_small(&trimmed) {
            break;
        }
    }
    trimmed
}

/// Keeps descriptions down to a depth.
fn trim(schema: &mut Value, depth: usize) {
    let Some(schema) = schema.as_object_mut() else { return };
    for property in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        below(property.1, depth);
    }
    for nested in ["items", "additionalProperties"] {
        if let Some(nested) = schema.get_mut(nested) {
            below(nested, depth);
        }
    }
}

fn below(schema: &mut Value, depth: usize) {
    match depth.checked_sub(1) {
        Some(depth) => trim(schema, depth),
        None => {
            schema.as_object_mut().map(|schema| schema.remove("description"));
            trim(schema, 0);
        }
    }
}

/// Brings the definitions of an operator's kinds to a cluster, and waits until they are served. A definition
/// that is there already is only ever widened: if a version would go, or its schema would no longer take what it
/// took before, this fails and says so, and that definition is not changed. New CEL rules are let through.
///
/// Kinds with conversions are converted behind the Service that the manifests have by default.
pub async fn install_crds(client: &Client, operator: &Operator) -> Result<()> {
    let reach = Reach::service_of(operator.name(), default_namespace(operator));
    install_crds_at(client, operator, &reach).await
}

/// Like [`install_crds`], for an operator that is reached elsewhere. A `caBundle` that is there stays.
pub async fn install_crds_at(client: &Client, operator: &Operator, reach: &Reach) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for (definition, document) in documents(operator, reach) {
        let name = definition.name_any();
        // Another replica may be at it, too, and the server itself writes to a definition that is new.
        let mut attempts = 1..ATTEMPTS;
        while let Err(why) = install(&api, &definition, &document, operator.name()).await {
            let is_overtaken = why.status().is_some_and(|status| status.reason == "Conflict");
            if !is_overtaken || attempts.next().is_none() {
                return Err(why);
            }
        }
        timeout(PATIENCE, established(&api, &name)).await.map_err(|_| {
            Error::new(format!(
                "CustomResourceDefinition {name} is not served {PATIENCE:?} after it was applied"
            ))
        })??;
    }
    Ok(())
}

async fn install(
    api: &Api<CustomResourceDefinition>,
    definition: &CustomResourceDefinition,
    document: &Value,
    manager: &str,
) -> Result<()> {
    let name = definition.name_any();
    let mut wanted = document.clone();
    if let Some(present) = api.get_opt(&name).await? {
        check(&present, definition)?;
        // What was checked is what is changed; otherwise the server says that there is a conflict.
        wanted["metadata"]["resourceVersion"] = json!(present.resource_version());
    }
    api.patch(&name, &PatchParams::apply(manager).force(), &Patch::Apply(&wanted)).await?;
    Ok(())
}

async fn established(api: &Api<CustomResourceDefinition>, name: &str) -> Result<()> {
    loop {
        let definition = api.get(name).await?;
        let conditions = definition.status.and_then(|status| status.conditions).unwrap_or_default();
        let condition = |kind: &str| conditions.iter().find(|condition| condition.type_ == kind);
        if condition("Established").is_some_and(|established| established.status == "True") {
            return Ok(());
        }
        if let Some(refused) = condition("NamesAccepted").filter(|accepted| accepted.status == "False") {
            let why = refused.message.as_deref().unwrap_or("another one has its names");
            return Err(Error::terminal(format!("CustomResourceDefinition {name} can't be served: {why}")));
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Whether everything that `present` takes is also taken by `wanted`.
fn check(present: &CustomResourceDefinition, wanted: &CustomResourceDefinition) -> Result<()> {
    let refuse =
        |why| Err(Error::terminal(format!("CustomResourceDefinition {}: {why}", present.name_any())));
    lost_by(present, wanted).map_or(Ok(()), refuse)
}

/// What is lost if a definition takes the place of another one, and what to do instead: a version that goes, or a schema
/// that no longer takes what it took before. Nothing if every object and every client goes on as it did.
pub fn lost_by(present: &CustomResourceDefinition, wanted: &CustomResourceDefinition) -> Option<String> {
    let stored =
        present.status.as_ref().and_then(|status| status.stored_versions.clone()).unwrap_or_default();
    present.spec.versions.iter().find_map(|version| {
        let name = &version.name;
        let wanted = wanted.spec.versions.iter().find(|other| other.name == *name);
        let Some(wanted) = wanted else {
            return Some(match version.storage || stored.contains(name) {
                true => format!(
                    "version {name} can't be removed, as objects are stored in it: migrate them, and take it out of \
                     status.storedVersions first"
                ),
                false => format!(
                    "version {name} would be removed, and its clients would fail: if nobody uses it any more, remove \
                     it with kubectl first"
                ),
            });
        };
        if version.served && !wanted.served {
            return Some(format!("version {name} would no longer be served"));
        }
        let (old, new) = (json!(version.schema), json!(wanted.schema));
        let why = narrowed(&old["openAPIV3Schema"], &new["openAPIV3Schema"], "")?;
        Some(format!(
            "in {name}, {why}; objects that are valid now would not be: add a new version instead"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(versions: Value, stored: &[&str]) -> CustomResourceDefinition {
        serde_json::from_value(json!({
            "metadata": {"name": "sites.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"kind": "Site", "plural": "sites"},
                "versions": versions,
            },
            "status": {"storedVersions": stored},
        }))
        .unwrap()
    }

    fn version(name: &str, stores: bool, schema: &Value) -> Value {
        json!({"name": name, "served": true, "storage": stores, "schema": {"openAPIV3Schema": schema}})
    }

    fn refusal(old: &CustomResourceDefinition, new: &CustomResourceDefinition) -> String {
        check(old, new).expect_err("it narrows").to_string()
    }

    #[test]
    fn a_version_in_which_objects_are_stored_stays() {
        let schema = json!({"type": "object"});
        let old =
            definition(json!([version("v1", false, &schema), version("v2", true, &schema)]), &["v1", "v2"]);
        let new = definition(json!([version("v2", true, &schema)]), &[]);
        assert!(refusal(&old, &new).contains("version v1 can't be removed, as objects are stored in it"));
        let migrated =
            definition(json!([version("v1", false, &schema), version("v2", true, &schema)]), &["v2"]);
        assert!(refusal(&migrated, &new).contains("version v1 would be removed"));
    }

    #[test]
    fn a_version_that_would_take_less_is_refused() {
        let with = |schema: &Value| definition(json!([version("v1", true, schema)]), &["v1"]);
        let old = json!({"type": "object", "properties": {"page": {"type": "string"}}});
        let new =
            json!({"type": "object", "properties": {"page": {"type": "string"}, "host": {"type": "string"}}});
        check(&with(&old), &with(&new)).unwrap();
        assert_eq!(
            refusal(&with(&new), &with(&old)),
            "CustomResourceDefinition sites.example.com: in v1, .host would be removed; objects that are valid now \
             would not be: add a new version instead"
        );
    }

    #[test]
    fn limits_are_written_as_people_write_them() {
        let schema = json!({"type": "object", "properties": {
            "size": {"type": "integer", "maximum": 5.0},
            "part": {"type": "number", "maximum": 0.5},
        }});
        let document = document(&definition(json!([version("v1", true, &schema)]), &[]));
        let properties = &document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        assert_eq!(
            properties.to_string().replace('"', ""),
            "{part:{maximum:0.5,type:number},size:{maximum:5,type:integer}}"
        );
    }

    #[test]
    fn descriptions_go_from_the_inside_until_the_definition_fits() {
        let long = "d".repeat(LARGEST);
        let inner =
            json!({"type": "object", "description": long, "properties": {"description": {"type": "string"}}});
        let schema = json!({"type": "object", "description": "a site", "properties": {
            "spec": {"type": "object", "description": "what is wanted", "properties": {"pod": inner}},
        }});
        let fitted = fitting(document(&definition(json!([version("v1", true, &schema)]), &[])));
        assert!(fitted.to_string().len() < LARGEST);
        let schema = &fitted["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        assert_eq!(schema["properties"]["spec"]["description"], "what is wanted");
        let pod = &schema["properties"]["spec"]["properties"]["pod"];
        assert_eq!(pod["description"], Value::Null);
        assert_eq!(pod["properties"]["description"]["type"], "string", "a field of that name stays");
    }
}
