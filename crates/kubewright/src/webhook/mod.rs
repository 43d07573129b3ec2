//! Webhooks: what the API server asks an operator before it stores an object.

mod admission;
mod certificates;
mod keeper;
mod lead;
mod patch;
mod serve;

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};

pub(crate) use self::{
    admission::Call,
    keeper::{Keeper, Targets, configuration_name, secret_name, service_name},
    lead::Lead,
    serve::{Desk, Hook},
};
pub use self::{
    admission::{Admission, Defaulter, Operation, Outcome, Validator, Verdict},
    lead::BORROWED,
};
use crate::{
    cache::{Cache, Watch},
    controller::Views,
    kind::{Kind, KindName, Object},
    rights::{Rights, Verb},
};

/// Where webhooks are served unless something else is said.
pub(crate) const PORT: u16 = 9443;

/// What a webhook is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    Defaulting,
    Validating,
}

impl Purpose {
    /// As the paths of kubebuilder begin.
    fn verb(self) -> &'static str {
        match self {
            Self::Defaulting => "mutate",
            Self::Validating => "validate",
        }
    }
}

/// What becomes of a request whose webhook does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailurePolicy {
    /// It is refused.
    Fail,
    /// It goes on without the webhook.
    Ignore,
}

/// A webhook: which requests it is asked about, and what it does with them.
///
/// ```
/// use kubewright::{Admission, FailurePolicy, Operator, Verdict, Webhook};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// fn check(map: &ConfigMap, admission: &Admission<ConfigMap>) -> Verdict {
///     let verdict = Verdict::allowed();
///     match &map.data {
///         Some(data) if data.contains_key("password") => {
///             verdict.forbidden("data.password", "passwords belong into a Secret")
///         }
///         _ => verdict,
///     }
/// }
///
/// let operator = Operator::new("example-operator").webhook(
///     Webhook::validating::<ConfigMap>(check)
///         .failure_policy(FailurePolicy::Ignore)
///         .condition("has-data", "has(object.data)"),
/// );
///
/// let map = ConfigMap { data: Some([("password".into(), "x".into())].into()), ..ConfigMap::default() };
/// assert!(!check(&map, &Admission::create()).is_allowed());
/// ```
pub struct Webhook {
    pub(crate) description: Description,
    pub(crate) handle: Handle,
}

pub(crate) type Handle = Arc<dyn admission::Handler>;
/// Declares a kind that is read.
type Read = Arc<dyn Fn(&Views, &Cache) + Send + Sync>;

/// What is known of a webhook before it runs.
pub(crate) struct Description {
    pub(crate) purpose: Purpose,
    pub(crate) kind: KindName,
    operations: BTreeSet<Operation>,
    failure_policy: FailurePolicy,
    timeout: Duration,
    has_side_effects: bool,
    conditions: Vec<(String, String)>,
    objects: LabelSelector,
    namespaces: Option<LabelSelector>,
    pub(crate) rights: Rights,
    reads: Vec<Read>,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("name", &self.description.name()).finish_non_exhaustive()
    }
}

impl Webhook {
    /// Fills in what objects leave open when they are created or updated.
    pub fn defaulting<K: Kind>(defaulter: impl Defaulter<K>) -> Self {
        Self::defaulting_of(KindName::of::<K>(), defaulter)
    }

    /// Decides whether objects may be created or updated; or deleted, if that is [asked for](Self::operations).
    pub fn validating<K: Kind>(validator: impl Validator<K>) -> Self {
        Self::validating_of(KindName::of::<K>(), validator)
    }

    /// Like [`defaulting`](Self::defaulting), for kinds that are only known at run time, as `DynamicObject`.
    pub fn defaulting_of<K: Object>(kind: KindName, defaulter: impl Defaulter<K>) -> Self {
        Self::new(Purpose::Defaulting, kind, admission::defaulting(defaulter))
    }

    /// Like [`validating`](Self::validating), for kinds that are only known at run time, as `DynamicObject`.
    pub fn validating_of<K: Object>(kind: KindName, validator: impl Validator<K>) -> Self {
        Self::new(Purpose::Validating, kind, admission::validating(validator))
    }

    fn new(purpose: Purpose, kind: KindName, handle: Handle) -> Self {
        let description = Description {
            purpose,
            kind,
            operations: [Operation::Create, Operation::Update].into(),
            failure_policy: FailurePolicy::Fail,
            timeout: Duration::from_secs(10),
            has_side_effects: false,
            conditions: Vec::new(),
            objects: LabelSelector::default(),
            namespaces: None,
            rights: Rights::default(),
            reads: Vec::new(),
        };
        Self { description, handle }
    }

    /// The requests it is asked about: to create and to update, unless this is said.
    #[must_use]
    pub fn operations(mut self, operations: impl IntoIterator<Item = Operation>) -> Self {
        self.description.operations = operations.into_iter().collect();
        self
    }

    /// What becomes of a request if the operator can't be asked, or can't say: it is refused, unless this is said.
    #[must_use]
    pub fn failure_policy(mut self, policy: FailurePolicy) -> Self {
        self.description.failure_policy = policy;
        self
    }

