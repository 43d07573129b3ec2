//! The manifests that install an operator, from the same value that runs: definitions of its kinds, the least
//! rights it can work with, and its Deployment. The same operator gives the same documents, in the same order.

mod definitions;
mod files;
mod narrowing;
mod rbac;
mod webhooks;
mod workload;

use std::collections::BTreeSet;

use serde_json::{Value, json};

pub use self::definitions::{install_crds, install_crds_at, lost_by};
use crate::{
    error::{Error, Result},
    operator::Operator,
    reach::Reach,
};

/// Which part of the manifests a document belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Part {
    /// The definitions of the operator's kinds.
    Crds,
    /// The namespace it lives in.
    Namespace,
    /// Its service account, its roles, and roles for the people who use its kinds.
    Rbac,
    /// The Deployment that runs it.
    Deployment,
    /// The Service and the NetworkPolicy by which its metrics are read.
    Metrics,
    /// The Service and the NetworkPolicy by which the API server reaches its webhooks, and their configurations.
    Webhooks,
}

/// How an operator is installed.
#[derive(Debug, Clone, Default)]
pub struct ManifestOptions {
    /// The namespace the operator lives in: by default its name and `-system`.
    pub namespace: Option<String>,
    /// The image that has it: by default its name, tagged with its version.
    pub image: Option<String>,
    /// The namespaces it watches; none means all. With some, its rights end there, too.
    pub namespaces: Vec<String>,
    /// Metrics over TLS, for those who are bound to the role `<operator>-metrics-reader`; otherwise for all who can
    /// reach them.
    pub secure_metrics: bool,
    /// Where the API server finds the webhooks, as in `https://127.0.0.1:9443`: for an operator that runs outside of the
    /// cluster. Without it, at a Service.
    pub webhook_url: Option<String>,
    /// Only these parts; none means all.
    pub only: BTreeSet<Part>,
}

impl ManifestOptions {
    /// The way to the webhooks.
    fn reach(&self, names: &Names<'_>) -> Reach {
        match &self.webhook_url {
            Some(url) => Reach::Url(url.clone()),
            None => Reach::service_of(names.operator, &names.namespace),
        }
    }
}

/// What all documents of one installation have in common.
struct Names<'a> {
    operator: &'a str,
    namespace: String,
}

impl Names<'_> {
    /// Labels that only this operator's pods carry.
    fn selector(&self) -> Value {
        json!({"app.kubernetes.io/name": self.operator, "app.kubernetes.io/component": "operator"})
    }

    fn labels(&self) -> Value {
        json!({"app.kubernetes.io/name": self.operator, "app.kubernetes.io/managed-by": "kubewright"})
    }

    /// The metadata of an object outside of namespaces.
    fn cluster(&self, name: impl Into<String>) -> Value {
        json!({"name": name.into(), "labels": self.labels()})
    }

    /// The metadata of an object in the operator's own namespace.
    fn own(&self, name: impl Into<String>) -> Value {
        self.within(&self.namespace, name)
    }

    fn within(&self, namespace: &str, name: impl Into<String>) -> Value {
        json!({"name": name.into(), "namespace": namespace, "labels": self.labels()})
    }
}

/// The namespace of an operator that nobody says otherwise of.
fn default_namespace(operator: &Operator) -> String {
    format!("{}-system", operator.name())
}

impl Operator {
    /// The manifests that install it, in the order in which they can be applied.
    ///
    /// ```
    /// # use kubewright::{ManifestOptions, Operator};
    /// let operator = Operator::new("example-operator");
    /// let documents = operator.manifests(&ManifestOptions::default());
    /// assert_eq!(documents[0]["metadata"]["name"], "example-operator-system");
    /// ```
    pub fn manifests(&self, options: &ManifestOptions) -> Vec<Value> {
        let namespace = options.namespace.clone().unwrap_or_else(|| default_namespace(self));
        let names = Names { operator: self.name(), namespace };
        let is_wanted = |part: Part| options.only.is_empty() || options.only.contains(&part);
        let parts = [
            (Part::Crds, definitions::definitions(self, &options.reach(&names))),
            (Part::Namespace, vec![workload::namespace(&names)]),
            (Part::Rbac, rbac::rbac(self, &names, options)),
            (Part::Deployment, vec![workload::deployment(self, &names, options)]),
            (
                Part::Metrics,
                vec![workload::metrics_service(&names, options), workload::metrics_policy(&names, options)],
            ),
            (Part::Webhooks, webhooks::webhooks(self, &names, options)),
        ];
        parts.into_iter().filter(|(part, _)| is_wanted(*part)).flat_map(|(_, documents)| documents).collect()
    }
}

/// Documents as one YAML stream, in a form that every reader of YAML 1.1 and 1.2 understands alike.
pub fn to_yaml(documents: &[Value]) -> Result<String> {
    serde_saphyr::to_string_multiple(documents).map_err(|why| Error::new(why.to_string()))
}
