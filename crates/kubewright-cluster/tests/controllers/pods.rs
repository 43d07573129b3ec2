//! Pods on their nodes: what a kubelet does with them, and what it says.

use std::time::Duration;

use k8s_openapi::api::{
    core::v1::{ContainerStatus, Pod, PodStatus},
    events::v1::Event,
};
use kube::ResourceExt as _;
use kubewright_cluster::{TestCluster, nodes::Script};
use serde_json::{Value, json};

use crate::server;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Applies a pod with one container of an image, and further fields of its specification.
async fn pod(cluster: &TestCluster, image: &str, fields: Value) {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "main", "image": image}]},
    });
    for (field, value) in fields.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    cluster.apply(&pod.to_string()).await;
}

async fn status(cluster: &TestCluster) -> PodStatus {
    cluster.get::<Pod>("web").await.status.unwrap()
}

async fn phase(cluster: &TestCluster) -> String {
    status(cluster).await.phase.unwrap()
}

async fn main(cluster: &TestCluster) -> ContainerStatus {
    status(cluster).await.container_statuses.unwrap_or_default().pop().unwrap_or_default()
}

/// Why the container waits, and what it says about that; nothing if it does not wait.
async fn waiting(cluster: &TestCluster) -> (String, String) {
    let waiting = main(cluster).await.state.and_then(|state| state.waiting).unwrap_or_default();
    (waiting.reason.unwrap_or_default(), waiting.message.unwrap_or_default())
}

/// Status and reason of a condition.
async fn condition(cluster: &TestCluster, name: &str) -> (String, String) {
    let conditions = status(cluster).await.conditions.unwrap();
    let condition = conditions.into_iter().find(|condition| condition.type_ == name).unwrap();
    (condition.status, condition.reason.unwrap_or_default())
}

