//! Discovery: what is served, as documents, in the legacy and the aggregated form.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{answer, openapi};
use crate::registry::{Group, Registry, Resource, Subresource, Version, group_version};

/// A document as it is sent, with its entity tag.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    pub(crate) body: Bytes,
    pub(crate) tag: String,
}

/// `/api`: the versions of the core group.
pub(crate) fn core_versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// `/apis`: every group but core.
pub(crate) fn groups(registry: &Registry) -> Value {
    let groups: Vec<Value> =
        registry.groups().iter().filter(|group| !group.name.is_empty()).map(group_entry).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`.
pub(crate) fn group(group: &Group) -> Value {
    let mut document = group_entry(group);
    document["kind"] = "APIGroup".into();
    document["apiVersion"] = "v1".into();
    document
}

fn group_entry(group: &Group) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| json!({"groupVersion": group_version(&group.name, &version.name), "version": &*version.name}))
        .collect();
    json!({"name": &*group.name, "preferredVersion": versions.first(), "versions": versions})
}

/// `/api/v1` and `/apis/GROUP/VERSION`.
pub(crate) fn resources(group: &str, version: &Version) -> Value {
    let mut list = Vec::new();
    for resource in &version.resources {
        list.push(resource_entry(resource));
        list.extend(resource.subresources.iter().map(|sub| subresource_entry(resource, sub)));
    }
    let mut document = json!({"kind": "APIResourceList", "groupVersion": group_version(group, &version.name), "resources": list});
    if !group.is_empty() {
        document["apiVersion"] = "v1".into();
    }
    document
}

fn resource_entry(resource: &Resource) -> Value {
    let mut entry = json!({
        "name": &*resource.plural, "singularName": &*resource.singular, "namespaced": resource.namespaced,
        "kind": &*resource.kind, "verbs": strings(&resource.verbs),
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = strings(&resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = strings(&resource.categories);
    }
    if let Some(hash) = &resource.storage_hash {
        entry["storageVersionHash"] = (&**hash).into();
    }
    entry
}

fn subresource_entry(resource: &Resource, sub: &Subresource) -> Value {
    let mut entry = json!({
        "name": format!("{}/{}", resource.plural, sub.name), "singularName": "",
        "namespaced": resource.namespaced, "kind": &*sub.kind, "verbs": strings(&sub.verbs),
    });
    if let Some((group, version)) = &sub.group_version {
        entry["group"] = (&**group).into();
        entry["version"] = (&**version).into();
    }
    entry
}

/// `/api` and `/apis` in one document each, of the core group or of the others.
pub(crate) fn aggregated(registry: &Registry, core: bool) -> Document {
    let document = registry.documents[usize::from(core)].get_or_init(|| {
        let groups = registry.groups().iter().filter(|group| group.name.is_empty() == core);
        let body: Bytes = answer::line(&aggregated_groups(groups)).into();
        Document { tag: openapi::tag(&body), body }
    });
    document.clone()
}

/// `APIGroupDiscoveryList`
fn aggregated_groups<'a>(groups: impl Iterator<Item = &'a Group>) -> Value {
    let items: Vec<Value> = groups
        .map(|group| {
            let versions: Vec<Value> = group
                .versions
                .iter()
                .map(|version| {
                    let resources: Vec<Value> =
                        version.resources.iter().map(|resource| aggregated_resource(resource)).collect();
                    json!({"version": &*version.name, "resources": resources, "freshness": "Current"})
                })
                .collect();
            let metadata = if group.name.is_empty() { json!({}) } else { json!({"name": &*group.name}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {}, "items": items,
    })
}

fn aggregated_resource(resource: &Resource) -> Value {
    // kube-apiserver leaves group and version empty where they are those of the document, except for CRDs.
    let own = |kind: &str| {
        let (group, version) =
            if resource.is_custom() { (&*resource.group, &*resource.version) } else { ("", "") };
        json!({"group": group, "version": version, "kind": kind})
    };
    let mut entry = json!({
        "resource": &*resource.plural, "responseKind": own(&resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": &*resource.singular, "verbs": strings(&resource.verbs),
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = strings(&resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = strings(&resource.categories);
    }
    if !resource.subresources.is_empty() {
        let list = resource.subresources.iter().map(|sub| {
            let kind = match &sub.group_version {
                Some((group, version)) => {
                    json!({"group": &**group, "version": &**version, "kind": &*sub.kind})
                }
                None => own(&sub.kind),
            };
            json!({"subresource": &*sub.name, "responseKind": kind, "verbs": strings(&sub.verbs)})
        });
        entry["subresources"] = list.collect();
    }
    entry
}

fn strings(list: &[std::sync::Arc<str>]) -> Value {
    list.iter().map(|one| Value::from(&**one)).collect()
}
