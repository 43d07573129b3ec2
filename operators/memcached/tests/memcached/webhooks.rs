//! What is filled in and what is refused before a `Memcached` is stored.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kubewright::{Admission, condition};
use kubewright_cluster::TestCluster;
use memcached_operator::{
    Memcached, MemcachedSpec, MemcachedStatus, operator, v1alpha1,
    webhooks::{check, fill},
};
use serde_json::json;

fn memcached(replicas: i32, image: &str, conditions: Vec<Condition>) -> Memcached {
    let spec = MemcachedSpec { replicas, image: image.to_owned(), memory_megabytes: None };
    let status = Some(MemcachedStatus { conditions, ..MemcachedStatus::default() });
    Memcached { status, ..Memcached::new("sample", spec) }
}

#[test]
fn memory_is_what_memcached_takes_unless_it_is_said() {
    let mut open = memcached(1, "a", Vec::new());
    fill(&mut open, &Admission::create());
    assert_eq!(open.spec.memory_megabytes, Some(64));
    open.spec.memory_megabytes = Some(256);
    fill(&mut open, &Admission::create());
    assert_eq!(open.spec.memory_megabytes, Some(256));
}

#[test]
fn one_pod_may_go_at_a_time() {
    let refused = |from, to| {
        let old = memcached(from, "a", Vec::new());
        check(&memcached(to, "a", Vec::new()), &Admission::update(old)).reasons()
    };
    assert_eq!(refused(5, 3), ["spec.replicas: Invalid value: 3: only one pod may go at a time"]);
    assert_eq!([refused(5, 4), refused(1, 5), refused(2, 2)], [const { Vec::<String>::new() }; 3]);
    assert!(check(&memcached(1, "a", Vec::new()), &Admission::create()).is_allowed());
}

#[test]
fn the_image_stays_while_pods_are_replaced() {
    let is_taken = |progressing, degraded| {
        let told = |name, holds| condition(name, holds, "Told", "");
        let old = memcached(2, "a", vec![told("Progressing", progressing), told("Degraded", degraded)]);
        let change = |image| check(&memcached(2, image, Vec::new()), &Admission::update(old.clone()));
        assert!(change("a").is_allowed(), "it is the same");
        change("b").is_allowed()
    };
    assert!(is_taken(false, false));
    assert!(!is_taken(true, false));
    assert!(is_taken(true, true), "another image may be the remedy");
}

#[tokio::test]
async fn clients_of_every_version_are_told() {
    let cluster = TestCluster::start().await;
    let _operator = cluster.run(operator()).await;
    cluster.apply_spec::<v1alpha1::Memcached>("sample", json!({"size": 5})).await;
    assert_eq!(cluster.get::<Memcached>("sample").await.spec.memory_megabytes, Some(64));
    let refusal = cluster.refusal::<v1alpha1::Memcached>("sample", json!({"size": 2})).await;
    assert_eq!(
        refusal,
        "admission webhook \"validate.memcacheds.v1beta1.cache.example.com\" denied the request: \
         Memcached.cache.example.com \"sample\" is invalid: spec.replicas: Invalid value: 2: only one pod may go at a time"
    );
    cluster.apply_spec::<v1alpha1::Memcached>("sample", json!({"size": 4})).await;
    assert_eq!(cluster.get::<Memcached>("sample").await.spec.replicas, 4);
}
