//! Which resources the server has at the moment, definitions included.

use std::{collections::BTreeMap, sync::Arc};

use kube::{
    Api, Client, Discovery,
    api::{ApiResource, DynamicObject},
    discovery::{ApiCapabilities, Scope},
};
use kubewright::KindName;

/// A resource that the server has, at the version it prefers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) kind: KindName,
    verbs: Vec<String>,
}

impl Served {
    /// Whether all of these verbs are supported.
    pub(crate) fn supports(&self, verbs: &[&str]) -> bool {
        verbs.iter().all(|verb| self.verbs.iter().any(|own| own == verb))
    }

    /// Its objects in a namespace, or all of them.
    pub(crate) fn api(&self, client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
        let KindName { group, version, kind, plural, is_namespaced } = self.kind.clone();
        let api_version = self.kind.api_version();
        let resource = ApiResource { group, version, api_version, kind, plural };
        match namespace.filter(|_| is_namespaced) {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        }
    }
}

/// All resources of a server.
#[derive(Default)]
pub(crate) struct Catalogue {
    /// By group and plural, each once.
    pub(crate) resources: BTreeMap<(String, String), Arc<Served>>,
    /// By the version and the kind that objects carry, for every version that is served.
    kinds: BTreeMap<(String, String), Arc<Served>>,
}

impl Catalogue {
    /// Asks the server.
    pub(crate) async fn read(client: &Client) -> kube::Result<Self> {
        let discovery = Discovery::new(client.clone()).run_aggregated().await?;
        let mut catalogue = Self::default();
        for group in discovery.groups() {
            let preferred = group.preferred_version_or_latest();
            let others = group.versions().filter(|version| *version != preferred);
            for version in std::iter::once(preferred).chain(others) {
                for (resource, capabilities) in group.versioned_resources(version) {
                    catalogue.add(resource, capabilities);
                }
            }
        }
        Ok(catalogue)
    }

    /// The version that comes first is the one to use.
    fn add(&mut self, resource: ApiResource, capabilities: ApiCapabilities) {
        let name = (resource.group.clone(), resource.plural.clone());
        let carried = (resource.api_version, resource.kind.clone());
        let served = self.resources.entry(name).or_insert_with(|| {
            let kind = KindName {
                group: resource.group,
                version: resource.version,
                kind: resource.kind,
                plural: resource.plural,
                is_namespaced: capabilities.scope == Scope::Namespaced,
            };
            Arc::new(Served { kind, verbs: capabilities.operations })
        });
        self.kinds.entry(carried).or_insert_with(|| served.clone());
    }

    /// The resource of objects that carry this version and this kind.
    pub(crate) fn find(&self, api_version: &str, kind: &str) -> Option<&Arc<Served>> {
        self.kinds.get(&(api_version.to_owned(), kind.to_owned()))
    }
}
