//! Where the pods behind services are reached.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::{
    core::v1::{Endpoints, Node, Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::ResourceExt as _;
use kubewright_cluster::{TestCluster, nodes::Script};
use serde_json::{Value, json};

use crate::server;

const SERVICE: &str = "
    apiVersion: v1
    kind: Service
    metadata: {name: web, labels: {team: shop}}
    spec:
      selector: {app: web}
      ports:
      - {name: http, port: 80, targetPort: page}
      - {name: metrics, port: 9090}
";

async fn pod(cluster: &TestCluster, name: &str, change: Value) {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [
            {"name": "web", "image": "nginx", "ports": [{"name": "page", "containerPort": 8080}]},
        ]},
    });
    for (field, value) in change.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    cluster.apply(&pod.to_string()).await;
}

async fn slices(cluster: &TestCluster) -> Vec<EndpointSlice> {
    cluster
        .list::<EndpointSlice>()
        .await
        .into_iter()
        .filter(|slice| slice.name_any() != "kubernetes")
        .collect()
}

/// The only slice of the only service, as JSON without what changes with every run.
async fn slice(cluster: &TestCluster) -> Value {
    let mut slices = slices(cluster).await;
    assert_eq!(slices.len(), 1, "{slices:?}");
    serde_json::to_value(slices.remove(0)).unwrap()
}

/// Which pods are in the slice, and whether they are ready, serving and terminating.
async fn conditions(cluster: &TestCluster) -> Vec<(String, [bool; 3])> {
    let slice = slice(cluster).await;
    let endpoints = slice["endpoints"].as_array().cloned().unwrap_or_default();
    let mut all: Vec<_> = endpoints
        .iter()
        .map(|endpoint| {
            let name = endpoint["targetRef"]["name"].as_str().unwrap().to_owned();
            let conditions = ["ready", "serving", "terminating"];
            (name, conditions.map(|name| endpoint["conditions"][name].as_bool().unwrap()))
        })
        .collect();
    all.sort();
    all
}

#[tokio::test]
async fn the_pods_of_a_service_are_in_its_slice_and_in_its_endpoints() {
    let cluster = server::start().await;
    cluster.apply(SERVICE).await;
    pod(&cluster, "one", json!({})).await;
    cluster.quiet().await;
    let found = cluster.get::<Pod>("one").await;
    let (address, node) = (found.status.unwrap().pod_ip.unwrap(), found.spec.unwrap().node_name);
    let uid = found.metadata.uid.unwrap();
    let slice = slice(&cluster).await;
    let meta = &slice["metadata"];
    assert!(meta["name"].as_str().unwrap().starts_with("web-"));
    assert_eq!(meta["ownerReferences"][0]["name"], "web");
    assert_eq!(
        meta["labels"],
        json!({
            "team": "shop", "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        })
    );
    assert_eq!(slice["addressType"], "IPv4");
    let target = json!({"kind": "Pod", "namespace": cluster.namespace(), "name": "one", "uid": uid});
    assert_eq!(
        slice["endpoints"],
        json!([{
            "addresses": [address], "nodeName": node, "targetRef": target,
            "conditions": {"ready": true, "serving": true, "terminating": false},
        }])
    );
    assert_eq!(
        slice["ports"],
        json!([
            {"name": "http", "port": 8080, "protocol": "TCP"},
            {"name": "metrics", "port": 9090, "protocol": "TCP"},
        ])
    );
    let endpoints = serde_json::to_value(cluster.get::<Endpoints>("web").await).unwrap();
    assert_eq!(endpoints["metadata"]["labels"]["endpoints.kubernetes.io/managed-by"], "endpoint-controller");
    assert_eq!(
        endpoints["subsets"],
        json!([{
            "addresses": [{"ip": address, "nodeName": node, "targetRef": target}],
            "ports": [
                {"name": "http", "port": 8080, "protocol": "TCP"},
                {"name": "metrics", "port": 9090, "protocol": "TCP"},
            ],
        }])
    );
}

#[tokio::test]
async fn an_endpoint_says_whether_its_pod_is_ready_and_whether_it_goes() {
    let cluster = server::start().await;
    let slow = Script::default().ready_after(Duration::from_secs(60)).stops_after(Duration::from_secs(20));
    cluster.script("nginx", slow);
    cluster.apply(SERVICE).await;
    pod(&cluster, "one", json!({})).await;
    cluster.advance(Duration::from_secs(30)).await;
    assert_eq!(conditions(&cluster).await, [("one".to_owned(), [false, false, false])]);
    let endpoints = cluster.get::<Endpoints>("web").await.subsets.unwrap();
    assert!(endpoints[0].addresses.is_none() && endpoints[0].not_ready_addresses.is_some());
    cluster.advance(Duration::from_secs(60)).await;
    assert_eq!(conditions(&cluster).await, [("one".to_owned(), [true, true, false])]);
    cluster.delete::<Pod>("one").await;
    cluster.advance(Duration::from_secs(10)).await;
    let [ready, _, terminating] = conditions(&cluster).await[0].1;
    assert!(!ready && terminating);
    assert_eq!(cluster.get::<Endpoints>("web").await.subsets, None, "who goes is no address any more");
    cluster.advance(Duration::from_secs(30)).await;
    assert_eq!(conditions(&cluster).await, []);
}

#[tokio::test]
async fn a_service_can_publish_what_is_not_ready() {
    let cluster = server::start().await;
    cluster.script("nginx", Script::default().never_ready());
    cluster.apply(SERVICE).await;
    cluster.patch::<Service>("web", json!({"spec": {"publishNotReadyAddresses": true}})).await;
    pod(&cluster, "one", json!({})).await;
    cluster.quiet().await;
    assert_eq!(conditions(&cluster).await, [("one".to_owned(), [true, false, false])]);
    assert!(cluster.get::<Endpoints>("web").await.subsets.unwrap()[0].addresses.is_some());
}

#[tokio::test]
async fn pods_come_and_go_with_their_labels() {
    let cluster = server::start().await;
    cluster.apply(SERVICE).await;
    cluster.quiet().await;
    assert_eq!(conditions(&cluster).await, [], "a service without pods has an empty slice");
    pod(&cluster, "one", json!({})).await;
    pod(&cluster, "two", json!({})).await;
    cluster.quiet().await;
    assert_eq!(conditions(&cluster).await.len(), 2);
    cluster.patch::<Pod>("one", json!({"metadata": {"labels": {"app": "other"}}})).await;
    cluster.quiet().await;
    let names: Vec<_> = conditions(&cluster).await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["two"]);
    cluster.patch::<Service>("web", json!({"spec": {"selector": {"app": "other"}}})).await;
    cluster.quiet().await;
    let names: Vec<_> = conditions(&cluster).await.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["one"]);
}

