//! The variables that expressions have in admission: policies and match conditions of webhooks.
//!
//! Types are declared for the checker only. Values are given with [`Val::from_dyn_json`], as kube-apiserver
//! gives them: what is declared as a timestamp is a string when it is read.
//!
//! [`Val::from_dyn_json`]: crate::Val::from_dyn_json

use std::sync::Arc;

use crate::{
    env::Env,
    library::authorizer::{AUTHORIZER, RESOURCE_CHECK},
    schema::{DeclType, ListIdentity, Property},
    types::Type,
};

impl Env {
    /// An environment with `object`, `oldObject`, `request` and `namespaceObject`.
    pub fn for_admission() -> Self {
        let mut env = Self::new();
        let request = env.declare("request", Arc::new(request()));
        let namespace = env.declare("namespaceObject", Arc::new(namespace()));
        env.variable("object", Type::Dyn)
            .variable("oldObject", Type::Dyn)
            .variable("request", request)
            .variable("namespaceObject", namespace);
        env
    }

    /// Adds `params`, the parameters of a policy.
    pub fn with_params(mut self) -> Self {
        self.variable("params", Type::Dyn);
        self
    }

    /// Adds `authorizer` and `authorizer.requestResource`, whose values come from [`Val::authorizer`] and
    /// [`Val::resource_check`].
    ///
    /// [`Val::authorizer`]: crate::Val::authorizer
    /// [`Val::resource_check`]: crate::Val::resource_check
    pub fn with_authorizer(mut self) -> Self {
        self.variable("authorizer", Type::object(AUTHORIZER))
            .variable("authorizer.requestResource", Type::object(RESOURCE_CHECK));
        self
    }

    /// Adds `variables`, whose fields are the variables a policy composes. The value is a
    /// [`Val::Lazy`](crate::Val::Lazy).
    pub fn with_variables(mut self, fields: impl IntoIterator<Item = (String, Type)>) -> Self {
        let ty = self.object_type("kubernetes.variables", fields);
        self.variable("variables", ty);
        self
    }
}

fn text() -> DeclType {
    DeclType::string(None, None)
}

fn texts() -> DeclType {
    DeclType::list(text(), None, ListIdentity::Atomic)
}

fn object<const N: usize>(name: &str, fields: [(&str, DeclType); N]) -> DeclType {
    DeclType::named_object(name, fields.map(|(name, ty)| Property::new(name, ty)))
}

fn request() -> DeclType {
    let kind =
        || object("kubernetes.GroupVersionKind", [("group", text()), ("version", text()), ("kind", text())]);
    let resource = || {
        object(
            "kubernetes.GroupVersionResource",
            [("group", text()), ("version", text()), ("resource", text())],
        )
    };
    let user = object(
        "kubernetes.UserInfo",
        [("username", text()), ("uid", text()), ("groups", texts()), ("extra", DeclType::map(texts(), None))],
    );
    object(
        "kubernetes.AdmissionRequest",
        [
            ("kind", kind()),
            ("resource", resource()),
            ("subResource", text()),
            ("requestKind", kind()),
            ("requestResource", resource()),
            ("requestSubResource", text()),
            ("name", text()),
            ("namespace", text()),
            ("operation", text()),
            ("userInfo", user),
            ("dryRun", DeclType::bool()),
            ("options", DeclType::DYN),
        ],
    )
}

fn namespace() -> DeclType {
    let labels = || DeclType::map(text(), None);
    let spec = object("kubernetes.NamespaceSpec", [("finalizers", texts())]);
    let condition = object(
        "kubernetes.NamespaceCondition",
        [
            ("status", text()),
            ("type", text()),
            ("lastTransitionTime", DeclType::date_time()),
            ("message", text()),
            ("reason", text()),
        ],
    );
    let status = object(
        "kubernetes.NamespaceStatus",
        [("conditions", DeclType::list(condition, None, ListIdentity::Atomic)), ("phase", text())],
    );
    let metadata = object(
        "kubernetes.NamespaceMetadata",
        [
            ("name", text()),
            ("generateName", text()),
            ("namespace", text()),
            ("labels", labels()),
            ("annotations", labels()),
            ("UID", text()),
            ("creationTimestamp", DeclType::date_time()),
            ("deletionGracePeriodSeconds", DeclType::int()),
            ("deletionTimestamp", DeclType::date_time()),
            ("generation", DeclType::int()),
            ("resourceVersion", text()),
            ("finalizers", texts()),
        ],
    );
    object("kubernetes.Namespace", [("metadata", metadata), ("spec", spec), ("status", status)])
}
