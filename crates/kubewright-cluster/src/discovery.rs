//! Which resources the server has at the moment, definitions included.

use std::{collections::BTreeMap, sync::Arc};

use http::{Request, header::ACCEPT};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
    core::discovery::v2::ACCEPT_AGGREGATED_DISCOVERY_V2,
};
use kubewright::KindName;
use serde::Deserialize;

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

/// What is read of the answer, which has much more.
#[derive(Deserialize)]
struct Groups {
    items: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    metadata: GroupName,
    /// The preferred one first.
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct GroupName {
    /// The core group has none.
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct Version {
    version: String,
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    resource: String,
    response_kind: ResponseKind,
    scope: String,
    verbs: Vec<String>,
}

#[derive(Deserialize)]
struct ResponseKind {
    kind: String,
}

impl Catalogue {
    /// Asks the server.
    pub(crate) async fn read(client: &Client) -> kube::Result<Self> {
        let mut catalogue = Self::default();
        for path in ["/api", "/apis"] {
            let request = Request::get(path).header(ACCEPT, ACCEPT_AGGREGATED_DISCOVERY_V2).body(Vec::new());
            let groups: Groups = client.request(request.map_err(kube::Error::HttpError)?).await?;
            for Group { metadata, versions } in groups.items {
                for Version { version, resources } in versions {
                    resources.into_iter().for_each(|one| catalogue.add(&metadata.name, &version, one));
                }
            }
        }
        Ok(catalogue)
    }

    /// The version that comes first is the one to use.
    fn add(&mut self, group: &str, version: &str, resource: Resource) {
        let kind = KindName {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: resource.response_kind.kind,
            plural: resource.resource,
            is_namespaced: resource.scope == "Namespaced",
        };
        let name = (kind.group.clone(), kind.plural.clone());
        let carried = (kind.api_version(), kind.kind.clone());
        let served = Arc::new(Served { kind, verbs: resource.verbs });
        let served = self.resources.entry(name).or_insert(served);
        self.kinds.entry(carried).or_insert_with(|| served.clone());
    }

    /// The resource of objects that carry this version and this kind.
    pub(crate) fn find(&self, api_version: &str, kind: &str) -> Option<&Arc<Served>> {
        self.kinds.get(&(api_version.to_owned(), kind.to_owned()))
    }
}
