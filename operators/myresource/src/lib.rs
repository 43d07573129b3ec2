//! The operator for work that comes to an end: a `MyResource` asks for an image to be run once, with so much memory;
//! this makes a Job of it, and a ConfigMap that tells the Job what it has. Another specification is another Job.

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::{
    api::core::v1::{ConfigMapEnvSource, Container, EnvFromSource, PodSpec, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};
use kubewright::{
    prelude::*,
    workload::{JobState, child_meta},
};
use schemars::{Schema, SchemaGenerator, json_schema};

/// A resource to begin with.
pub const SAMPLE: &str = include_str!("../config/samples/myresource.yaml");

/// What is wanted.
#[allow(clippy::duplicated_attributes, reason = "two columns are of the same type")]
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(
    group = "mygroup.example.com",
    version = "v1alpha1",
    kind = "MyResource",
    namespaced,
    doc = "Work that is done once.",
    status = "MyResourceStatus",
    shortname = "my",
    shortname = "myres",
    category = "all",
    printcolumn(name = "Image", type_ = "string", json_path = ".spec.image"),
    printcolumn(name = "Memory", type_ = "string", json_path = ".spec.memory"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct MyResourceSpec {
    /// What is run.
    #[schemars(length(min = 1))]
    pub image: String,
    /// How much memory it gets; as much as there is if nothing is said.
    pub memory: Option<Memory>,
}

/// An amount of memory, as Kubernetes writes it: `64Mi`, or the number of bytes.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(untagged)]
pub enum Memory {
    /// A number of bytes.
    Bytes(i64),
    /// A number with a suffix.
    Text(String),
}

impl JsonSchema for Memory {
    fn schema_name() -> Cow<'static, str> {
        "Memory".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "x-kubernetes-int-or-string": true,
            "x-kubernetes-validations": [{
                "rule": "isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Mi')) >= 0",
                "message": "must be an amount of memory, of at least 1Mi: 64Mi, or a number of bytes",
            }],
        })
    }
}

/// What is there.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct MyResourceStatus {
    /// The generation of the resource that this tells of.
    pub observed_generation: Option<i64>,
    /// How far the Job is.
    pub state: JobState,
    /// `Available`, `Progressing` and `Degraded`.
    pub conditions: Vec<Condition>,
}

struct Work;

impl Reconciler<MyResource> for Work {
    async fn reconcile(&self, resource: &MyResource, cx: &Context<MyResource>) -> Result<Next> {
        let config = config(resource);
        let job = job(resource, &config)?;
        cx.apply(config).await?;
        let job = cx.apply(job).await?;
        cx.status(MyResourceStatus {
            state: JobState::of(&job),
            conditions: workload::job_conditions(&job, &cx.pods()?),
            ..MyResourceStatus::default()
        })
        .await?;
        Ok(Next::on_change())
    }
}

fn memory(resource: &MyResource) -> Option<Quantity> {
    resource.spec.memory.as_ref().map(|memory| match memory {
        Memory::Bytes(bytes) => Quantity(bytes.to_string()),
        Memory::Text(text) => Quantity(text.clone()),
    })
}

/// What the Job finds in its environment.
fn config(resource: &MyResource) -> ConfigMap {
    let mut data = BTreeMap::from([("RESOURCE_NAME".to_owned(), resource.name_any())]);
    data.extend(memory(resource).map(|Quantity(memory)| ("MEMORY".to_owned(), memory)));
    ConfigMap { metadata: child_meta(resource, ""), data: Some(data), ..ConfigMap::default() }
}

fn job(resource: &MyResource, config: &ConfigMap) -> Result<Job> {
    let memory = memory(resource).map(|memory| BTreeMap::from([("memory".to_owned(), memory)]));
    let container = Container {
        name: "work".to_owned(),
        image: Some(resource.spec.image.clone()),
        env_from: Some(vec![EnvFromSource {
            config_map_ref: Some(ConfigMapEnvSource { name: config.name_any(), optional: None }),
            ..EnvFromSource::default()
        }]),
        resources: Some(ResourceRequirements {
            limits: memory.clone(),
            requests: memory,
            ..ResourceRequirements::default()
        }),
        ..Container::default()
    };
    let pod = PodSpec {
        containers: vec![container],
        restart_policy: Some("OnFailure".to_owned()),
        ..PodSpec::default()
    };
    workload::job(resource, pod, &config.data)
}

/// The operator: what it looks after, and what belongs to it.
pub fn operator() -> Operator {
    Operator::new("myresource-operator").version(env!("CARGO_PKG_VERSION")).controller(
        Controller::of::<MyResource>().owns::<ConfigMap>().owns::<Job>().follows_pods().prunes().run(Work),
    )
}
