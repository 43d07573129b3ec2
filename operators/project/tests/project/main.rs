//! What those see who apply a `Project`, and what they don't.

mod promises;

use std::{io, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use k8s_openapi::{
    ByteString,
    api::core::v1::{Pod, Secret, Service},
};
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, ListParams},
    discovery::Discovery,
};
use kubewright_cluster::{TestCluster, nodes::Script};
use parking_lot::Mutex;
use project_operator::{Project, SAMPLE, operator};
use serde_json::json;

const PASSWORD: &str = "correct horse battery staple";

#[tokio::test]
async fn the_image_runs_behind_a_service_and_finds_the_password() {
    let cluster = TestCluster::start().await;
    let _operator = cluster.run(operator()).await;
    cluster.apply(SAMPLE).await;
    cluster.quiet().await;
    let secret = cluster.get::<Secret>("sample").await.data.unwrap();
    assert_eq!(secret["password"], ByteString(PASSWORD.as_bytes().to_vec()));
    let pod = cluster.list::<Pod>().await.remove(0);
    let container = &pod.spec.as_ref().unwrap().containers[0];
    assert_eq!(container.image.as_deref(), Some("registry.example/shop:1.0"));
    let variable = &container.env.as_ref().unwrap()[0];
    let source = variable.value_from.as_ref().unwrap().secret_key_ref.as_ref().unwrap();
    assert_eq!(
        (variable.name.as_str(), source.name.as_str(), source.key.as_str()),
        ("PASSWORD", "sample", "password")
    );
    let service = cluster.get::<Service>("sample").await.spec.unwrap();
    assert!(service.selector.unwrap().iter().all(|(name, value)| pod.labels().get(name) == Some(value)));
    assert!(cluster.status::<Project>("sample").await.ready);
    let table = cluster.table::<Project>().await;
    let expected =
        "NAME     IMAGE                       READY   AGE\nsample   registry.example/shop:1.0   true    ";
    assert!(table.starts_with(expected), "{table}");
}

#[tokio::test]
async fn it_is_ready_when_it_runs_with_what_is_wanted_and_not_before() {
    let cluster = TestCluster::start().await;
    cluster.script("slow", Script::default().ready_after(Duration::from_secs(60)));
    let _operator = cluster.run(operator()).await;
    let is_ready = async || cluster.status::<Project>("sample").await.ready;
    for (generation, password) in [(1, "one"), (2, "two")] {
        cluster.apply_spec::<Project>("sample", json!({"image": "slow", "password": password})).await;
        cluster.quiet().await;
        assert!(!is_ready().await, "no pod has password {password}");
        cluster.advance(Duration::from_secs(60)).await;
        assert!(is_ready().await);
        assert_eq!(cluster.status::<Project>("sample").await.observed_generation, Some(generation));
    }
}

#[tokio::test]
async fn another_password_replaces_the_pods() {
    let cluster = TestCluster::start().await;
    let _operator = cluster.run(operator()).await;
    cluster.apply_spec::<Project>("sample", json!({"image": "shop", "password": "one"})).await;
    cluster.quiet().await;
    let before = cluster.list::<Pod>().await.remove(0).name_any();
    cluster.apply_spec::<Project>("sample", json!({"image": "shop", "password": "two"})).await;
    cluster.quiet().await;
    assert_eq!(cluster.get::<Secret>("sample").await.data.unwrap()["password"], ByteString(b"two".to_vec()));
    assert_ne!(cluster.list::<Pod>().await.remove(0).name_any(), before);
}

/// What is written to a log, all of it.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Everything in the cluster, apart from the Project and its Secret.
async fn everything_else(cluster: &TestCluster) -> String {
    let discovery = Discovery::new(cluster.client()).run().await.expect("resources can be discovered");
    let mut text = String::new();
    for (resource, capabilities) in discovery.groups().flat_map(|group| group.resources_by_stability()) {
        if !capabilities.supports_operation("list") || ["Project", "Secret"].contains(&resource.kind.as_str())
        {
            continue;
        }
        let api: Api<DynamicObject> = Api::all_with(cluster.client(), &resource);
        let list = api.list(&ListParams::default()).await.expect("it can be listed");
        text += &json!(list.items).to_string();
    }
    text
}

#[tokio::test]
async fn the_password_is_in_the_secret_and_nowhere_else() {
    if TestCluster::is_left_out("it looks at all that is logged and at all that is in the cluster") {
        return;
    }
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
    let _logging = tracing::subscriber::set_default(subscriber.with_writer(move || writer.clone()).finish());
    let cluster = TestCluster::start().await;
    let operator = cluster.run(operator()).await;
    // In good times and in bad ones.
    cluster.script("registry.example/shop:1.0", Script::default().exits_after(Duration::from_secs(1), 1));
    cluster.apply(SAMPLE).await;
    cluster.advance(Duration::from_secs(60)).await;
    for resource in ["secrets", "deployments", "services"] {
        let outage = operator.outage_of(resource);
        cluster.patch::<Project>("sample", json!({"metadata": {"labels": {"outage": resource}}})).await;
        cluster.delete::<Secret>("sample").await;
        cluster.advance(Duration::from_secs(60)).await;
        drop(outage);
        cluster
            .eventually("there is a Secret again", async |cluster| {
                cluster.find::<Secret>("sample").await.is_some()
            })
            .await;
    }
    cluster
        .patch::<Secret>("sample", json!({"metadata": {"labels": {"app.kubernetes.io/instance": "other"}}}))
        .await;
    cluster.quiet().await;

    let logged = String::from_utf8(log.0.lock().clone()).unwrap();
    assert!(logged.contains("the test says so"), "errors are logged");
    let status = json!(cluster.status::<Project>("sample").await).to_string();
    let project = cluster.get::<Project>("sample").await;
    let all = everything_else(&cluster).await;
    assert!(all.contains("secretKeyRef"), "the Deployment is among it");
    let printed =
        [&logged, &status, &all, &operator.metrics(), &format!("{project:?}"), &cluster.describe().await];
    for secret in [PASSWORD, &STANDARD.encode(PASSWORD)] {
        let shown = printed.iter().find_map(|text| {
            let at = text.find(secret)?;
            text.get(at.saturating_sub(300)..at)
        });
        assert_eq!(shown, None, "before the password");
    }
}

#[tokio::test]
async fn what_can_not_be_is_refused_by_name() {
    let cluster = TestCluster::start().await;
    let _operator = cluster.run(operator()).await;
    for (spec, expected) in [
        (json!({"image": "", "password": "one"}), "spec.image in body should be at least 1 chars long"),
        (json!({"image": "shop", "password": ""}), "spec.password in body should be at least 1 chars long"),
        (json!({"image": "shop", "password": 1}), "spec.password: expected string"),
        (json!({"image": "shop"}), "spec.password: Required value"),
    ] {
        let refusal = cluster.refusal::<Project>("sample", spec).await;
        assert!(refusal.contains(expected), "{refusal}");
    }
}
