//! Kinds of others: the built-in ones, which k8s-openapi has types for, and those with types of the project.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
    discovery::{self, Scope, verbs},
};
use kubewright_apiserver::ApiServer;
use serde_json::{Value, json};

use super::sample;
use crate::{
    project::{Resource, Webhooks},
    scaffold::Change,
};

/// The name of every sample of somebody else's kind.
pub(super) const SAMPLE: &str = "sample";

/// The least that a server takes of the built-in kinds that need more than a name.
const BUILT_IN: &str = include_str!("built_in.yaml");

/// A kind that is not of the project.
pub(super) struct Found {
    pub(super) resource: Resource,
    /// The path of its type; nothing if it is the project's.
    pub(super) import: Option<String>,
    /// Where tests find its definition; nothing if it is built in.
    pub(super) definition_path: Option<String>,
    definition: Option<CustomResourceDefinition>,
}

pub(super) struct Sample {
    pub(super) text: String,
    /// Whether it is complete, or only a beginning.
    pub(super) is_accepted: bool,
}

/// The file of a definition, as seen from the tests that need it.
pub(super) fn definition_path(resource: &Resource) -> String {
    format!("definitions/{}.{}.yaml", resource.plural, resource.group)
}

impl Found {
    /// A kind whose types are in the project.
    pub(super) fn with_types(resource: Resource, change: &Change) -> Result<Self, String> {
        let path = definition_path(&resource);
        let text = change.read(&format!("tests/operator/{path}"))?;
        let definition = serde_saphyr::from_str(&text)
            .map_err(|why| format!("tests/operator/{path} is no definition: {why}"))?;
        Ok(Self { resource, import: None, definition_path: Some(path), definition: Some(definition) })
    }

    /// A kind that every cluster has.
    pub(super) async fn built_in(group: &str, version: &str, kind: &str) -> Result<Self, String> {
        let client = client().await?;
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let Ok((resource, capabilities)) = discovery::pinned_kind(&client, &gvk).await else {
            let api_version = gvk.api_version();
            return Err(format!(
                "{kind} of {api_version} is not built into Kubernetes: make its types with `kubewright create types \
                 --from FILE {kind}` first"
            ));
        };
        if !capabilities.supports_operation(verbs::WATCH) {
            return Err(format!(
                "{kind} of {} can't be watched, so no controller can look after it",
                gvk.api_version()
            ));
        }
        let resource = Resource {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural: resource.plural,
            namespaced: capabilities.scope == Scope::Namespaced,
            resource: false,
            controller: false,
            external: true,
            short_names: Vec::new(),
            webhooks: Webhooks::default(),
        };
        let import = Some(path_of(&resource));
        Ok(Self { resource, import, definition_path: None, definition: None })
    }

    /// An object of the kind to test with.
    pub(super) async fn sample(&self) -> Result<Sample, String> {
        let Resource { group, version, kind, plural, .. } = &self.resource;
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let mut object = json!({"apiVersion": gvk.api_version(), "kind": kind, "metadata": {"name": SAMPLE}});
        let known = known_sample(&object)?;
        let least = match (&self.definition, &known) {
            (Some(definition), _) => sample::least(definition, version),
            (None, Some(known)) => known.clone(),
            (None, None) => json!({}),
        };
        merge(&mut object, least);
        let text = serde_saphyr::to_string(&object).map_err(|why| why.to_string())?;
        if known.is_some() {
            return Ok(Sample { text, is_accepted: true });
        }
        let client = client().await?;
        if let Some(definition) = &self.definition {
            install(&client, definition).await?;
        }
        let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
        let api: Api<DynamicObject> = match self.resource.namespaced {
            true => Api::default_namespaced_with(client, &resource),
            false => Api::all_with(client, &resource),
        };
        let object = serde_json::from_value(object).map_err(|why| why.to_string())?;
        let is_accepted = api.create(&PostParams::default(), &object).await.is_ok();
        Ok(Sample { text, is_accepted })
    }
}

/// A server that knows what every server knows.
async fn client() -> Result<Client, String> {
    Ok(ApiServer::start().await.map_err(|why| why.to_string())?.client())
}

/// Whether a server takes a definition.
pub(super) async fn check(definition: &CustomResourceDefinition) -> Result<(), String> {
    install(&client().await?, definition).await
}

async fn install(client: &Client, definition: &CustomResourceDefinition) -> Result<(), String> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = definition.metadata.name.clone().unwrap_or_default();
    let installed = api.patch(&name, &PatchParams::apply("kubewright"), &Patch::Apply(definition)).await;
    installed.map(|_| ()).map_err(|why| match why {
        kube::Error::Api(status) => format!("no server takes the definition {name}: {}", status.message),
        other => format!("no server takes the definition {name}: {other}"),
    })
}

fn known_sample(of: &Value) -> Result<Option<Value>, String> {
    let known: Vec<Value> = serde_saphyr::from_multiple(BUILT_IN).map_err(|why| why.to_string())?;
    let is_of_it = |one: &Value| one["apiVersion"] == of["apiVersion"] && one["kind"] == of["kind"];
    Ok(known.into_iter().find(is_of_it))
}

fn merge(object: &mut Value, more: Value) {
    if let (Value::Object(object), Value::Object(more)) = (object, more) {
        object.extend(more);
    }
}

/// The path of a built-in kind's type.
fn path_of(resource: &Resource) -> String {
    let Resource { group, version, kind, .. } = resource;
    let package = match group.as_str() {
        "" => "api::core".to_owned(),
        "apiextensions.k8s.io" => "apiextensions_apiserver::pkg::apis::apiextensions".to_owned(),
        "apiregistration.k8s.io" => "kube_aggregator::pkg::apis::apiregistration".to_owned(),
        "internal.apiserver.k8s.io" => "api::apiserverinternal".to_owned(),
        group => format!("api::{}", group.split('.').next().unwrap_or_default()),
    };
    format!("k8s_openapi::{package}::{version}::{kind}")
}
