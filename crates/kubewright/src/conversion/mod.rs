//! Several versions of a kind: each is converted to one of them, the hub, and from it. Conversions are written between
//! Rust types; what a type has no place for is kept in an annotation, so that no round trip loses anything.
//!
//! A client that knows only an old version reads, changes and writes an object, and what only the new version knows is
//! still there. The annotation `kubewright.dev/kept-from-<version>` goes again where the object has that version again.
//! It is a hint, not a truth: one that can't be read, or does not fit, is ignored with a warning in the log. What it
//! brings back has the shape of its type; the server does not validate it again, as it never does after a conversion.

mod convert;
mod kept;
mod partial;
mod review;
#[cfg(test)]
mod tests;

use std::fmt::Display;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::Value;

use self::{convert::written, kept::Kept};
use crate::{
    error::{Error, Result},
    kind::{Kind, KindName},
    operator::Operator,
};

/// Where conversions of all kinds are served.
pub(crate) const CONVERT: &str = "/convert";

/// The conversions of an operator.
#[derive(Clone, Default)]
pub(crate) struct Conversions(Vec<Conversion>);

#[derive(Clone)]
struct Conversion {
    spoke: KindName,
    hub: KindName,
    to_hub: Convert,
    from_hub: Convert,
}

type Convert = fn(&Value) -> Result<Value>;

impl Conversions {
    pub(crate) fn add<Spoke, Hub>(&mut self)
    where
        Spoke: Kind + CustomResourceExt + TryFrom<Hub, Error: Display>,
        Hub: Kind + CustomResourceExt + TryFrom<Spoke, Error: Display>,
    {
        self.0.push(Conversion {
            spoke: KindName::of::<Spoke>(),
            hub: KindName::of::<Hub>(),
            to_hub: convert::convert::<Spoke, Hub>,
            from_hub: convert::convert::<Hub, Spoke>,
        });
    }

    /// The kinds that have several versions, each in the version that is its hub.
    pub(crate) fn hubs(&self) -> Vec<&KindName> {
        let mut hubs: Vec<&KindName> = Vec::new();
        for Conversion { hub, .. } in &self.0 {
            if !hubs.iter().any(|known| is_of(known, &hub.group, &hub.kind)) {
                hubs.push(hub);
            }
        }
        hubs
    }

    pub(crate) fn hub_of(&self, group: &str, kind: &str) -> Option<&KindName> {
        self.hubs().into_iter().find(|hub| is_of(hub, group, kind))
    }

    /// Whether every version that the operator brings along can be brought to every other one.
    pub(crate) fn check(&self, definitions: &[&CustomResourceDefinition]) -> Result<()> {
        let refuse = |why: String| Err(Error::terminal(why));
        let kind = |name: &KindName| KindName { version: String::new(), ..name.clone() };
        for Conversion { spoke, hub, .. } in &self.0 {
            if kind(spoke) != kind(hub) {
                return refuse(format!(
                    "{spoke} can't be converted to {hub}: they are not versions of one kind"
                ));
            }
            if spoke.version == hub.version {
                return refuse(format!("{} of {hub} is converted to itself: name two versions", hub.version));
            }
            let first = self.hub_of(&hub.group, &hub.kind).unwrap_or(hub);
            if first.version != hub.version {
                return refuse(format!(
                    "{hub} are converted to {} and to {}: choose one version as the hub, and convert all others to it",
                    first.version, hub.version
                ));
            }
        }
        for definition in definitions {
            let Some(hub) = self.hub_of(&definition.spec.group, &definition.spec.names.kind) else {
                continue;
            };
            let of_kind = || self.0.iter().filter(|one| one.hub == *hub);
            let is_known = |name: &str| name == hub.version || of_kind().any(|one| one.spoke.version == name);
            if let Some(version) = definition.spec.versions.iter().find(|version| !is_known(&version.name)) {
                return refuse(format!(
                    "{} of {hub} is not converted to {}, as other versions are: add .converts::<..>() for it",
                    version.name, hub.version
                ));
            }
        }
        Ok(())
    }

    /// An object in another version, which may take it through the hub.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value> {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let ((from_group, from), (group, to)) = (split(text("apiVersion")), split(api_version));
        let kind = text("kind");
        let known: Vec<&Conversion> = self.0.iter().filter(|one| is_of(&one.hub, group, kind)).collect();
        let (Some(Conversion { hub, .. }), true) = (known.first(), from_group == group) else {
            return Err(Error::new(format!(
                "nothing is known of {kind} in {} as {api_version}",
                text("apiVersion")
            )));
        };
        let through = |version: &str| {
            known.iter().find(|one| one.spoke.version == version).ok_or_else(|| {
                let versions = known.iter().map(|one| &*one.spoke.version).chain([&*hub.version]);
                let versions = versions.collect::<Vec<_>>().join(", ");
                Error::new(format!("version {version} is unknown; there are {versions}"))
            })
        };
        if from == to {
            return Ok(object.clone());
        }
        if from == hub.version {
            return (through(to)?.from_hub)(object);
        }
        let at_hub = (through(from)?.to_hub)(object)?;
        if to == hub.version { Ok(at_hub) } else { (through(to)?.from_hub)(&at_hub) }
    }
}

fn is_of(name: &KindName, group: &str, kind: &str) -> bool {
    name.group == group && name.kind == kind
}

