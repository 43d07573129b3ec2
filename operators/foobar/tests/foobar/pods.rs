//! Pods that name a `FooBar`.

use foobar_operator::{LABEL, SAMPLE, VARIABLE};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::PostParams};
use kubewright_cluster::TestCluster;
use serde_json::{Value, json};

use crate::outside::Outside;

fn pod(name: &str, foobar: Option<&str>, env: Value) -> Pod {
    let labels = foobar.map(|foobar| json!({LABEL: foobar}));
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "nginx", "env": env}]},
    }))
    .expect("it is a pod")
}

/// The variable of a pod that is created, or why it is not.
async fn told(cluster: &TestCluster, pod: &Pod) -> Result<Option<String>, String> {
    let api: Api<Pod> = Api::namespaced(cluster.client(), cluster.namespace());
    match api.create(&PostParams::default(), pod).await {
        Ok(pod) => {
            let containers = pod.spec.map(|spec| spec.containers).unwrap_or_default();
            let mut variables = containers.into_iter().filter_map(|container| container.env).flatten();
            Ok(variables.find(|variable| variable.name == VARIABLE).and_then(|one| one.value))
        }
        Err(why) => Err(kubewright::Error::from(why).to_string()),
    }
}

#[tokio::test]
async fn a_pod_that_names_a_foobar_is_told_its_target() {
    let (cluster, outside) = (TestCluster::start().await, Outside::open());
    let _operator = cluster.run(outside.operator()).await;
    cluster.apply(SAMPLE).await;
    cluster.quiet().await;
    assert_eq!(
        told(&cluster, &pod("named", Some("sample"), json!([]))).await,
        Ok(Some("warehouse".to_owned()))
    );
    assert_eq!(told(&cluster, &pod("other", None, json!([]))).await, Ok(None));
    let own = json!([{"name": VARIABLE, "value": "own"}]);
    assert_eq!(told(&cluster, &pod("own", Some("sample"), own)).await, Ok(Some("own".to_owned())));
    let refused = told(&cluster, &pod("lost", Some("nobody"), json!([]))).await.unwrap_err();
    assert_eq!(
        refused,
        "admission webhook \"mutate.pods.v1.core\" denied the request: Pod \"lost\" is invalid: \
         metadata.labels[test.example.com/foobar]: Invalid value: \"nobody\": there is no FooBar of this name"
    );
}

#[tokio::test]
async fn pods_that_name_none_do_not_depend_on_the_operator() {
    let (cluster, outside) = (TestCluster::start().await, Outside::open());
    drop(cluster.run(outside.operator()).await);
    assert_eq!(told(&cluster, &pod("other", None, json!([]))).await, Ok(None));
    told(&cluster, &pod("named", Some("sample"), json!([]))).await.unwrap_err();
}
