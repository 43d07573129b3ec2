//! What those see who apply a `MyResource`.

mod promises;

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Pod},
};
use kube::ResourceExt as _;
use kubewright::workload::JobState;
use kubewright_cluster::{TestCluster, nodes::Script};
use myresource_operator::{MyResource, SAMPLE, operator};
use serde_json::{Value, json};

/// The only Job that is left, when all is quiet.
async fn job(cluster: &TestCluster) -> Job {
    cluster.quiet().await;
    let mut jobs = cluster.list::<Job>().await;
    assert_eq!(jobs.len(), 1, "there is one Job");
    jobs.remove(0)
}

/// The image that a Job runs, and what it asks for and is limited to.
fn runs(job: &Job) -> (String, Value) {
    let pod = job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref()).expect("it has a pod");
    (pod.containers[0].image.clone().unwrap_or_default(), json!(pod.containers[0].resources))
}

async fn config(cluster: &TestCluster) -> BTreeMap<String, String> {
    cluster.get::<ConfigMap>("sample").await.data.unwrap_or_default()
}

/// A cluster in which the image `slow` runs for ten minutes.
async fn with_slow_image(nodes: usize) -> TestCluster {
    let cluster = TestCluster::with(|cluster| cluster.nodes(nodes)).await;
    cluster.script("slow", Script::default().exits_after(Duration::from_secs(10 * 60), 0));
    cluster
}

#[tokio::test]
async fn the_image_is_run_once_with_its_memory_and_knows_what_it_has() {
    let cluster = TestCluster::start().await;
    let _operator = cluster.run(operator()).await;
    cluster.apply(SAMPLE).await;
    let (image, resources) = runs(&job(&cluster).await);
    assert_eq!(image, "busybox:1.37");
    assert_eq!(resources, json!({"limits": {"memory": "64Mi"}, "requests": {"memory": "64Mi"}}));
    let pods = cluster.list::<Pod>().await;
    assert_eq!(pods.len(), 1);
    let container = &pods[0].spec.as_ref().unwrap().containers[0];
    let config_map = container.env_from.iter().flatten().find_map(|from| from.config_map_ref.as_ref());
    assert_eq!(config_map.unwrap().name, "sample");
    let expected = [("MEMORY", "64Mi"), ("RESOURCE_NAME", "sample")];
    assert_eq!(
        config(&cluster).await,
        expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    );
    let table = cluster.table::<MyResource>().await;
    assert!(
        table.starts_with("NAME     IMAGE          MEMORY   AGE\nsample   busybox:1.37   64Mi     "),
        "{table}"
    );
}

#[tokio::test]
async fn a_changed_specification_is_another_job() {
    let cluster = TestCluster::start().await;
    let _operator = cluster.run(operator()).await;
    let mut before = None;
    for (generation, spec, image, memory) in [
        (1, json!({"image": "one", "memory": "64Mi"}), "one", Some("64Mi")),
        (2, json!({"image": "two", "memory": "64Mi"}), "two", Some("64Mi")),
        (3, json!({"image": "two", "memory": 4_294_967_296_i64}), "two", Some("4294967296")),
        (4, json!({"image": "two"}), "two", None),
        (5, json!({"image": "one", "memory": "64Mi"}), "one", Some("64Mi")),
    ] {
        cluster.apply_spec::<MyResource>("sample", spec).await;
        let job = job(&cluster).await;
        assert_ne!(before.replace(job.uid()), Some(job.uid()));
        assert_eq!(runs(&job).0, image);
        assert_eq!(config(&cluster).await.get("MEMORY").map(String::as_str), memory);
        assert_eq!(cluster.list::<Pod>().await.len(), 1, "and no others");
        let status = cluster.status::<MyResource>("sample").await;
        assert_eq!(status.state, JobState::Succeeded);
        assert_eq!(status.observed_generation, Some(generation));
        assert!(status.conditions.iter().all(|one| one.observed_generation == Some(generation)));
    }
}

#[tokio::test]
async fn a_specification_that_stays_is_not_run_again() {
    let cluster = TestCluster::start().await;
    let _operator = cluster.run(operator()).await;
    cluster.apply(SAMPLE).await;
    let before = job(&cluster).await;
    cluster.patch::<MyResource>("sample", json!({"metadata": {"labels": {"team": "a"}}})).await;
    cluster.patch::<ConfigMap>("sample", json!({"data": {"OURS": "too"}})).await;
    assert_eq!(job(&cluster).await.metadata.resource_version, before.metadata.resource_version);
    assert_eq!(config(&cluster).await["OURS"], "too", "what others add stays");
}

