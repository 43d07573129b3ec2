//! An operator: a value that says what it is made of before anything runs.

use std::{future::Future, sync::Arc};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Client, CustomResourceExt};

use crate::{
    controller::Controller,
    conversion::Conversions,
    error::Result,
    external::{External, Outside, Reached, Rehearsal},
    kind::Kind,
    manager::{self, Options, Running},
    rights::Rights,
    task::{Task, TaskContext},
    webhook::{self, Defaulter, Purpose, Targets, Validator, Webhook},
};

/// An operator: its name and its controllers. It can be run any number of times, and described without running.
///
/// ```
/// # use kubewright::{Context, Controller, Next, Operator, Reconciler, Result};
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # struct Nothing;
/// # impl Reconciler<ConfigMap> for Nothing {
/// #     async fn reconcile(&self, _: &ConfigMap, _: &Context<ConfigMap>) -> Result<Next> {
/// #         Ok(Next::on_change())
/// #     }
/// # }
/// let operator = Operator::new("example-operator")
///     .controller(Controller::of_existing::<ConfigMap>().run(Nothing));
/// ```
pub struct Operator {
    pub(crate) name: Arc<str>,
    pub(crate) version: Option<String>,
    pub(crate) controllers: Vec<Controller>,
    /// Those that no controller brings along.
    pub(crate) definitions: Vec<CustomResourceDefinition>,
    pub(crate) conversions: Conversions,
    /// Whether the leader brings stored objects of kinds with conversions to the version that is stored.
    pub(crate) migrates: bool,
    pub(crate) tasks: Vec<Task>,
    pub(crate) webhooks: Vec<Webhook>,
    reached: Vec<Arc<dyn Reached>>,
}

