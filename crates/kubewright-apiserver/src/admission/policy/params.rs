//! Parameters of policies: objects of a kind the policy names, chosen by a binding.

use std::sync::Arc;

use serde_json::Value;

use super::super::attributes::Attributes;
use crate::{
    kinds::access,
    registry::{Registry, Resource},
    selector::LabelSelector,
    store::Stored,
};

/// The kind of a policy's parameters.
#[derive(Debug, Clone)]
pub(super) struct ParamKind {
    group: String,
    version: String,
    kind: String,
}

impl ParamKind {
    /// Reads `spec.paramKind`.
    pub(super) fn read(spec: &Value) -> Option<Self> {
        let kind = spec.get("paramKind").filter(|kind| kind.is_object())?;
        let api_version = access::get_str(kind, &["apiVersion"]);
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Some(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: access::get_str(kind, &["kind"]).to_owned(),
        })
    }

    /// The resource of the kind; the error is the end of a policy's refusal.
    pub(super) fn resource(&self, registry: &Registry) -> Result<Arc<Resource>, String> {
        let Self { group, version, kind } = self;
        registry.kind(group, version, kind).cloned().ok_or_else(|| {
            format!("failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'")
        })
    }
}

/// How a binding chooses parameters.
#[derive(Debug)]
pub(super) struct ParamRef {
    name: String,
    namespace: String,
    selector: Option<Result<LabelSelector, String>>,
    /// Whether requests are denied when there are no parameters.
    deny_if_missing: bool,
}

impl ParamRef {
    /// Reads `spec.paramRef`.
    pub(super) fn read(spec: &Value) -> Option<Self> {
        let reference = spec.get("paramRef").filter(|reference| reference.is_object())?;
        let text = |name: &str| access::get_str(reference, &[name]).to_owned();
        let selector = reference.get("selector").filter(|selector| !selector.is_null());
        Some(Self {
            name: text("name"),
            namespace: text("namespace"),
            selector: selector.map(|selector| LabelSelector::from_object(Some(selector))),
            deny_if_missing: text("parameterNotFoundAction") == "Deny",
        })
    }

    /// The parameters for a request; the error is the end of a binding's refusal.
    pub(super) async fn collect(
        &self,
        request: &Attributes<'_>,
        resource: &Arc<Resource>,
    ) -> Result<Vec<Value>, String> {
        let namespace = match (resource.namespaced, self.namespace.as_str()) {
            (true, "") if request.namespace.is_empty() => {
                return Err(
                    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                        .to_owned(),
                );
            }
            (true, "") => request.namespace.as_str(),
            (true, namespace) => namespace,
            (false, "") => "",
            (false, _) => {
                return Err(
                    "paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned()
                );
            }
        };
        let prefix = if resource.namespaced { format!("{namespace}/") } else { String::new() };
        let store = &request.scope.server.store;
        let found: Vec<Arc<Stored>> = if !self.name.is_empty() {
            store.get(&resource.storage.id, &format!("{prefix}{}", self.name)).into_iter().collect()
        } else {
            let selector = match &self.selector {
                Some(Ok(selector)) => selector,
                Some(Err(why)) => return Err(why.clone()),
                None => return Err("one of name or selector must be provided".to_owned()),
            };
            let collection = store.collection(&resource.storage.id);
            let chosen = |one: &&Arc<Stored>| selector.matches_with(|name| one.labels.get(name));
            collection.range(&prefix, "").filter(chosen).cloned().collect()
        };
        if found.is_empty() && self.deny_if_missing {
            return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
        }
        let mut params = Vec::with_capacity(found.len());
        for stored in found {
            let scope = request.scope.at(resource.clone(), stored.namespace(), stored.name());
            params.push(scope.load(&stored).await.map_err(|error| error.message)?);
        }
        Ok(params)
    }
}