#[tokio::test]
async fn pods_with_other_ports_are_in_a_slice_of_their_own() {
    let cluster = server::start().await;
    cluster.apply(SERVICE).await;
    pod(&cluster, "one", json!({})).await;
    let ports =
        json!([{"name": "web", "image": "nginx", "ports": [{"name": "page", "containerPort": 3000}]}]);
    pod(&cluster, "two", json!({"containers": ports})).await;
    cluster.quiet().await;
    let ports: BTreeSet<i32> =
        slices(&cluster).await.iter().map(|slice| slice.ports.as_ref().unwrap()[0].port.unwrap()).collect();
    assert_eq!(ports, [3000, 8080].into());
    let subsets = cluster.get::<Endpoints>("web").await.subsets.unwrap();
    let mut counts: Vec<_> = subsets
        .iter()
        .map(|subset| (subset.addresses.as_ref().unwrap().len(), subset.ports.as_ref().unwrap().len()))
        .collect();
    counts.sort_unstable();
    assert_eq!(counts, [(1, 1), (1, 1), (2, 1)], "a port that both have is told of once");
}

#[tokio::test]
async fn a_headless_service_names_its_pods() {
    let cluster = server::start().await;
    cluster.apply("{apiVersion: v1, kind: Service, metadata: {name: db}, spec: {clusterIP: None, selector: {app: web}}}").await;
    pod(&cluster, "one", json!({"hostname": "first", "subdomain": "db"})).await;
    cluster.quiet().await;
    let slice = slice(&cluster).await;
    assert_eq!(slice["metadata"]["labels"]["service.kubernetes.io/headless"], "");
    assert_eq!(slice["endpoints"][0]["hostname"], "first");
    let subsets = cluster.get::<Endpoints>("db").await.subsets.unwrap();
    assert_eq!(subsets[0].addresses.as_ref().unwrap()[0].hostname.as_deref(), Some("first"));
}

#[tokio::test]
async fn services_without_a_selector_or_of_another_name_are_left_alone() {
    let cluster = server::start().await;
    cluster
        .apply("{apiVersion: v1, kind: Service, metadata: {name: own}, spec: {ports: [{port: 80}]}}")
        .await;
    cluster
        .apply("{apiVersion: v1, kind: Service, metadata: {name: far}, spec: {type: ExternalName, externalName: a.example, selector: {app: web}}}")
        .await;
    pod(&cluster, "one", json!({})).await;
    cluster.quiet().await;
    assert_eq!(slices(&cluster).await, []);
    assert!(
        cluster.find::<Endpoints>("own").await.is_none() && cluster.find::<Endpoints>("far").await.is_none()
    );
}

