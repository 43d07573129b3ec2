//! The built-in resources, read from the table `data/resources.txt`, joined with their types and behaviour.

use std::sync::{Arc, LazyLock, OnceLock};

use super::{Convert, Origin, Resource, Storage, Subresource, group_version, types::Types};
use crate::{
    kinds::{self, Strategy},
    rest::codec,
    store::ResourceId,
};

/// Every built-in resource, in the order of discovery.
pub(super) fn built_in() -> &'static [Arc<Resource>] {
    static CATALOGUE: LazyLock<Vec<Arc<Resource>>> =
        LazyLock::new(|| parse(include_str!("../../data/resources.txt")));
    &CATALOGUE
}

fn parse(table: &str) -> Vec<Arc<Resource>> {
    let mut resources: Vec<Resource> = Vec::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split(' ').collect();
        let [api_version, name, singular, kind, scope, verbs, short, categories, foreign, hash] = columns[..]
        else {
            continue;
        };
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        if let Some((parent, subresource)) = name.split_once('/') {
            let parent = resources
                .iter_mut()
                .rfind(|one| &*one.plural == parent && &*one.group == group && &*one.version == version);
            if let Some(parent) = parent {
                parent.subresources.push(Subresource {
                    name: subresource.into(),
                    group_version: foreign.split_once('/').map(|(g, v)| (g.into(), v.into())),
                    kind: kind.into(),
                    verbs: words(verbs),
                });
            }
            continue;
        }
        resources.push(Resource {
            group: group.into(),
            version: version.into(),
            plural: name.into(),
            singular: singular.into(),
            kind: kind.into(),
            list_kind: format!("{kind}List").into(),
            namespaced: scope == "namespaced",
            verbs: words(verbs),
            short_names: words(short),
            categories: words(categories),
            storage_hash: (hash != "-").then(|| hash.into()),
            subresources: Vec::new(),
            schema: Types::get().kind(group, version, kind).unwrap_or_default(),
            origin: Origin::BuiltIn(kinds::strategy(group, version, kind).unwrap_or(&Strategy::PLAIN)),
            storage: storage(group, version, name),
            head: codec::head(kind, &group_version(group, version)),
            empty: OnceLock::new(),
        });
    }
    resources.into_iter().map(Arc::new).collect()
}

/// Events are kept in their core form and autoscalers in version 2, whatever they are written as.
fn storage(group: &str, version: &str, plural: &str) -> Storage {
    let (kept_in, convert) = match (group, version, plural) {
        ("events.k8s.io", _, "events") => {
            ("", Some(Convert { to_storage: kinds::events::to_core, from_storage: kinds::events::from_core }))
        }
        ("autoscaling", "v1", "horizontalpodautoscalers") => (
            group,
            Some(Convert {
                to_storage: kinds::autoscaling::v1_to_v2,
                from_storage: kinds::autoscaling::v2_to_v1,
            }),
        ),
        _ => (group, None),
    };
    Storage { id: ResourceId::new(kept_in, plural), convert }
}

fn words(list: &str) -> Vec<Arc<str>> {
    if list == "-" { Vec::new() } else { list.split(',').map(Arc::from).collect() }
}
