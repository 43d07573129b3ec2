//! How long events are kept.

use std::time::Duration;

use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt as _;
use kubewright_cluster::TestCluster;
use serde_json::json;

use crate::server;

const MINUTE: Duration = Duration::from_secs(60);

async fn event(cluster: &TestCluster, name: &str) {
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": name},
        "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Normal", "reason": "Seen", "action": "See",
        "reportingController": "example.com/test", "reportingInstance": "test",
        "regarding": {"kind": "ConfigMap", "namespace": cluster.namespace(), "name": "any"},
    });
    cluster.apply(&event.to_string()).await;
}

async fn events(cluster: &TestCluster) -> Vec<String> {
    let all = cluster.list::<Event>().await;
    let ours = all.iter().filter(|event| event.reporting_controller.as_deref() == Some("example.com/test"));
    ours.map(|event| event.name_any()).collect()
}

#[tokio::test]
async fn an_event_is_kept_for_an_hour_after_it_was_last_seen() {
    if server::is_left_out("an hour of waiting") {
        return;
    }
    let cluster = server::start().await;
    event(&cluster, "once").await;
    event(&cluster, "twice").await;
    cluster.advance(30 * MINUTE).await;
    let again = json!({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:30:00.000000Z"}});
    cluster.patch::<Event>("twice", again).await;
    cluster.advance(29 * MINUTE).await;
    assert_eq!(events(&cluster).await, ["once", "twice"]);
    cluster.advance(2 * MINUTE).await;
    assert_eq!(events(&cluster).await, ["twice"]);
    cluster.advance(30 * MINUTE).await;
    assert_eq!(events(&cluster).await, Vec::<String>::new());
}
