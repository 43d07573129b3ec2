//! Objects of any kind, brought to a cluster and removed from it.

use std::time::Duration;

use kube::{
    Api, Client, Error, ResourceExt as _,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy},
    core::{ApiResource, GroupVersionKind, TypeMeta},
    discovery::{self, Scope},
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

/// The field manager of what this command applies.
const MANAGER: &str = "kubewright";
/// How often it is looked whether something has come about.
pub(crate) const GLANCE: Duration = Duration::from_millis(200);

/// Applies an object; what others have set of it beyond that stays.
pub(crate) async fn apply(client: &Client, object: &DynamicObject) -> Result<(), String> {
    Placed::of(client, object.clone()).await?.apply().await.map(|_| ())
}

/// Creates an object, unless there is one of that name.
pub(crate) async fn create_if_missing(client: &Client, object: &DynamicObject) -> Result<(), String> {
    let placed = Placed::of(client, object.clone()).await?;
    let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
    match placed.api.create(&parameters, object).await {
        Err(Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
        created => created.map(|_| ()).map_err(|why| refused(object, &why)),
    }
}

/// An object, and where it is or would be.
pub(crate) struct Placed {
    pub(crate) object: DynamicObject,
    resource: ApiResource,
    api: Api<DynamicObject>,
}

impl Placed {
    pub(crate) async fn of(client: &Client, object: DynamicObject) -> Result<Self, String> {
        let TypeMeta { api_version, kind } = object.types.clone().unwrap_or_default();
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let found = discovery::pinned_kind(client, &GroupVersionKind::gvk(group, version, &kind)).await;
        let (resource, capabilities) = found.map_err(|why| refused(&object, &why))?;
        let api = match (capabilities.scope, object.namespace()) {
            (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
            (Scope::Namespaced, Some(namespace)) => {
                Api::namespaced_with(client.clone(), &namespace, &resource)
            }
            (Scope::Namespaced, None) => Api::default_namespaced_with(client.clone(), &resource),
        };
        Ok(Self { object, resource, api })
    }

    /// One that is written down.
    pub(crate) async fn document(client: &Client, document: Value) -> Result<Self, String> {
        let object =
            serde_json::from_value(document).map_err(|why| format!("the manifests can't be used: {why}"))?;
        Self::of(client, object).await
    }

    /// One of those that `api` has listed.
    pub(crate) fn listed(
        mut object: DynamicObject,
        resource: &ApiResource,
        api: &Api<DynamicObject>,
    ) -> Self {
        // Lists say once what all of theirs are.
        object.types =
            Some(TypeMeta { api_version: resource.api_version.clone(), kind: resource.kind.clone() });
        Self { object, resource: resource.clone(), api: api.clone() }
    }

    pub(crate) fn kind(&self) -> &str {
        &self.resource.kind
    }

    pub(crate) fn group(&self) -> &str {
        &self.resource.group
    }

    pub(crate) fn plural(&self) -> &str {
        &self.resource.plural
    }

    /// As kubectl calls it: `deployment.apps/web`.
    pub(crate) fn called(&self) -> String {
        format!("{}/{}", self.qualified(&self.kind().to_lowercase()), self.object.name_any())
    }

    /// As kubectl calls the kind of it: `deployments.apps`.
    pub(crate) fn resource_name(&self) -> String {
        self.qualified(self.plural())
    }

    fn qualified(&self, name: &str) -> String {
        if self.group().is_empty() { name.to_owned() } else { format!("{name}.{}", self.group()) }
    }

    /// Whether both are the same object.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.called() == other.called() && self.object.namespace() == other.object.namespace()
    }

    /// The object as the cluster has it.
    pub(crate) async fn present(&self) -> Result<Option<DynamicObject>, String> {
        self.api.get_opt(&self.object.name_any()).await.map_err(|why| refused(&self.object, &why))
    }

    /// Applies it; what others have set of it beyond that stays.
    pub(crate) async fn apply(&self) -> Result<DynamicObject, String> {
        self.patch(&PatchParams::apply(MANAGER).force()).await.map_err(|why| refused(&self.object, &why))
    }

    /// What an apply would make of it.
    pub(crate) async fn rehearse(&self) -> Result<DynamicObject, Error> {
        self.patch(&PatchParams::apply(MANAGER).force().dry_run()).await
    }

    async fn patch(&self, parameters: &PatchParams) -> Result<DynamicObject, Error> {
        self.api.patch(&self.object.name_any(), parameters, &Patch::Apply(&self.object)).await
    }

    /// Takes a label away.
    pub(crate) async fn unlabel(&self, label: &str) -> Result<(), String> {
        let patch = json!({"metadata": {"labels": {label: null}}});
        let patched =
            self.api.patch(&self.object.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.map(|_| ()).map_err(|why| refused(&self.object, &why))
    }

    /// Deletes the object, and none that has taken its name since; what it owns goes before it. One that is gone is
    /// no error.
    async fn delete(&self, dry_run: bool) -> Result<(), String> {
        let parameters = DeleteParams {
            dry_run,
            propagation_policy: Some(PropagationPolicy::Foreground),
            preconditions: Some(Preconditions { uid: self.object.uid(), resource_version: None }),
            ..DeleteParams::default()
        };
        match self.api.delete(&self.object.name_any(), &parameters).await {
            Err(Error::Api(status)) if status.reason == "NotFound" => Ok(()),
            deleted => deleted.map(|_| ()).map_err(|why| refused(&self.object, &why)),
        }
    }

    /// The object, if it has not gone yet.
    async fn remaining(&self) -> Result<Option<DynamicObject>, String> {
        let present = self.present().await?;
        Ok(present.filter(|present| self.object.uid().is_none() || present.uid() == self.object.uid()))
    }
}

/// What became of an object, or would become of it: the server's own entries are no change.
pub(crate) fn outcome(before: Option<&DynamicObject>, after: &DynamicObject) -> &'static str {
    let content = |object: &DynamicObject| {
        let mut content = json!(object);
        for field in ["managedFields", "resourceVersion", "generation"] {
            content["metadata"].as_object_mut().map(|metadata| metadata.remove(field));
        }
        content.as_object_mut().map(|content| content.remove("status"));
        content
    };
    match before {
        None => "created",
        Some(before) if content(before) == content(after) => "unchanged",
        Some(_) => "configured",
    }
}

/// Fails if one of them may not be deleted; none is.
pub(crate) async fn rehearse_removal(placed: &[Placed]) -> Result<(), String> {
    for one in placed {
        one.delete(true).await?;
    }
    Ok(())
}

/// Deletes all of them, and waits until they have gone.
pub(crate) async fn remove(placed: &[&Placed], timeout: Duration) -> Result<(), String> {
    let started = Instant::now();
    for one in placed {
        one.delete(false).await?;
    }
    for one in placed {
        while let Some(remaining) = one.remaining().await? {
            if started.elapsed() > timeout {
                let finalizers = remaining.finalizers();
                let why = match finalizers {
                    [] => "what is in it takes its time".to_owned(),
                    _ => format!("it waits for {}", finalizers.join(", ")),
                };
                return Err(format!("{} is still there after {timeout:?}: {why}", one.called()));
            }
            sleep(GLANCE).await;
        }
    }
    Ok(())
}

/// What a cluster has said to an object, for people.
pub(crate) fn refused(object: &DynamicObject, why: &Error) -> String {
    let kind = object.types.as_ref().map_or("object", |types| &types.kind);
    format!("{kind} {:?}: {}", object.name_any(), reason(why))
}

/// What a cluster has said.
pub(crate) fn reason(why: &Error) -> String {
    match why {
        Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}
