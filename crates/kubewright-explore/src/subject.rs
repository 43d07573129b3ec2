//! What is explored: an operator, a resource for it, and what must hold.

use std::{
    collections::BTreeSet,
    fmt,
    future::{Future, ready},
    pin::Pin,
    sync::Arc,
};

use kube::{
    ResourceExt as _,
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
};
use kubewright::{
    Operator,
    external::{Passage, Rehearsal, Unreachable},
};
use serde_json::Value;

use crate::{Error, oracle::Oracle, world::World};

/// Makes the operator anew for every start: what it has in memory is gone with a crash.
pub(crate) type Make = Arc<dyn Fn() -> Operator + Send + Sync>;

/// Something that the author of an operator demands.
#[derive(Clone)]
pub(crate) struct Demand {
    pub(crate) name: String,
    pub(crate) holds: Arc<dyn Fn(&World) -> bool + Send + Sync>,
}

impl Demand {
    pub(crate) fn new(
        name: impl Into<String>,
        holds: impl Fn(&World) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), holds: Arc::new(holds) }
    }
}

/// All that the author of an operator demands.
#[derive(Debug, Clone, Default)]
pub(crate) struct Demands {
    /// Where the resource is.
    pub(crate) namespace: String,
    pub(crate) always: Vec<Demand>,
    pub(crate) eventually: Vec<Demand>,
    pub(crate) sometimes: Vec<Demand>,
}

impl fmt::Debug for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[derive(Clone)]
pub(crate) struct Subject {
    pub(crate) operator: Make,
    pub(crate) sample: DynamicObject,
    pub(crate) resource: ApiResource,
    pub(crate) namespace: Option<String>,
    /// The schema of the spec.
    pub(crate) schema: Value,
    pub(crate) oracles: BTreeSet<Oracle>,
    pub(crate) demands: Demands,
}

impl Subject {
    /// An operator with a sample of one of its kinds.
    pub(crate) fn new(operator: Make, sample: &str) -> Result<Self, Error> {
        let unreadable = |why: &dyn fmt::Display| Error::new(format!("the sample can't be read: {why}"));
        let mut sample: DynamicObject = serde_saphyr::from_str(sample).map_err(|why| unreadable(&why))?;
        let types = sample.types.clone().ok_or_else(|| unreadable(&"it has no apiVersion and kind"))?;
        let (group, version) = types.api_version.split_once('/').unwrap_or(("", &types.api_version));
        let described = operator();
        described.rehearse(&Rehearsal::new(Open)).map_err(|why| Error::new(why.to_string()))?;
        let definition = described
            .definitions()
            .into_iter()
            .find(|one| {
                let of_version = one.spec.versions.iter().any(|one| one.name == version);
                one.spec.group == group && one.spec.names.kind == types.kind && of_version
            })
            .ok_or_else(|| {
                let known: Vec<String> =
                    described.definitions().iter().map(|one| one.spec.names.kind.clone()).collect();
                Error::new(format!(
                    "{} brings no {} {} along, only: {}",
                    described.name(),
                    types.api_version,
                    types.kind,
                    known.join(", ")
                ))
            })?;
        let gvk = GroupVersionKind::gvk(group, version, &types.kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, &definition.spec.names.plural);
        let is_namespaced = definition.spec.scope == "Namespaced";
        let schema = definition.spec.versions.iter().find(|one| one.name == version);
        let schema = schema.and_then(|one| one.schema.as_ref()?.open_api_v3_schema.as_ref());
        let schema = serde_json::to_value(schema).unwrap_or_default();
        let schema = schema.pointer("/properties/spec").cloned().unwrap_or_default();
        let namespace = is_namespaced.then(|| sample.namespace().unwrap_or_else(|| "default".to_owned()));
        sample.metadata.namespace.clone_from(&namespace);
        Ok(Self {
            operator,
            sample,
            resource,
            namespace,
            schema,
            oracles: Oracle::ALL.into(),
            demands: Demands::default(),
        })
    }

    /// The spec of the sample.
    pub(crate) fn spec(&self) -> Value {
        self.sample.data.get("spec").cloned().unwrap_or_default()
    }

    pub(crate) fn name(&self) -> &str {
        self.sample.metadata.name.as_deref().unwrap_or_default()
    }

    /// The key of the resource: its namespace and name, or only its name.
    pub(crate) fn key(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name()),
            None => self.name().to_owned(),
        }
    }

    /// Plural and group of the resource.
    pub(crate) fn resource_name(&self) -> String {
        match &*self.resource.group {
            "" => self.resource.plural.clone(),
            group => format!("{}.{group}", self.resource.plural),
        }
    }

    /// The resource, as states name it.
    pub(crate) fn object_name(&self) -> String {
        format!("{} {}", self.resource_name(), self.key())
    }
}

/// Lets every call pass.
struct Open;

impl Passage for Open {
    fn before<'a>(
        &'a self,
        _: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<(), Unreachable>> + Send + 'a>> {
        Box::pin(ready(Ok(())))
    }

    fn after<'a>(
        &'a self,
        _: &'a str,
        _: bool,
    ) -> Pin<Box<dyn Future<Output = Result<(), Unreachable>> + Send + 'a>> {
        Box::pin(ready(Ok(())))
    }
}