fn is(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

/// What a kubelet has told of a pod, and how often.
async fn told(cluster: &TestCluster) -> Vec<(String, String, i32)> {
    let events = cluster.list::<Event>().await.into_iter();
    let mut of_kubelet: Vec<Event> =
        events.filter(|event| event.reporting_controller.as_deref() == Some("kubelet")).collect();
    of_kubelet.sort_by_key(|event| event.resource_version().unwrap().parse::<u64>().unwrap());
    of_kubelet
        .into_iter()
        .map(|event| {
            let count = event.series.map_or(1, |series| series.count);
            (event.reason.unwrap(), event.note.unwrap(), count)
        })
        .collect()
}

async fn has_told(cluster: &TestCluster, reason: &str, note: &str) -> bool {
    told(cluster).await.iter().any(|(its_reason, its_note, _)| its_reason == reason && its_note == note)
}

#[tokio::test]
async fn a_pod_is_created_then_runs_and_is_ready() {
    let cluster = server::start_embedded().await;
    cluster.script("slow", Script::default().starts_after(seconds(5)));
    pod(&cluster, "slow", json!({})).await;
    cluster.advance(seconds(1)).await;
    assert_eq!(phase(&cluster).await, "Pending");
    assert_eq!(waiting(&cluster).await, is("ContainerCreating", ""));
    let first = status(&cluster).await;
    assert!(first.host_ip.is_some() && first.start_time.is_some() && first.pod_ip.is_none());
    assert_eq!(condition(&cluster, "PodReadyToStartContainers").await, is("False", ""));
    assert_eq!(condition(&cluster, "Initialized").await, is("True", ""));
    assert_eq!(condition(&cluster, "Ready").await, is("False", "ContainersNotReady"));
    cluster.advance(seconds(5)).await;
    let after = status(&cluster).await;
    assert_eq!(after.phase.as_deref(), Some("Running"));
    assert!(after.pod_ip.is_some() && after.start_time == first.start_time);
    let container = main(&cluster).await;
    assert!(container.ready && container.started == Some(true) && container.restart_count == 0);
    assert!(container.container_id.is_some());
    let names: Vec<String> = after.conditions.unwrap().into_iter().map(|condition| condition.type_).collect();
    assert_eq!(
        names,
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
    );
    let reasons: Vec<String> = told(&cluster).await.into_iter().map(|(reason, ..)| reason).collect();
    assert_eq!(reasons, ["Pulled", "Created", "Started"]);
}

#[tokio::test]
async fn a_container_that_crashes_is_restarted_after_growing_pauses() {
    let cluster = server::start_embedded().await;
    cluster.script("crash", Script::default().exits_after(seconds(1), 3));
    pod(&cluster, "crash", json!({})).await;
    let mut pauses = Vec::new();
    for restarts in 1..=7 {
        cluster
            .eventually("it pauses", async |cluster| {
                main(cluster).await.restart_count == restarts
                    && waiting(cluster).await.0 == "CrashLoopBackOff"
            })
            .await;
        let message = waiting(&cluster).await.1;
        pauses.push(message.split(' ').nth(1).unwrap().to_owned());
        assert!(message.contains(" restarting failed container=main pod=web_default("), "{message}");
        assert_eq!(phase(&cluster).await, "Running");
        let last = main(&cluster).await.last_state.unwrap().terminated.unwrap();
        assert_eq!((last.exit_code, last.reason.as_deref()), (3, Some("Error")));
    }
    assert_eq!(pauses, ["10s", "20s", "40s", "1m20s", "2m40s", "5m0s", "5m0s"]);
    let back_offs = told(&cluster).await.into_iter().filter(|(reason, ..)| reason == "BackOff");
    assert!(back_offs.map(|(.., count)| count).sum::<i32>() >= 7);
}

#[tokio::test]
async fn what_became_of_a_pod_is_up_to_its_restart_policy() {
    for (policy, code, wanted, restarts) in [
        ("Never", 0, "Succeeded", 0),
        ("Never", 2, "Failed", 0),
        ("OnFailure", 0, "Succeeded", 0),
        ("OnFailure", 2, "Succeeded", 2),
        ("Always", 0, "Running", 2),
    ] {
        let cluster = server::start_embedded().await;
        // The third run ends well.
        cluster.simulated().decide(move |pod, _| {
            let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
            let restarts = statuses.map_or(0, |all| all[0].restart_count);
            let code = if restarts >= 2 { 0 } else { code };
            Some(Script::default().exits_after(seconds(1), code))
        });
        pod(&cluster, "job", json!({"restartPolicy": policy})).await;
        cluster
            .eventually("it has come that far", async |cluster| {
                main(cluster).await.restart_count >= restarts && phase(cluster).await == wanted
            })
            .await;
        if wanted == "Running" {
            continue;
        }
        cluster.quiet().await;
        let container = main(&cluster).await;
        assert_eq!(
            (phase(&cluster).await.as_str(), container.restart_count),
            (wanted, restarts),
            "{policy} {code}"
        );
        assert!(!container.ready && container.state.unwrap().terminated.is_some());
        let reason = if wanted == "Failed" { "PodFailed" } else { "PodCompleted" };
        assert_eq!(condition(&cluster, "Ready").await, is("False", reason));
        assert_eq!(condition(&cluster, "PodReadyToStartContainers").await.0, "False");
    }
}

#[tokio::test]
async fn an_image_that_cannot_be_pulled_is_tried_again_and_again() {
    let cluster = server::start_embedded().await;
    cluster.script("gone:1", Script::default().cannot_be_pulled("not found"));
    pod(&cluster, "gone:1", json!({})).await;
    cluster
        .eventually("the pull fails", async |cluster| {
            waiting(cluster).await == is("ErrImagePull", "not found")
        })
        .await;
    assert!(status(&cluster).await.pod_ip.is_some());
    let pause = is("ImagePullBackOff", "Back-off pulling image \"gone:1\": ErrImagePull: not found");
    cluster.eventually("it pauses", async |cluster| waiting(cluster).await == pause).await;
    let expected = [
        ("Pulling", "Pulling image \"gone:1\""),
        ("Failed", "Failed to pull image \"gone:1\": not found"),
        ("Failed", "Error: ErrImagePull"),
        ("BackOff", "Back-off pulling image \"gone:1\""),
        ("Failed", "Error: ImagePullBackOff"),
    ];
    let all: Vec<_> = told(&cluster).await;
    let all: Vec<(&str, &str)> =
        all.iter().map(|(reason, note, _)| (reason.as_str(), note.as_str())).collect();
    assert_eq!(all, expected);
    cluster.advance(seconds(9)).await;
    assert_eq!(waiting(&cluster).await.0, "ErrImagePull", "it was tried again after ten seconds");
    cluster.advance(seconds(15)).await;
    assert_eq!(waiting(&cluster).await.0, "ImagePullBackOff", "now the pause is longer");
    assert_eq!(phase(&cluster).await, "Pending");
    cluster.script("gone:1", Script::default());
    cluster.eventually("it runs", async |cluster| phase(cluster).await == "Running").await;
}

#[tokio::test]
async fn init_containers_run_one_after_another_and_may_fail() {
    let cluster = server::start_embedded().await;
    cluster.script("first", Script::default().exits_after(seconds(5), 0));
    cluster.script("second", Script::default().exits_after(seconds(5), 1));
    let init = json!([{"name": "first", "image": "first"}, {"name": "second", "image": "second"}]);
    pod(&cluster, "web", json!({"initContainers": init})).await;
    cluster.advance(seconds(2)).await;
    assert_eq!(waiting(&cluster).await.0, "PodInitializing");
    assert_eq!(condition(&cluster, "Initialized").await, is("False", "ContainersNotInitialized"));
    let init = async |cluster: &TestCluster| status(cluster).await.init_container_statuses.unwrap();
    assert!(init(&cluster).await[0].state.as_ref().unwrap().running.is_some());
    assert!(init(&cluster).await[1].state.as_ref().unwrap().waiting.is_some());
    cluster.advance(seconds(5)).await;
    assert!(init(&cluster).await[0].ready, "it is done");
    cluster.advance(seconds(6)).await;
    assert_eq!(init(&cluster).await[1].restart_count, 1);
    assert_eq!(phase(&cluster).await, "Pending");
    cluster.script("second", Script::default().exits_after(seconds(5), 0));
    cluster.eventually("it runs", async |cluster| phase(cluster).await == "Running").await;
    assert_eq!(condition(&cluster, "Initialized").await, is("True", ""));
}

#[tokio::test]
async fn a_sidecar_starts_first_and_ends_last() {
    let cluster = server::start_embedded().await;
    cluster.script("proxy", Script::default().starts_after(seconds(3)).stops_after(seconds(4)));
    cluster.script("job", Script::default().exits_after(seconds(10), 0));
    let init = json!([{"name": "proxy", "image": "proxy", "restartPolicy": "Always"}]);
    pod(&cluster, "job", json!({"restartPolicy": "Never", "initContainers": init})).await;
    cluster.advance(seconds(2)).await;
    assert_eq!(waiting(&cluster).await.0, "PodInitializing");
    cluster.advance(seconds(3)).await;
    assert_eq!(condition(&cluster, "Ready").await, is("True", ""));
    cluster
        .eventually("the job is done", async |cluster| {
            main(cluster).await.state.is_some_and(|state| state.terminated.is_some())
        })
        .await;
    assert_eq!(phase(&cluster).await, "Running", "the sidecar has not ended yet");
    cluster.eventually("all is done", async |cluster| phase(cluster).await == "Succeeded").await;
    let proxy = status(&cluster).await.init_container_statuses.unwrap().remove(0);
    assert!(proxy.state.unwrap().terminated.is_some());
    assert!(has_told(&cluster, "Killing", "Stopping container proxy").await);
}

#[tokio::test]
async fn a_sidecar_that_crashes_does_not_take_the_others_along() {
    let cluster = server::start_embedded().await;
    cluster.script("proxy", Script::default().exits_after(seconds(5), 1));
    let init = json!([{"name": "proxy", "image": "proxy", "restartPolicy": "Always"}]);
    pod(&cluster, "web", json!({"initContainers": init})).await;
    cluster
        .eventually("the sidecar pauses", async |cluster| {
            let proxy = status(cluster).await.init_container_statuses.unwrap_or_default().pop();
            proxy.is_some_and(|proxy| {
                proxy.restart_count == 1
                    && proxy.state.unwrap().waiting.is_some_and(|waiting| waiting.message.is_some())
            })
        })
        .await;
    assert_eq!(phase(&cluster).await, "Running");
    assert!(main(&cluster).await.ready);
    assert_eq!(condition(&cluster, "Initialized").await, is("True", ""));
    assert_eq!(condition(&cluster, "Ready").await, is("False", "ContainersNotReady"));
}

#[tokio::test]
async fn readiness_is_probed() {
    let cluster = server::start_embedded().await;
    cluster.script("flaky", Script::default().ready_after(seconds(20)).unready_after(seconds(40)));
    let probe = json!({"httpGet": {"port": 80}, "initialDelaySeconds": 5});
    let container = json!([{"name": "main", "image": "flaky", "readinessProbe": probe}]);
    pod(&cluster, "flaky", json!({"containers": container})).await;
    let note = "Readiness probe failed: the simulation says so";
    cluster.advance(seconds(4)).await;
    assert!(!has_told(&cluster, "Unhealthy", note).await, "it was not asked yet");
    cluster.advance(seconds(4)).await;
    assert!(has_told(&cluster, "Unhealthy", note).await);
    assert_eq!(phase(&cluster).await, "Running");
    assert_eq!(condition(&cluster, "Ready").await, is("False", "ContainersNotReady"));
    cluster.advance(seconds(20)).await;
    assert_eq!(condition(&cluster, "Ready").await, is("True", ""));
    cluster.advance(seconds(20)).await;
    assert_eq!(condition(&cluster, "Ready").await, is("False", "ContainersNotReady"));
    assert_eq!(main(&cluster).await.restart_count, 0);
}

#[tokio::test]
async fn a_container_is_ready_when_its_probe_may_ask_for_the_first_time() {
    let cluster = server::start_embedded().await;
    let probe = json!({"httpGet": {"port": 80}, "initialDelaySeconds": 30});
    let container = json!([{"name": "main", "image": "web", "readinessProbe": probe}]);
    pod(&cluster, "web", json!({"containers": container})).await;
    cluster.advance(seconds(29)).await;
    assert!(!main(&cluster).await.ready);
    cluster.advance(seconds(2)).await;
    assert!(main(&cluster).await.ready);
}

#[tokio::test]
async fn readiness_gates_are_waited_for() {
    let cluster = server::start_embedded().await;
    pod(&cluster, "web", json!({"readinessGates": [{"conditionType": "example.com/balanced"}]})).await;
    cluster.quiet().await;
    assert_eq!(condition(&cluster, "ContainersReady").await, is("True", ""));
    assert_eq!(condition(&cluster, "Ready").await, is("False", "ReadinessGatesNotReady"));
    let open = json!({"type": "example.com/balanced", "status": "True"});
    cluster.patch_status::<Pod>("web", json!({"conditions": [open]})).await;
    cluster.quiet().await;
    assert_eq!(condition(&cluster, "Ready").await, is("True", ""));
    assert_eq!(condition(&cluster, "example.com/balanced").await, is("True", ""));
}

#[tokio::test]
async fn a_container_that_is_not_alive_is_killed_and_restarted() {
    let cluster = server::start_embedded().await;
    cluster.script("hangs", Script::default().liveness_fails_after(seconds(10)).only(1));
    pod(&cluster, "hangs", json!({})).await;
    cluster.eventually("it is restarted", async |cluster| main(cluster).await.restart_count == 1).await;
    cluster.quiet().await;
    assert!(main(&cluster).await.ready);
    assert!(has_told(&cluster, "Unhealthy", "Liveness probe failed: the simulation says so").await);
    assert!(has_told(&cluster, "Killing", "Container main failed liveness probe, will be restarted").await);
    cluster.advance(seconds(3600)).await;
    assert_eq!(main(&cluster).await.restart_count, 1);
}

#[tokio::test]
async fn a_pod_that_is_deleted_may_take_its_time_but_not_more() {
    let cluster = server::start_embedded().await;
    cluster.script("polite", Script::default().stops_after(seconds(5)));
    cluster.script("stubborn", Script::default().stops_after(seconds(500)));
    for (image, left, gone) in [("polite", 4, 6), ("stubborn", 28, 31)] {
        pod(&cluster, image, json!({})).await;
        cluster.eventually("it runs", async |cluster| phase(cluster).await == "Running").await;
        cluster.delete::<Pod>("web").await;
        cluster.advance(seconds(left)).await;
        assert!(has_told(&cluster, "Killing", "Stopping container main").await);
        assert_eq!(condition(&cluster, "Ready").await, is("False", "ContainersNotReady"));
        assert!(main(&cluster).await.state.unwrap().running.is_some());
        cluster.advance(seconds(gone - left)).await;
        assert!(cluster.find::<Pod>("web").await.is_none(), "{image}");
    }
}

#[tokio::test]
async fn a_pod_that_has_not_run_goes_at_once() {
    let cluster = server::start_embedded().await;
    cluster.script("slow", Script::default().starts_after(seconds(600)));
    cluster.script("gone", Script::default().cannot_be_pulled("not found"));
    for image in ["slow", "gone"] {
        pod(&cluster, image, json!({})).await;
        cluster.advance(seconds(1)).await;
        cluster.delete::<Pod>("web").await;
        cluster.advance(seconds(1)).await;
        assert!(cluster.find::<Pod>("web").await.is_none(), "{image}");
    }
    assert!(!has_told(&cluster, "Killing", "Stopping container main").await);
}

#[tokio::test]
async fn a_pod_that_is_active_for_too_long_fails() {
    let cluster = server::start_embedded().await;
    cluster.script("web", Script::default().stops_after(seconds(3)));
    pod(&cluster, "web", json!({"activeDeadlineSeconds": 60})).await;
    cluster.advance(seconds(58)).await;
    assert_eq!(phase(&cluster).await, "Running");
    cluster.advance(seconds(3)).await;
    let failed = status(&cluster).await;
    assert_eq!(
        (failed.phase.as_deref(), failed.reason.as_deref()),
        (Some("Failed"), Some("DeadlineExceeded"))
    );
    assert_eq!(
        failed.message.as_deref(),
        Some("Pod was active on the node longer than the specified deadline")
    );
    assert!(main(&cluster).await.state.unwrap().running.is_some(), "it is still being stopped");
    cluster.quiet().await;
    assert!(main(&cluster).await.state.unwrap().terminated.is_some());
    assert!(has_told(&cluster, "Killing", "Stopping container main").await);
    assert!(has_told(&cluster, "DeadlineExceeded", failed.message.as_deref().unwrap()).await);
}

#[tokio::test]
async fn annotations_tell_what_becomes_of_a_pod() {
    let cluster = server::start_embedded().await;
    cluster
        .apply(
            "
            apiVersion: v1
            kind: Pod
            metadata:
              name: web
              annotations:
                simulated.kubewright.dev/runs-for: 5s
                simulated.kubewright.dev/exit-code: '7'
                simulated.kubewright.dev/fails-times: '2'
            spec: {containers: [{name: main, image: nginx}]}
        ",
        )
        .await;
    cluster.advance(seconds(3600)).await;
    let container = main(&cluster).await;
    assert_eq!((container.restart_count, container.ready), (2, true));
    assert_eq!(container.last_state.unwrap().terminated.unwrap().exit_code, 7);
}

#[tokio::test]
async fn pods_go_on_after_a_restart_of_the_cluster() {
    let cluster = server::start_embedded().await;
    cluster.script("crash", Script::default().exits_after(seconds(1), 1));
    cluster.script("slow", Script::default().starts_after(seconds(60)));
    let container = async |cluster: &TestCluster, name: &str| {
        cluster.get::<Pod>(name).await.status.unwrap().container_statuses.unwrap().remove(0)
    };
    for (name, image) in [("web", "nginx"), ("crash", "crash"), ("slow", "slow"), ("leaving", "nginx")] {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"containers": [{"name": "main", "image": image}]},
        });
        cluster.apply(&pod.to_string()).await;
    }
    cluster.advance(seconds(50)).await;
    let before = container(&cluster, "web").await;
    assert_eq!(container(&cluster, "crash").await.restart_count, 3);
    cluster.simulated().script("nginx", Script::default().stops_after(seconds(20)));
    cluster.delete::<Pod>("leaving").await;
    cluster.advance(seconds(1)).await;
    let cluster = cluster.restarted().await;
    cluster.advance(seconds(1)).await;
    assert_eq!(container(&cluster, "web").await, before);
    let crash = container(&cluster, "crash").await;
    assert_eq!(crash.restart_count, 3);
    let message = crash.state.unwrap().waiting.unwrap().message.unwrap();
    assert!(message.starts_with("back-off 40s restarting failed container=main"), "{message}");
    cluster.advance(seconds(40)).await;
    assert!(cluster.find::<Pod>("leaving").await.is_none());
    cluster
        .eventually("it crashes again", async |cluster| container(cluster, "crash").await.restart_count == 4)
        .await;
    cluster.eventually("the slow one runs", async |cluster| container(cluster, "slow").await.ready).await;
}
