//! All objects of one deployment, known to the cluster as an ApplySet: a ConfigMap that says which kinds there are in
//! which namespaces, and a label on each of them, both as kubectl specifies it (KEP-3659). So what belongs to it can be
//! found without the operator's code, by this and by other tools.

use std::collections::BTreeSet;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Error, ResourceExt as _,
    api::{DynamicObject, ListParams},
    discovery::{self, Scope},
    error::DiscoveryError,
};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::apply::{Placed, reason};

const ID: &str = "applyset.kubernetes.io/id";
const TOOLING: &str = "applyset.kubernetes.io/tooling";
const KINDS: &str = "applyset.kubernetes.io/contains-group-kinds";
const NAMESPACES: &str = "applyset.kubernetes.io/additional-namespaces";
/// The label of each member, with the id of its set.
pub(crate) const PART_OF: &str = "applyset.kubernetes.io/part-of";

const TOOL: &str = "kubewright";

/// The set of an operator that lives in a namespace.
pub(crate) struct ApplySet {
    pub(crate) operator: String,
    pub(crate) namespace: String,
}

/// Where members are to be looked for.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    /// Kind and group of each.
    kinds: BTreeSet<(String, String)>,
    namespaces: BTreeSet<String>,
}

impl ApplySet {
    /// The set of what these documents install.
    pub(crate) fn of(documents: &[Value]) -> Result<Self, String> {
        let account = documents.iter().find(|document| document["kind"] == "ServiceAccount");
        let text = |field: &str| Some(account?["metadata"][field].as_str()?.to_owned());
        match (text("name"), text("namespace")) {
            (Some(operator), Some(namespace)) => Ok(Self { operator, namespace }),
            _ => Err(
                "the manifests of the operator have no ServiceAccount: is it built with another version of \
                      kubewright?"
                    .to_owned(),
            ),
        }
    }

    pub(crate) fn id(&self) -> String {
        let text = format!("{}.{}.ConfigMap.", self.operator, self.namespace);
        format!("applyset-{}-v1", URL_SAFE_NO_PAD.encode(digest(&SHA256, text.as_bytes())))
    }

    /// A document as a member.
    pub(crate) fn labelled(&self, mut document: Value) -> Value {
        document["metadata"]["labels"][PART_OF] = self.id().into();
        document
    }

    /// The object that stands for the set.
    pub(crate) fn parent(&self, contents: &Contents) -> Value {
        let others = contents.namespaces.iter().filter(|namespace| **namespace != self.namespace);
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": self.operator,
                "namespace": self.namespace,
                "labels": {ID: self.id(), "app.kubernetes.io/managed-by": TOOL},
                "annotations": {
                    TOOLING: format!("{TOOL}/v{}", env!("CARGO_PKG_VERSION")),
                    KINDS: contents.kinds.iter().map(written).collect::<Vec<_>>().join(","),
                    NAMESPACES: others.cloned().collect::<Vec<_>>().join(","),
                },
            },
        })
    }

    /// What the cluster has of it; nothing if it is not deployed.
    pub(crate) async fn read(&self, client: &Client) -> Result<Option<Contents>, String> {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &self.namespace);
        let named = || format!("ConfigMap {:?} in namespace {:?}", self.operator, self.namespace);
        let parent = maps.get_opt(&self.operator).await;
        let Some(parent) = parent.map_err(|why| format!("{}: {}", named(), reason(&why)))? else {
            return Ok(None);
        };
        let annotation = |name: &str| parent.annotations().get(name).map(String::as_str).unwrap_or_default();
        let tooling = annotation(TOOLING);
        if parent.labels().get(ID) != Some(&self.id()) {
            return Err(format!("{} is in the way: it is no ApplySet; choose another --namespace", named()));
        }
        if tooling.split('/').next() != Some(TOOL) {
            return Err(format!("{} is an ApplySet of {tooling:?}: that has to manage it", named()));
        }
        let list = |name: &str| -> Vec<String> {
            annotation(name).split(',').filter(|part| !part.is_empty()).map(ToOwned::to_owned).collect()
        };
        let kinds = list(KINDS).iter().map(|kind| read(kind)).collect();
        Ok(Some(Contents { kinds, namespaces: list(NAMESPACES).into_iter().collect() }))
    }

    /// The members that the cluster has.
    pub(crate) async fn members(&self, client: &Client, contents: &Contents) -> Result<Vec<Placed>, String> {
        let selected = ListParams::default().labels(&format!("{PART_OF}={}", self.id()));
        let mut members = Vec::new();
        for (kind, group) in &contents.kinds {
            let failed = |why: &Error| {
                format!("members of kind {}: {}", written(&(kind.clone(), group.clone())), reason(why))
            };
            let found = match discovery::group(client, group).await {
                // A kind that has gone has no objects.
                Err(Error::Discovery(DiscoveryError::MissingApiGroup(_))) => continue,
                found => found.map_err(|why| failed(&why))?,
            };
            let Some((resource, capabilities)) = found.recommended_kind(kind) else { continue };
            let apis: Vec<Api<DynamicObject>> = match capabilities.scope {
                Scope::Cluster => vec![Api::all_with(client.clone(), &resource)],
                Scope::Namespaced => {
                    let namespaces =
                        contents.namespaces.iter().chain([&self.namespace]).collect::<BTreeSet<_>>();
                    let within = |namespace| Api::namespaced_with(client.clone(), namespace, &resource);
                    namespaces.into_iter().map(|namespace| within(namespace)).collect()
                }
            };
            for api in apis {
                let list = api.list(&selected).await.map_err(|why| failed(&why))?;
                members.extend(list.items.into_iter().map(|object| Placed::listed(object, &resource, &api)));
            }
        }
        Ok(members)
    }
}

impl Contents {
    pub(crate) fn of<'a>(members: impl IntoIterator<Item = &'a Placed>) -> Self {
        let mut contents = Self::default();
        for member in members {
            contents.kinds.insert((member.kind().to_owned(), member.group().to_owned()));
            contents.namespaces.extend(member.object.namespace());
        }
        contents
    }

    /// Where members of either are.
    pub(crate) fn and(&self, other: &Self) -> Self {
        Self {
            kinds: self.kinds.union(&other.kinds).cloned().collect(),
            namespaces: self.namespaces.union(&other.namespaces).cloned().collect(),
        }
    }
}

/// `Deployment.apps`, or `ConfigMap`.
fn written((kind, group): &(String, String)) -> String {
    if group.is_empty() { kind.clone() } else { format!("{kind}.{group}") }
}

fn read(text: &str) -> (String, String) {
    let (kind, group) = text.split_once('.').unwrap_or((text, ""));
    (kind.to_owned(), group.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_the_one_that_kubectl_computes() {
        // From `kubectl apply --prune --applyset=configmaps/my-set -n default`.
        let set = ApplySet { operator: "my-set".to_owned(), namespace: "default".to_owned() };
        assert_eq!(set.id(), "applyset-DaObTxGT41gT7jz9wyulA3kuIrhUKfuOcjAfLI6wcmQ-v1");
    }
}
