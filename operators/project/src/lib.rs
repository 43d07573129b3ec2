//! An application with a password: a `Project` names an image and a password; this runs the image behind a Service, and
//! hands it the password in a Secret. The password is nowhere else: not in logs, events, errors, or the status.

use std::fmt;

use k8s_openapi::{
    ByteString,
    api::core::v1::{
        Container, ContainerPort, EnvVar, EnvVarSource, PodSpec, SecretKeySelector, ServicePort, ServiceSpec,
    },
};
use kubewright::{Owners, prelude::*, workload::child_meta};

const NAME: &str = "project-operator";

/// A resource to begin with.
pub const SAMPLE: &str = include_str!("../config/samples/project.yaml");

/// What is wanted.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(
    group = "xyz.com",
    version = "v1",
    kind = "Project",
    namespaced,
    doc = "An application, and the password it needs.",
    status = "ProjectStatus",
    printcolumn(name = "Image", type_ = "string", json_path = ".spec.image"),
    printcolumn(name = "Ready", type_ = "boolean", json_path = ".status.Ready"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct ProjectSpec {
    /// What runs; it listens on port 8080.
    #[schemars(length(min = 1))]
    pub image: String,
    /// What it finds in the variable `PASSWORD`.
    pub password: Password,
}

/// Text that is never printed.
#[derive(Serialize, Deserialize, JsonSchema, Clone)]
#[serde(transparent)]
pub struct Password(#[schemars(length(min = 1))] String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// What is there.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ProjectStatus {
    /// The generation of the resource that this tells of.
    pub observed_generation: Option<i64>,
    /// Whether it runs, with just this image and this password.
    #[serde(rename = "Ready")]
    pub ready: bool,
    /// `Available`, `Progressing` and `Degraded`.
    pub conditions: Vec<Condition>,
}

struct Run;

impl Reconciler<Project> for Run {
    async fn reconcile(&self, project: &Project, cx: &Context<Project>) -> Result<Next> {
        let secret = cx.apply(secret(project)).await?;
        let deployment = cx.apply(deployment(project, &secret)).await?;
        cx.apply(service(project)).await?;
        cx.status(ProjectStatus {
            ready: workload::is_complete(&deployment),
            conditions: workload::conditions(&deployment, &cx.pods()?),
            ..ProjectStatus::default()
        })
        .await?;
        Ok(Next::on_change())
    }
}

fn secret(project: &Project) -> Secret {
    let password = ByteString(project.spec.password.0.clone().into_bytes());
    let data = [("password".to_owned(), password)].into();
    Secret { metadata: child_meta(project, ""), data: Some(data), ..Secret::default() }
}

fn deployment(project: &Project, secret: &Secret) -> Deployment {
    let password = SecretKeySelector { name: secret.name_any(), key: "password".to_owned(), optional: None };
    let variable = EnvVar {
        name: "PASSWORD".to_owned(),
        value_from: Some(EnvVarSource { secret_key_ref: Some(password), ..EnvVarSource::default() }),
        ..EnvVar::default()
    };
    let container = Container {
        name: "project".to_owned(),
        image: Some(project.spec.image.clone()),
        env: Some(vec![variable]),
        ports: Some(vec![ContainerPort { container_port: 8080, ..ContainerPort::default() }]),
        ..Container::default()
    };
    let pod = PodSpec { containers: vec![container], ..PodSpec::default() };
    // By its version, not by what is in it: from a digest the password could be guessed.
    let version = secret.resource_version().unwrap_or_default();
    workload::rolled_by(workload::deployment(project, 1, pod), "secret", &version)
}

fn service(project: &Project) -> Service {
    let port = ServicePort { port: 8080, ..ServicePort::default() };
    workload::service(project, ServiceSpec { ports: Some(vec![port]), ..ServiceSpec::default() })
}

/// The operator: what it looks after, and what belongs to it. Of all Secrets it sees only its own.
pub fn operator() -> Operator {
    let own = Watch::<Secret>::new().labels(format!("app.kubernetes.io/managed-by={NAME}"));
    Operator::new(NAME).version(env!("CARGO_PKG_VERSION")).controller(
        Controller::of::<Project>()
            .confidential()
            .owns_with(own, Owners::Controller, [])
            .owns::<Deployment>()
            .owns::<Service>()
            .follows_pods()
            .run(Run),
    )
}