fn split(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

impl Operator {
    /// Brings two versions of a kind along, of which one is the hub: all versions of the kind are converted to it and from
    /// it, by `From` or `TryFrom` in both directions. Objects are stored as the hub, unless just one version is left with
    /// `storage = true`. What a version has no place for is kept: see [`conversion`](crate::conversion).
    ///
    /// Objects that are stored in an older version are written anew by the leader, if the operator looks after all
    /// namespaces; see [`without_migration`](Self::without_migration).
    ///
    /// ```
    /// use kubewright::prelude::*;
    ///
    /// mod v1 {
    /// #   use kubewright::prelude::*;
    ///     #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
    ///     #[kube(group = "example.com", version = "v1", kind = "Web", namespaced)]
    ///     pub struct WebSpec {
    ///         pub size: i32,
    ///     }
    /// }
    ///
    /// mod v2 {
    /// #   use kubewright::prelude::*;
    ///     #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
    ///     #[kube(group = "example.com", version = "v2", kind = "Web", namespaced)]
    ///     pub struct WebSpec {
    ///         pub replicas: i32,
    ///         pub host: Option<String>,
    ///     }
    /// }
    ///
    /// impl From<v1::Web> for v2::Web {
    ///     fn from(web: v1::Web) -> Self {
    ///         Self { metadata: web.metadata, spec: v2::WebSpec { replicas: web.spec.size, host: None } }
    ///     }
    /// }
    ///
    /// impl From<v2::Web> for v1::Web {
    ///     fn from(web: v2::Web) -> Self {
    ///         Self { metadata: web.metadata, spec: v1::WebSpec { size: web.spec.replicas } }
    ///     }
    /// }
    ///
    /// let operator = Operator::new("web-operator").converts::<v1::Web, v2::Web>();
    ///
    /// let spec = v2::WebSpec { replicas: 3, host: Some("example.com".to_owned()) };
    /// let new = serde_json::to_value(v2::Web::new("shop", spec))?;
    /// let mut old = operator.convert(&new, "example.com/v1")?;
    /// old["spec"]["size"] = 5.into();
    /// let new = operator.convert(&old, "example.com/v2")?;
    /// assert_eq!(new["spec"], serde_json::json!({"replicas": 5, "host": "example.com"}));
    /// # Ok::<_, kubewright::Error>(())
    /// ```
    #[must_use]
    pub fn converts<Spoke, Hub>(mut self) -> Self
    where
        Spoke: Kind + CustomResourceExt + TryFrom<Hub, Error: Display>,
        Hub: Kind + CustomResourceExt + TryFrom<Spoke, Error: Display>,
    {
        self.conversions.add::<Spoke, Hub>();
        self.defines::<Spoke>().defines::<Hub>()
    }

    /// An object in another version, as in `example.com/v1`: just what the API server gets when it asks for it.
    pub fn convert(&self, object: &Value, api_version: &str) -> Result<Value> {
        self.conversions.convert(object, api_version)
    }
}

/// Takes an object to another version, back, and there again, for a test with many objects: fails if it is not always the
/// same. The answer names the fields that `B` has no place for and that only survive in the annotation; if there are some
/// that `B` does have, the conversion is wrong.
///
/// ```
/// # use kubewright::prelude::*;
/// # mod v1 {
/// #   use kubewright::prelude::*;
/// #   #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
/// #   #[kube(group = "example.com", version = "v1", kind = "Web", namespaced)]
/// #   pub struct WebSpec { pub size: i32 }
/// # }
/// # mod v2 {
/// #   use kubewright::prelude::*;
/// #   #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
/// #   #[kube(group = "example.com", version = "v2", kind = "Web", namespaced)]
/// #   pub struct WebSpec { pub replicas: i32, pub host: Option<String> }
/// # }
/// # impl From<v1::Web> for v2::Web {
/// #   fn from(web: v1::Web) -> Self {
/// #       Self { metadata: web.metadata, spec: v2::WebSpec { replicas: web.spec.size, host: None } }
/// #   }
/// # }
/// # impl From<v2::Web> for v1::Web {
/// #   fn from(web: v2::Web) -> Self {
/// #       Self { metadata: web.metadata, spec: v1::WebSpec { size: web.spec.replicas } }
/// #   }
/// # }
/// use kubewright::conversion::round_trip;
///
/// let old = v1::Web::new("shop", v1::WebSpec { size: 3 });
/// assert_eq!(round_trip::<v1::Web, v2::Web>(&old)?, [""; 0]);
/// let new = v2::Web::new("shop", v2::WebSpec { replicas: 3, host: Some("example.com".to_owned()) });
/// assert_eq!(round_trip::<v2::Web, v1::Web>(&new)?, [".spec.host"]);
/// # Ok::<_, kubewright::Error>(())
/// ```
pub fn round_trip<A, B>(object: &A) -> Result<Vec<String>>
where
    A: Kind + CustomResourceExt + TryFrom<B, Error: Display>,
    B: Kind + CustomResourceExt + TryFrom<A, Error: Display>,
{
    let (here, there) = (convert::convert::<B, A>, convert::convert::<A, B>);
    let first = written(object)?;
    let second = there(&first)?;
    let third = here(&second)?;
    let fourth = there(&third)?;
    for (before, after) in [(&first, &third), (&second, &fourth)] {
        let differences = Kept::of(before, after);
        if !differences.is_empty() || before["metadata"] != after["metadata"] {
            let places = differences.places().join(", ");
            return Err(Error::new(format!("{before} came back as {after}, which differs at {places}")));
        }
    }
    Ok(convert::lost::<A, B>(object)?.places())
}