impl Operator {
    /// An operator without controllers. Its name is also its field manager, and that of its lease.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into().into(),
            version: None,
            controllers: Vec::new(),
            definitions: Vec::new(),
            conversions: Conversions::default(),
            migrates: true,
            tasks: Vec::new(),
            webhooks: Vec::new(),
            reached: Vec::new(),
        }
    }

    /// Says which version of it this is, usually `env!("CARGO_PKG_VERSION")`: its image is tagged with it.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// Adds a controller.
    #[must_use]
    pub fn controller(mut self, controller: Controller) -> Self {
        self.controllers.push(controller);
        self
    }

    /// Brings a kind along that has no controller here, or another version of one that has. All versions of a kind make
    /// one definition. Objects are stored in the first version that says so, as all do without `storage = false`.
    #[must_use]
    pub fn defines<K: CustomResourceExt>(mut self) -> Self {
        self.definitions.push(K::crd());
        self
    }

    /// Fills in what objects of a kind leave open, before they are stored: a [webhook](Webhook::defaulting).
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kubewright::{Admission, Operator};
    ///
    /// fn fill(map: &mut ConfigMap, _: &Admission<ConfigMap>) {
    ///     map.data.get_or_insert_default().entry("color".to_owned()).or_insert_with(|| "blue".to_owned());
    /// }
    ///
    /// let operator = Operator::new("example-operator").defaults::<ConfigMap>(fill);
    ///
    /// let mut map = ConfigMap::default();
    /// fill(&mut map, &Admission::create());
    /// assert_eq!(map.data.unwrap()["color"], "blue");
    /// ```
    #[must_use]
    pub fn defaults<K: Kind>(self, defaulter: impl Defaulter<K>) -> Self {
        self.webhook(Webhook::defaulting(defaulter))
    }

    /// Decides which objects of a kind may be created or updated: a [webhook](Webhook::validating). What can be said of
    /// an object and its former self in CEL is better said in its schema, where nothing has to run for it.
    ///
    /// ```
    /// use k8s_openapi::api::apps::v1::Deployment;
    /// use kubewright::{Admission, Operator, Verdict};
    ///
    /// fn check(new: &Deployment, admission: &Admission<Deployment>) -> Verdict {
    ///     let replicas = |one: &Deployment| one.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    ///     match &admission.old {
    ///         Some(old) if replicas(new) < replicas(old) - 1 => {
    ///             Verdict::allowed().invalid("spec.replicas", replicas(new), "only one may go at a time")
    ///         }
    ///         _ => Verdict::allowed(),
    ///     }
    /// }
    ///
    /// let operator = Operator::new("example-operator").validates::<Deployment>(check);
    /// ```
    #[must_use]
    pub fn validates<K: Kind>(self, validator: impl Validator<K>) -> Self {
        self.webhook(Webhook::validating(validator))
    }

    /// Adds a webhook.
    #[must_use]
    pub fn webhook(mut self, webhook: Webhook) -> Self {
        self.webhooks.push(webhook);
        self
    }

    /// Adds something to be done besides, by the leader. If it fails, the operator ends; it may end well earlier.
    #[must_use]
    pub fn task<F, R>(self, name: impl Into<String>, run: F) -> Self
    where
        F: Fn(TaskContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<()>> + Send + 'static,
    {
        self.add_task(name.into(), true, run)
    }

    /// Like [`task`](Self::task), but in every replica.
    #[must_use]
    pub fn task_everywhere<F, R>(self, name: impl Into<String>, run: F) -> Self
    where
        F: Fn(TaskContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<()>> + Send + 'static,
    {
        self.add_task(name.into(), false, run)
    }

    fn add_task<F, R>(mut self, name: String, needs_leadership: bool, run: F) -> Self
    where
        F: Fn(TaskContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<()>> + Send + 'static,
    {
        self.tasks.push(Task { name, needs_leadership, run: Arc::new(move |cx| Box::pin(run(cx))) });
        self
    }

    /// Says that it reaches a system [outside](crate::external) of the cluster.
    #[must_use]
    pub fn reaches<E: External>(mut self, outside: &Outside<E>) -> Self {
        self.reached.push(Arc::new(outside.clone()));
        self
    }

    /// Whether a reconcile may leave something for the next one in memory: in a [reconciler](crate::Reconciler::remembers),
    /// a finalizer or a mapping that holds data, in a task, or in what reaches a system outside. What is global is not seen.
    pub fn remembers(&self) -> bool {
        let of_controller = |controller: &Controller| controller.description.remembers;
        self.controllers.iter().any(of_controller) || !self.tasks.is_empty() || !self.reached.is_empty()
    }

    /// Has stand-ins answer for the systems that it reaches; fails if one has none.
    pub fn rehearse(&self, rehearsal: &Rehearsal) -> Result<()> {
        self.reached.iter().try_for_each(|reached| reached.rehearse(rehearsal))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of its controllers, as metrics and logs have them.
    pub fn controllers(&self) -> impl Iterator<Item = &str> {
        self.controllers.iter().map(|controller| &*controller.description.name)
    }

    /// The definitions of the kinds that it brings along, one for each version.
    pub fn definitions(&self) -> Vec<&CustomResourceDefinition> {
        let of_controllers =
            self.controllers.iter().filter_map(|controller| controller.description.definition.as_ref());
        let identity = |definition: &CustomResourceDefinition| {
            let versions = definition.spec.versions.iter().map(|version| version.name.clone());
            (definition.metadata.name.clone(), versions.collect::<Vec<_>>())
        };
        let mut definitions: Vec<&CustomResourceDefinition> = Vec::new();
        for definition in of_controllers.chain(&self.definitions) {
            if definitions.iter().all(|known| identity(known) != identity(definition)) {
                definitions.push(definition);
            }
        }
        definitions
    }

    /// Everything it must be allowed to do, apart from leader election.
    pub(crate) fn rights(&self) -> Rights {
        let mut rights = Rights::default();
        self.controllers.iter().for_each(|controller| rights.merge(&controller.description.rights));
        self.webhooks.iter().for_each(|webhook| rights.merge(&webhook.description.rights));
        rights
    }

    /// The Service at which its webhooks are found in a cluster.
    pub fn webhook_service(&self) -> String {
        webhook::service_name(&self.name)
    }

    /// What names its webhooks to the API server, if it watches these namespaces, or all of them.
    pub(crate) fn webhook_targets(&self, namespaces: &[String]) -> Targets {
        let has = |purpose| self.webhooks.iter().any(|webhook| webhook.description.purpose == purpose);
        let name = || webhook::configuration_name(&self.name, namespaces);
        let named = |purpose| has(purpose).then(name);
        Targets {
            mutating: named(Purpose::Defaulting),
            validating: named(Purpose::Validating),
            definitions: self.conversions.hubs().into_iter().map(ToString::to_string).collect(),
        }
    }

    /// Runs it on tasks of the current runtime until the answer is stopped or dropped.
    pub fn start(self, client: Client, options: Options) -> Running {
        manager::start(self, client, options)
    }
}
