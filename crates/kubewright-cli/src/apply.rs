//! Objects of any kind, brought to a cluster.

use kube::{
    Api, Client, Error, ResourceExt as _,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    core::{GroupVersionKind, TypeMeta},
    discovery::{self, Scope},
};

/// The field manager of what this command applies.
const MANAGER: &str = "kubewright";

/// Applies an object; what others have set of it beyond that stays.
pub(crate) async fn apply(client: &Client, object: &DynamicObject) -> Result<(), String> {
    let api = api_of(client, object).await?;
    let parameters = PatchParams::apply(MANAGER).force();
    let applied = api.patch(&object.name_any(), &parameters, &Patch::Apply(object)).await;
    applied.map(|_| ()).map_err(|why| refused(object, &why))
}

/// Creates an object, unless there is one of that name.
pub(crate) async fn create_if_missing(client: &Client, object: &DynamicObject) -> Result<(), String> {
    let api = api_of(client, object).await?;
    let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
    match api.create(&parameters, object).await {
        Err(Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
        created => created.map(|_| ()).map_err(|why| refused(object, &why)),
    }
}

/// The objects of the kind of `object`, where it is or would be.
async fn api_of(client: &Client, object: &DynamicObject) -> Result<Api<DynamicObject>, String> {
    let TypeMeta { api_version, kind } = object.types.clone().unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let kind = GroupVersionKind::gvk(group, version, &kind);
    let found = discovery::pinned_kind(client, &kind).await;
    let (resource, capabilities) = found.map_err(|why| refused(object, &why))?;
    Ok(match (capabilities.scope, object.namespace()) {
        (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
        (Scope::Namespaced, Some(namespace)) => Api::namespaced_with(client.clone(), &namespace, &resource),
        (Scope::Namespaced, None) => Api::default_namespaced_with(client.clone(), &resource),
    })
}

fn refused(object: &DynamicObject, why: &Error) -> String {
    let kind = object.types.as_ref().map_or("object", |types| &types.kind);
    let why = match why {
        Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    };
    format!("{kind} {:?}: {why}", object.name_any())
}