    /// How long it may take, in whole seconds up to 30: 10, unless this is said.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.description.timeout = timeout.clamp(Duration::from_secs(1), Duration::from_secs(30));
        self
    }

    /// It does something outside of the answer unless a request is a dry run.
    #[must_use]
    pub fn has_side_effects(mut self) -> Self {
        self.description.has_side_effects = true;
        self
    }

    /// It is only asked about requests for which this CEL expression is true, under a name that tells it from others.
    #[must_use]
    pub fn condition(mut self, name: impl Into<String>, expression: impl Into<String>) -> Self {
        self.description.conditions.push((name.into(), expression.into()));
        self
    }

    /// It is only asked about objects with such labels.
    #[must_use]
    pub fn objects(mut self, selector: LabelSelector) -> Self {
        self.description.objects = selector;
        self
    }

    /// It is only asked about objects in namespaces with such labels: unless this is said, in those that the
    /// operator watches, or in all but its own.
    #[must_use]
    pub fn namespaces(mut self, selector: LabelSelector) -> Self {
        self.description.namespaces = Some(selector);
        self
    }

    /// Lets it read objects of a kind [from memory](Admission::lookup); they are watched for it.
    #[must_use]
    pub fn reads<C: Kind>(mut self) -> Self {
        self.description.rights.needs::<C>(Verb::WATCHING);
        self.description.reads.push(Arc::new(|views, cache| {
            views.view(cache, &Watch::<C>::new());
        }));
        self
    }
}

impl Description {
    /// Its name, which refusals carry.
    pub(crate) fn name(&self) -> String {
        let KindName { group, version, plural, .. } = &self.kind;
        let group = if group.is_empty() { "core" } else { group };
        format!("{}.{plural}.{version}.{group}", self.purpose.verb())
    }

    /// Where it is served, as kubebuilder has it.
    pub(crate) fn path(&self) -> String {
        let KindName { group, version, kind, .. } = &self.kind;
        let group = group.replace('.', "-");
        format!("/{}-{group}-{version}-{}", self.purpose.verb(), kind.to_ascii_lowercase())
    }

    /// The views it reads from.
    pub(crate) fn views(&self, cache: &Cache) -> Arc<Views> {
        let views = Views::new(&self.name());
        self.reads.iter().for_each(|read| read(&views, cache));
        views.share()
    }

    /// Its entry in the configuration of an operator that lives in a namespace and watches some, or all; without the way
    /// to it.
    pub(crate) fn entry(&self, own_namespace: &str, watched: &[String]) -> Value {
        let KindName { group, version, plural, is_namespaced, .. } = &self.kind;
        let mut entry = json!({
            "name": self.name(),
            "admissionReviewVersions": ["v1"],
            "failurePolicy": match self.failure_policy {
                FailurePolicy::Fail => "Fail",
                FailurePolicy::Ignore => "Ignore",
            },
            "matchPolicy": "Equivalent",
            "sideEffects": if self.has_side_effects { "NoneOnDryRun" } else { "None" },
            "timeoutSeconds": self.timeout.as_secs(),
            "rules": [{
                "apiGroups": [group],
                "apiVersions": [version],
                "resources": [plural],
                "operations": self.operations.iter().map(|operation| operation.name()).collect::<Vec<_>>(),
                "scope": if *is_namespaced { "Namespaced" } else { "Cluster" },
            }],
        });
        if !self.conditions.is_empty() {
            let condition =
                |(name, expression): &(String, String)| json!({"name": name, "expression": expression});
            entry["matchConditions"] = self.conditions.iter().map(condition).collect();
        }
        if self.objects != LabelSelector::default() {
            entry["objectSelector"] = json!(self.objects);
        }
        match &self.namespaces {
            Some(selector) => entry["namespaceSelector"] = json!(selector),
            None if *is_namespaced => {
                let (operator, values) = match watched {
                    // The operator must be able to start while nobody answers for it.
                    [] => ("NotIn", vec![own_namespace]),
                    watched => ("In", watched.iter().map(String::as_str).collect()),
                };
                entry["namespaceSelector"] = json!({"matchExpressions": [{
                    "key": "kubernetes.io/metadata.name", "operator": operator, "values": values,
                }]});
            }
            None => {}
        }
        entry
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};

    use super::*;

    #[test]
    fn names_and_paths_are_those_of_the_kind() {
        let webhook = Webhook::validating::<Deployment>(|_: &Deployment, _: &Admission<Deployment>| ());
        assert_eq!(webhook.description.name(), "validate.deployments.v1.apps");
        assert_eq!(webhook.description.path(), "/validate-apps-v1-deployment");
        let webhook = Webhook::defaulting::<Pod>(|_: &mut Pod, _: &Admission<Pod>| ());
        assert_eq!(webhook.description.name(), "mutate.pods.v1.core");
        assert_eq!(webhook.description.path(), "/mutate--v1-pod");
    }
}