#[tokio::test]
async fn the_state_follows_the_job() {
    let cluster = TestCluster::start().await;
    let slow =
        Script::default().starts_after(Duration::from_secs(60)).exits_after(Duration::from_secs(60), 0);
    cluster.script("slow", slow);
    let _operator = cluster.run(operator()).await;
    cluster.apply_spec::<MyResource>("sample", json!({"image": "slow"})).await;
    let name = job(&cluster).await.name_any();
    let told = async |state: JobState, expected: &str| {
        assert_eq!(cluster.status::<MyResource>("sample").await.state, state);
        assert_eq!(cluster.conditions::<MyResource>("sample").await.replace(&name, "NAME"), expected);
    };
    told(
        JobState::Pending,
        "Available=False JobPending: job NAME waits for a pod that runs\n\
         Progressing=True JobPending: job NAME waits for a pod that runs\n\
         Degraded=False AsExpected: nothing is in the way",
    )
    .await;
    cluster.advance(Duration::from_secs(60)).await;
    told(
        JobState::Running,
        "Available=False JobRunning: job NAME is running\n\
         Progressing=True JobRunning: job NAME is running\n\
         Degraded=False AsExpected: nothing is in the way",
    )
    .await;
    cluster.advance(Duration::from_secs(60)).await;
    told(
        JobState::Succeeded,
        "Available=True JobSucceeded: job NAME has succeeded\n\
         Progressing=False JobSucceeded: job NAME has succeeded\n\
         Degraded=False AsExpected: nothing is in the way",
    )
    .await;
}

#[tokio::test]
async fn a_job_that_gives_up_has_failed_until_the_specification_changes() {
    if TestCluster::is_left_out("minutes of back-off pass") {
        return;
    }
    let cluster = TestCluster::start().await;
    cluster.script("broken", Script::default().exits_after(Duration::from_secs(1), 1));
    let _operator = cluster.run(operator()).await;
    cluster.apply_spec::<MyResource>("sample", json!({"image": "broken"})).await;
    let has_failed =
        async |cluster: &TestCluster| cluster.status::<MyResource>("sample").await.state == JobState::Failed;
    cluster.eventually("the Job has failed", has_failed).await;
    let name = job(&cluster).await.name_any();
    assert_eq!(
        cluster.conditions::<MyResource>("sample").await.replace(&name, "NAME"),
        "Available=False JobFailed: job NAME has failed\n\
         Progressing=False JobFailed: job NAME has failed\n\
         Degraded=True BackoffLimitExceeded: Job has reached the specified backoff limit"
    );
    cluster.apply_spec::<MyResource>("sample", json!({"image": "mended"})).await;
    cluster.quiet().await;
    assert_eq!(cluster.status::<MyResource>("sample").await.state, JobState::Succeeded);
}

#[tokio::test]
async fn a_pod_that_is_lost_at_work_is_replaced() {
    let cluster = with_slow_image(1).await;
    let _operator = cluster.run(operator()).await;
    cluster.apply_spec::<MyResource>("sample", json!({"image": "slow"})).await;
    cluster.quiet().await;
    assert_eq!(cluster.status::<MyResource>("sample").await.state, JobState::Running);
    cluster.lose_pod(&cluster.list::<Pod>().await[0].name_any()).await;
    let has_succeeded = async |cluster: &TestCluster| {
        cluster.status::<MyResource>("sample").await.state == JobState::Succeeded
    };
    cluster.eventually("another pod has done the work", has_succeeded).await;
}

#[tokio::test]
async fn a_node_that_is_lost_at_work_is_told_until_another_does_it() {
    let cluster = with_slow_image(2).await;
    let _operator = cluster.run(operator()).await;
    cluster.apply_spec::<MyResource>("sample", json!({"image": "slow"})).await;
    cluster.quiet().await;
    let node = cluster.list::<Pod>().await[0].spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap();
    cluster.lose_node(&node);
    let is_told = async |cluster: &TestCluster| {
        cluster.conditions::<MyResource>("sample").await.contains("Degraded=True NodeNotReady")
    };
    cluster.eventually("the lost node is told", is_told).await;
    let has_succeeded = async |cluster: &TestCluster| {
        cluster.status::<MyResource>("sample").await.state == JobState::Succeeded
    };
    cluster.eventually("another node has done the work", has_succeeded).await;
}

#[tokio::test]
async fn what_can_not_be_is_refused_by_name() {
    let cluster = TestCluster::start().await;
    let _operator = cluster.run(operator()).await;
    let memory = "spec.memory: Invalid value: ";
    let rule = "must be an amount of memory, of at least 1Mi: 64Mi, or a number of bytes";
    for (spec, expected) in [
        (json!({}), vec!["spec.image: Required value"]),
        (json!({"image": ""}), vec!["spec.image in body should be at least 1 chars long"]),
        (json!({"image": "one", "memory": "much"}), vec![memory, rule]),
        (json!({"image": "one", "memory": "-64Mi"}), vec![memory, rule]),
        (json!({"image": "one", "memory": ""}), vec![memory, rule]),
        (json!({"image": "one", "memory": 64}), vec![memory, rule]),
        (json!({"image": "one", "memory": "64"}), vec![memory, rule]),
        (json!({"image": "one", "memory": 1.5}), vec!["spec.memory"]),
        (json!({"image": "one", "memory": ["64Mi"]}), vec!["spec.memory"]),
    ] {
        let refusal = cluster.refusal::<MyResource>("sample", spec).await;
        assert!(expected.iter().all(|part| refusal.contains(part)), "{refusal}");
    }
}
