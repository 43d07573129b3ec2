//! A web page as a resource: a `MyWeb` has the page, the image of a web server and a port; this puts the page into a
//! ConfigMap, runs the server on it, and opens the port on every node.

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, Container, ContainerPort, PodSpec, ServicePort, ServiceSpec, Volume, VolumeMount,
};
use kubewright::{prelude::*, workload::child_meta};

/// A resource to begin with.
pub const SAMPLE: &str = include_str!("../config/samples/myweb.yaml");

/// What is wanted.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(
    group = "operator.k8s-summit.org",
    version = "v1",
    kind = "MyWeb",
    namespaced,
    doc = "A web page, and what it takes to serve it.",
    status = "MyWebStatus",
    shortname = "web",
    category = "all",
    printcolumn(name = "Port", type_ = "integer", json_path = ".spec.nodePortNumber"),
    printcolumn(name = "Completed", type_ = "boolean", json_path = ".status.completed"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct MyWebSpec {
    /// The web server, which serves what is in `/usr/share/nginx/html`, on port 80.
    #[schemars(length(min = 1))]
    pub image: String,
    /// The port on every node under which the page is reached.
    #[schemars(range(min = 30000, max = 32767))]
    pub node_port_number: i32,
    /// The page.
    pub page_content_html: String,
}

/// What is there.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct MyWebStatus {
    /// The generation of the resource that this tells of.
    pub observed_generation: Option<i64>,
    /// Whether just this page is served, under just this port.
    pub completed: bool,
    /// `Available`, `Progressing` and `Degraded`.
    pub conditions: Vec<Condition>,
}

struct Web;

impl Reconciler<MyWeb> for Web {
    async fn reconcile(&self, web: &MyWeb, cx: &Context<MyWeb>) -> Result<Next> {
        cx.apply(page(web)).await?;
        let deployment = cx.apply(deployment(web)).await?;
        // The port may be taken: then the page is not served, and the status must not go on saying so.
        let service = cx.apply(service(web)).await;
        cx.status(MyWebStatus {
            completed: service.is_ok() && workload::is_complete(&deployment),
            conditions: workload::conditions(&deployment, &cx.pods()?),
            ..MyWebStatus::default()
        })
        .await?;
        service?;
        Ok(Next::on_change())
    }
}

fn page(web: &MyWeb) -> ConfigMap {
    let data = [("index.html".to_owned(), web.spec.page_content_html.clone())].into();
    ConfigMap { metadata: child_meta(web, "page"), data: Some(data), ..ConfigMap::default() }
}

fn deployment(web: &MyWeb) -> Deployment {
    let container = Container {
        name: "web".to_owned(),
        image: Some(web.spec.image.clone()),
        ports: Some(vec![ContainerPort { container_port: 80, ..ContainerPort::default() }]),
        volume_mounts: Some(vec![VolumeMount {
            name: "page".to_owned(),
            mount_path: "/usr/share/nginx/html".to_owned(),
            ..VolumeMount::default()
        }]),
        ..Container::default()
    };
    let volume = Volume {
        name: "page".to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: child_name(web, "page"),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    };
    let pod = PodSpec { containers: vec![container], volumes: Some(vec![volume]), ..PodSpec::default() };
    workload::rolled_by(workload::deployment(web, 1, pod), "page", &web.spec.page_content_html)
}

fn service(web: &MyWeb) -> Service {
    let port = ServicePort { port: 80, node_port: Some(web.spec.node_port_number), ..ServicePort::default() };
    let node_port = Some("NodePort".to_owned());
    workload::service(
        web,
        ServiceSpec { type_: node_port, ports: Some(vec![port]), ..ServiceSpec::default() },
    )
}

/// The operator: what it looks after, and what belongs to it.
pub fn operator() -> Operator {
    Operator::new("myweb-operator").version(env!("CARGO_PKG_VERSION")).controller(
        Controller::of::<MyWeb>()
            .owns::<ConfigMap>()
            .owns::<Deployment>()
            .owns::<Service>()
            .follows_pods()
            .run(Web),
    )
}
