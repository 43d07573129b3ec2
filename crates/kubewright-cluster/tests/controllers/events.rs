//! What was told of an object.

use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt as _;
use kubewright_cluster::TestCluster;

/// The events of an object, as `reason: note`, in the order in which they happened.
pub async fn events(cluster: &TestCluster, kind: &str, name: &str) -> Vec<String> {
    let mut all = cluster.list::<Event>().await;
    // The names of those that have no time of their own say when they were made.
    all.sort_by_key(|event| (event.event_time.as_ref().map(|time| time.0), event.name_any()));
    let about = |event: &&Event| {
        let object = event.regarding.as_ref().unwrap();
        object.kind.as_deref() == Some(kind) && object.name.as_deref() == Some(name)
    };
    let text = |event: &Event| {
        format!(
            "{}: {}",
            event.reason.as_deref().unwrap_or_default(),
            event.note.as_deref().unwrap_or_default()
        )
    };
    all.iter().filter(about).map(text).collect()
}
