//! The smallest operator: a `MyApp` asks for an image and a number of replicas; this makes one Deployment of it, and
//! tells in the status how many are ready.

use k8s_openapi::api::core::v1::{Container, PodSpec};
use kubewright::prelude::*;

/// A resource to begin with.
pub const SAMPLE: &str = include_str!("../config/samples/myapp.yaml");

/// What is wanted.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(
    group = "example.com",
    version = "v1alpha1",
    kind = "MyApp",
    namespaced,
    doc = "An application: an image, and how many pods run it.",
    status = "MyAppStatus",
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Image", type_ = "string", json_path = ".spec.image"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct MyAppSpec {
    /// How many pods there are.
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    pub replicas: i32,
    /// What runs in them.
    #[schemars(length(min = 1))]
    pub image: String,
}

fn one() -> i32 {
    1
}

/// What is there.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct MyAppStatus {
    /// The generation of the resource that this tells of.
    pub observed_generation: Option<i64>,
    /// How many pods are ready.
    pub ready_replicas: i32,
    /// `Available`, `Progressing` and `Degraded`.
    pub conditions: Vec<Condition>,
}

struct App;

impl Reconciler<MyApp> for App {
    async fn reconcile(&self, app: &MyApp, cx: &Context<MyApp>) -> Result<Next> {
        let deployment = cx.apply(deployment(app)).await?;
        cx.status(MyAppStatus {
            ready_replicas: deployment.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0),
            conditions: workload::conditions(&deployment, &cx.pods()?),
            ..MyAppStatus::default()
        })
        .await?;
        Ok(Next::on_change())
    }
}

fn deployment(app: &MyApp) -> Deployment {
    let container =
        Container { name: "app".to_owned(), image: Some(app.spec.image.clone()), ..Container::default() };
    let pod = PodSpec { containers: vec![container], ..PodSpec::default() };
    workload::deployment(app, app.spec.replicas, pod)
}

/// The operator: what it looks after, and what belongs to it.
pub fn operator() -> Operator {
    Operator::new("myapp-operator")
        .version(env!("CARGO_PKG_VERSION"))
        .controller(Controller::of::<MyApp>().owns::<Deployment>().follows_pods().run(App))
}