#[tokio::test]
async fn what_tells_of_a_service_goes_with_it() {
    let cluster = server::start().await;
    cluster.apply(SERVICE).await;
    pod(&cluster, "one", json!({})).await;
    let early = "{apiVersion: v1, kind: Endpoints, metadata: {name: early}, subsets: []}";
    cluster.apply(early).await;
    cluster.quiet().await;
    cluster.delete::<Service>("web").await;
    cluster.quiet().await;
    assert_eq!(slices(&cluster).await, []);
    assert!(cluster.find::<Endpoints>("web").await.is_none());
    assert!(cluster.find::<Endpoints>("early").await.is_some(), "its service may be still to come");
}

#[tokio::test]
async fn a_pod_whose_node_is_gone_is_nowhere() {
    if server::is_left_out("it takes a node away, which others need") {
        return;
    }
    let cluster = server::start().await;
    cluster.apply(SERVICE).await;
    pod(&cluster, "one", json!({})).await;
    cluster.quiet().await;
    cluster.delete::<Node>("node-1").await;
    cluster.patch::<Service>("web", json!({"metadata": {"labels": {"look": "again"}}})).await;
    cluster.advance(Duration::from_secs(5)).await;
    assert_eq!(conditions(&cluster).await, []);
}

#[tokio::test]
async fn a_slice_has_a_hundred_endpoints_at_most() {
    let cluster = server::start_with_three_nodes().await;
    cluster
        .apply(
            "
            apiVersion: apps/v1
            kind: ReplicaSet
            metadata: {name: web}
            spec:
              replicas: 120
              selector: {matchLabels: {app: web}}
              template:
                metadata: {labels: {app: web}}
                spec: {containers: [{name: web, image: nginx, ports: [{name: page, containerPort: 80}]}]}
        ",
        )
        .await;
    cluster.quiet().await;
    cluster.apply(SERVICE).await;
    cluster.quiet().await;
    let mut counts: Vec<usize> =
        slices(&cluster).await.iter().map(|slice| slice.endpoints.as_ref().unwrap().len()).collect();
    counts.sort_unstable();
    assert_eq!(counts, [20, 100]);
}

#[tokio::test]
async fn endpoints_that_people_write_are_told_in_slices_too() {
    let cluster = server::start().await;
    cluster
        .apply("{apiVersion: v1, kind: Service, metadata: {name: own}, spec: {ports: [{port: 80}]}}")
        .await;
    let written = |address: &str| {
        let subset = json!({"addresses": [{"ip": address}], "ports": [{"port": 80, "protocol": "TCP"}]});
        json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "own"}, "subsets": [subset]})
            .to_string()
    };
    cluster.apply(&written("10.9.9.9")).await;
    cluster.quiet().await;
    let first = slice(&cluster).await;
    assert_eq!(first["endpoints"], json!([{"addresses": ["10.9.9.9"], "conditions": {"ready": true}}]));
    assert_eq!(first["metadata"]["ownerReferences"][0]["kind"], "Endpoints");
    let labels = &first["metadata"]["labels"];
    assert_eq!(labels["kubernetes.io/service-name"], "own");
    assert_eq!(labels["endpointslice.kubernetes.io/managed-by"], "endpointslicemirroring-controller.k8s.io");
    cluster.apply(&written("10.9.9.8")).await;
    cluster.quiet().await;
    let second = slice(&cluster).await;
    assert_eq!(second["endpoints"][0]["addresses"], json!(["10.9.9.8"]));
    assert_eq!(second["metadata"]["uid"], first["metadata"]["uid"]);
    cluster
        .patch::<Endpoints>(
            "own",
            json!({"metadata": {"labels": {
                "endpointslice.kubernetes.io/skip-mirror": "true",
            }}}),
        )
        .await;
    cluster.quiet().await;
    assert_eq!(slices(&cluster).await, []);
}

#[tokio::test]
async fn the_service_of_the_server_itself_leads_somewhere_and_is_not_mirrored() {
    if server::is_left_out("another server has other addresses") {
        return;
    }
    let cluster = server::start_embedded().await;
    cluster.quiet().await;
    let endpoints = serde_json::to_value(cluster.get::<Endpoints>("kubernetes").await).unwrap();
    let slices = serde_json::to_value(cluster.list::<EndpointSlice>().await).unwrap();
    assert_eq!(slices.as_array().unwrap().len(), 1, "{slices}");
    assert_eq!(slices[0]["metadata"]["labels"], json!({"kubernetes.io/service-name": "kubernetes"}));
    assert_eq!(endpoints["subsets"][0]["addresses"][0]["ip"], slices[0]["endpoints"][0]["addresses"][0]);
    assert_eq!(endpoints["subsets"][0]["ports"], slices[0]["ports"]);
}
