//! A request as admission sees it: what is to happen to which object of which resource, and who asks.

use std::{
    slice,
    sync::{Arc, OnceLock},
};

use serde_json::{Map, Value, json};

use super::Operation;
use crate::{
    error::{ApiError, Subject},
    kinds::access,
    registry::{Origin, Resource},
    rest::{
        Scope,
        options::{DeleteOptions, Propagation},
    },
};

/// One request on its way through admission.
pub(super) struct Attributes<'a> {
    pub(super) scope: &'a Scope,
    pub(super) operation: Operation,
    /// Empty where the name is still to be generated, and for collections.
    pub(super) name: String,
    /// For a Namespace its own name.
    pub(super) namespace: String,
    pub(super) options: Value,
    pub(super) dry_run: bool,
    equivalents: OnceLock<Vec<Arc<Resource>>>,
}

/// Group, version and kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind<'a> {
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    pub(super) kind: &'a str,
}

impl<'a> Attributes<'a> {
    pub(super) fn new(
        scope: &'a Scope,
        operation: Operation,
        name: &str,
        options: Value,
        dry_run: bool,
    ) -> Self {
        let is_namespace = scope.resource.group.is_empty() && &*scope.resource.plural == "namespaces";
        let namespace = if is_namespace { name } else { scope.namespace.as_str() };
        Self {
            scope,
            operation,
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            options,
            dry_run,
            equivalents: OnceLock::new(),
        }
    }

    pub(super) fn resource(&self) -> &'a Arc<Resource> {
        &self.scope.resource
    }

    pub(super) fn subresource(&self) -> &'a str {
        &self.scope.subresource
    }

    /// The kind of the request's object in terms of `resource`, which is the request's or equivalent to it.
    pub(super) fn kind_in<'r>(&self, resource: &'r Resource) -> Kind<'r> {
        let own = Kind { group: &resource.group, version: &resource.version, kind: &resource.kind };
        match resource.subresource(self.subresource()) {
            Some(subresource) => match &subresource.group_version {
                Some((group, version)) => Kind { group, version, kind: &subresource.kind },
                None => Kind { kind: &subresource.kind, ..own },
            },
            None => own,
        }
    }

    /// Whether the request's object is of the resource's own kind, not of a subresource's.
    fn is_whole(&self) -> bool {
        let kind = self.kind_in(self.resource());
        kind.kind == &*self.resource().kind && kind.group == &*self.resource().group
    }

    /// Other resources through which the same objects are served.
    pub(super) fn equivalents(&self) -> &[Arc<Resource>] {
        self.equivalents.get_or_init(|| {
            let own = self.resource();
            let subresource = self.subresource();
            let groups = self.scope.registry.groups().iter();
            groups
                .flat_map(|group| &group.versions)
                .flat_map(|version| &version.resources)
                .filter(|other| other.storage.id == own.storage.id && !Arc::ptr_eq(other, own))
                .filter(|other| subresource.is_empty() || other.subresource(subresource).is_some())
                .cloned()
                .collect()
        })
    }

    /// Turns an object of one of the equivalent resources into one of another.
    pub(super) async fn convert(
        &self,
        object: &mut Value,
        from: &Resource,
        to: &Resource,
    ) -> Result<(), ApiError> {
        if from.group == to.group && from.version == to.version || !self.is_whole() {
            return Ok(());
        }
        if let Origin::Custom(custom) = &to.origin {
            let converted = self.scope.to_version(custom, slice::from_mut(object), &to.version).await;
            converted.map_err(|error| ApiError::internal(error.message))?;
            custom.default(&to.version, object);
            return Ok(());
        }
        if let Some(convert) = &from.storage.convert {
            (convert.to_storage)(object);
        }
        if let Some(convert) = &to.storage.convert {
            (convert.from_storage)(object);
        }
        object["apiVersion"] = to.api_version().into();
        Ok(())
    }

    /// A copy of an object as one of another resource.
    pub(super) async fn converted(
        &self,
        object: Option<&Value>,
        from: &Resource,
        to: &Resource,
    ) -> Result<Option<Value>, ApiError> {
        let mut object = object.cloned();
        if let Some(object) = &mut object {
            self.convert(object, from, to).await?;
        }
        Ok(object)
    }

    /// The 403 of a refusal; its name is the one of the object where the request has none.
    pub(super) fn forbidden(&self, object: Option<&Value>, why: impl std::fmt::Display) -> ApiError {
        let of_object = |field: &str| object.map(|object| access::get_str(object, &["metadata", field]));
        let name = [Some(self.name.as_str()), of_object("name"), of_object("generateName")]
            .into_iter()
            .flatten()
            .find(|name| !name.is_empty())
            .unwrap_or("Unknown");
        ApiError::forbidden(&self.subject(), name, why)
    }

    pub(super) fn subject(&self) -> Subject<'a> {
        self.resource().subject()
    }

    /// The request as webhooks and expressions see it, without its objects.
    ///
    /// `matched` is the resource in whose terms a rule has matched.
    pub(super) fn request(&self, matched: &Resource) -> Map<String, Value> {
        let kind = |resource: &Resource| {
            let Kind { group, version, kind } = self.kind_in(resource);
            json!({"group": group, "version": version, "kind": kind})
        };
        let named = |resource: &Resource| json!({"group": &*resource.group, "version": &*resource.version, "resource": &*resource.plural});
        let mut request = Map::new();
        let mut put = |name: &str, value: Value| request.insert(name.to_owned(), value);
        put("kind", kind(matched));
        put("resource", named(matched));
        put("requestKind", kind(self.resource()));
        put("requestResource", named(self.resource()));
        for (name, text) in [
            ("subResource", self.subresource()),
            ("requestSubResource", self.subresource()),
            ("name", &self.name),
            ("namespace", &self.namespace),
        ] {
            if !text.is_empty() {
                put(name, text.into());
            }
        }
        put("operation", self.operation.as_str().into());
        put("userInfo", serde_json::to_value(&*self.scope.user).unwrap_or_default());
        put("dryRun", self.dry_run.into());
        put("options", self.options.clone());
        request
    }
}

/// The options of a create, update or connect, as the request gives them.
pub(super) fn write_options(scope: &Scope, kind: &str, dry_run: bool) -> Value {
    let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
    if dry_run {
        options["dryRun"] = json!(["All"]);
    }
    for name in ["fieldManager", "fieldValidation"] {
        if let Some(value) = scope.query.get(name).filter(|value| !value.is_empty()) {
            options[name] = value.into();
        }
    }
    options
}

/// The options of a delete.
pub(super) fn delete_options(given: &DeleteOptions) -> Value {
    let mut options = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
    if given.dry_run {
        options["dryRun"] = json!(["All"]);
    }
    if let Some(seconds) = given.grace_period_seconds {
        options["gracePeriodSeconds"] = seconds.into();
    }
    if let Some(propagation) = given.propagation {
        options["propagationPolicy"] = match propagation {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        }
        .into();
    }
    for (name, value) in [("uid", &given.uid), ("resourceVersion", &given.resource_version)] {
        if let Some(value) = value {
            access::set(&mut options, &["preconditions", name], value.as_str());
        }
    }
    options
}
