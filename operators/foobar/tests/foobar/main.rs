//! What those see who apply a `FooBar`, and what the system outside of the cluster sees of it.

mod outside;
mod pods;
mod promises;

use std::{net::TcpListener, time::Duration};

use foobar_operator::{Entry, Failure, FooBar, Http, Record, Recorded, SAMPLE, System, operator_with};
use kube::ResourceExt as _;
use kubewright_cluster::TestCluster;
use serde_json::json;
use tokio::time::sleep;

use crate::outside::{Fault, Outside};

fn record(target: &str, type_: Option<&str>) -> Record {
    Record { target: target.to_owned(), type_: type_.map(str::to_owned) }
}

/// The id under which the system has the record of the sample.
async fn id(cluster: &TestCluster) -> String {
    cluster.get::<Entry>("sample").await.uid().unwrap_or_default()
}

async fn is_available(cluster: &TestCluster) -> bool {
    cluster.conditions::<FooBar>("sample").await.starts_with("Available=True")
}

#[tokio::test]
async fn there_is_a_record_in_the_system_and_the_status_says_so() {
    let (cluster, outside) = (TestCluster::start().await, Outside::open());
    let _operator = cluster.run(outside.operator()).await;
    cluster.apply(SAMPLE).await;
    cluster.quiet().await;
    let id = id(&cluster).await;
    assert_eq!(outside.records(), [(id.clone(), record("warehouse", Some("foo")))].into());
    assert_eq!(outside.asked(), [format!("PUT {id}")], "once");
    assert_eq!(
        cluster.conditions::<FooBar>("sample").await,
        "Available=True Recorded: the system has the record\n\
         Progressing=False Recorded: the system has the record\n\
         Degraded=False AsExpected: nothing is in the way"
    );
    let table = cluster.table::<FooBar>().await;
    assert!(
        table.starts_with(
            "NAME     TARGET      TYPE   AVAILABLE   AGE\nsample   warehouse   foo    True        "
        ),
        "{table}"
    );
}

#[tokio::test]
async fn a_changed_specification_flows_through() {
    let (cluster, outside) = (TestCluster::start().await, Outside::open());
    let _operator = cluster.run(outside.operator()).await;
    for (generation, spec, expected) in [
        (1, json!({"target": "warehouse", "type": "foo"}), record("warehouse", Some("foo"))),
        (2, json!({"target": "warehouse", "type": "bar"}), record("warehouse", Some("bar"))),
        (3, json!({"target": "shop", "type": "bar"}), record("shop", Some("bar"))),
        (4, json!({"target": "shop"}), record("shop", None)),
    ] {
        cluster.apply_spec::<FooBar>("sample", spec).await;
        cluster.quiet().await;
        assert_eq!(outside.records(), [(id(&cluster).await, expected)].into());
        let status = cluster.status::<FooBar>("sample").await;
        assert_eq!(status.observed_generation, Some(generation));
        assert!(status.conditions.iter().all(|one| one.observed_generation == Some(generation)));
        assert!(is_available(&cluster).await);
    }
}

/// A system that takes a minute for everything.
struct Slow(Recorded);

impl System for Slow {
    async fn put(&self, id: &str, record: &Record) -> Result<(), Failure> {
        sleep(Duration::from_secs(60)).await;
        self.0.put(id, record).await
    }

    async fn delete(&self, id: &str) -> Result<(), Failure> {
        sleep(Duration::from_secs(60)).await;
        self.0.delete(id).await
    }
}

#[tokio::test]
async fn the_conditions_tell_how_far_it_is() {
    let cluster = TestCluster::start().await;
    let _operator = cluster.run(operator_with(Slow(Recorded::default()))).await;
    for type_ in ["foo", "bar"] {
        cluster.apply_spec::<FooBar>("sample", json!({"target": "warehouse", "type": type_})).await;
        cluster.advance(Duration::from_secs(30)).await;
        assert_eq!(
            cluster.conditions::<FooBar>("sample").await,
            "Available=False Asking: the system has not answered yet\n\
             Progressing=True Asking: the system has not answered yet\n\
             Degraded=False AsExpected: nothing is in the way"
        );
        cluster.advance(Duration::from_secs(60)).await;
        assert!(is_available(&cluster).await);
    }
    cluster.delete::<FooBar>("sample").await;
    cluster.advance(Duration::from_secs(30)).await;
    assert!(!is_available(&cluster).await);
    cluster.advance(Duration::from_secs(60)).await;
    assert!(cluster.find::<FooBar>("sample").await.is_none());
}

#[tokio::test]
async fn what_is_changed_behind_its_back_is_put_right() {
    if TestCluster::is_left_out("ten minutes pass") {
        return;
    }
    let (cluster, outside) = (TestCluster::start().await, Outside::open());
    let _operator = cluster.run(outside.operator()).await;
    cluster.apply(SAMPLE).await;
    cluster.quiet().await;
    let expected = [(id(&cluster).await, record("warehouse", Some("foo")))].into();
    cluster.patch::<Entry>("sample", json!({"spec": {"record": {"target": "elsewhere"}}})).await;
    cluster.quiet().await;
    assert_eq!(outside.records(), expected, "inside");
    outside.loses(&id(&cluster).await).await;
    cluster.advance(Duration::from_secs(10 * 60)).await;
    assert_eq!(outside.records(), expected, "outside");
}

#[tokio::test]
async fn a_deleted_resource_takes_its_record_along() {
    let (cluster, outside) = (TestCluster::start().await, Outside::open());
    let _operator = cluster.run(outside.operator()).await;
    cluster.apply(SAMPLE).await;
    cluster.quiet().await;
    cluster.delete::<FooBar>("sample").await;
    cluster.quiet().await;
    assert_eq!(outside.records(), [].into());
    assert!(cluster.find::<FooBar>("sample").await.is_none() && cluster.list::<Entry>().await.is_empty());
}

#[tokio::test]
async fn a_deleted_resource_stays_until_its_record_is_gone() {
    let (cluster, outside) = (TestCluster::start().await, Outside::open());
    let _operator = cluster.run(outside.operator()).await;
    cluster.apply(SAMPLE).await;
    cluster.quiet().await;
    outside.fails(Some(Fault::Down));
    cluster.delete::<FooBar>("sample").await;
    cluster.advance(Duration::from_secs(60)).await;
    let told = cluster.conditions::<FooBar>("sample").await;
    assert!(told.contains("Degraded=True SystemUnavailable: DELETE http://"), "{told}");
    outside.fails(None);
    let is_gone = async |cluster: &TestCluster| cluster.find::<FooBar>("sample").await.is_none();
    cluster.eventually("the resource is gone", is_gone).await;
    assert_eq!(outside.records(), [].into());
}

#[tokio::test]
async fn a_system_that_fails_is_asked_again_less_and_less_often() {
    let (cluster, outside) = (TestCluster::start().await, Outside::open());
    outside.fails(Some(Fault::Down));
    let _operator = cluster.run(outside.operator()).await;
    cluster.apply(SAMPLE).await;
    cluster.advance(Duration::from_secs(60)).await;
    let told = cluster.conditions::<FooBar>("sample").await;
    let why = "503 Service Unavailable: come back later";
    for condition in ["Available=False", "Progressing=True", "Degraded=True"] {
        let line =
            told.lines().find(|line| line.starts_with(&format!("{condition} SystemUnavailable: PUT ")));
        assert!(line.is_some_and(|line| line.ends_with(why)), "{told}");
    }
    let first = outside.asked().len();
    assert!((5..50).contains(&first), "{first}");
    cluster.advance(Duration::from_secs(60)).await;
    assert!(outside.asked().len() < first);
    outside.fails(None);
    cluster.eventually("the record is there", is_available).await;
}

#[tokio::test]
async fn a_system_that_is_not_there_is_told_until_it_is() {
    let (cluster, mut outside) = (TestCluster::start().await, Outside::closed());
    let _operator = cluster.run(outside.operator()).await;
    cluster.apply(SAMPLE).await;
    cluster.quiet().await;
    let told = cluster.conditions::<FooBar>("sample").await;
    assert!(
        told.contains("Degraded=True SystemUnavailable") && told.contains("Connection refused"),
        "{told}"
    );
    outside.opens();
    cluster.eventually("the record is there", is_available).await;
}

#[tokio::test]
async fn what_the_system_refuses_is_told_and_not_asked_for_again_until_it_changes() {
    if TestCluster::is_left_out("an hour passes") {
        return;
    }
    let (cluster, outside) = (TestCluster::start().await, Outside::open());
    let _operator = cluster.run(outside.operator()).await;
    cluster.apply_spec::<FooBar>("sample", json!({"target": "warehouse", "type": "baz"})).await;
    cluster.advance(Duration::from_secs(60 * 60)).await;
    assert_eq!(outside.asked(), [format!("PUT {}", id(&cluster).await)]);
    let told = cluster.conditions::<FooBar>("sample").await;
    let why = "422 Unprocessable Entity: the type must be foo or bar";
    for condition in ["Available=False", "Progressing=False", "Degraded=True"] {
        let line = told.lines().find(|line| line.starts_with(&format!("{condition} SystemRefuses: PUT ")));
        assert!(line.is_some_and(|line| line.ends_with(why)), "{told}");
    }
    cluster.apply_spec::<FooBar>("sample", json!({"target": "warehouse", "type": "bar"})).await;
    cluster.eventually("the record is there", is_available).await;
}

#[tokio::test]
async fn a_call_of_which_nobody_heard_is_made_again_without_harm() {
    let (cluster, outside) = (TestCluster::start().await, Outside::open());
    outside.fails(Some(Fault::Forgetful));
    let operator = cluster.run(outside.operator()).await;
    cluster.apply(SAMPLE).await;
    cluster.eventually("the record is there", async |_| !outside.records().is_empty()).await;
    drop(operator);
    outside.fails(None);
    let _operator = cluster.run(outside.operator()).await;
    cluster.eventually("the resource is available", is_available).await;
    assert_eq!(outside.records().len(), 1, "and no other");
    outside.fails(Some(Fault::Forgetful));
    cluster.delete::<FooBar>("sample").await;
    cluster.eventually("the record is gone", async |_| outside.records().is_empty()).await;
    outside.fails(None);
    let is_gone = async |cluster: &TestCluster| cluster.find::<FooBar>("sample").await.is_none();
    cluster.eventually("the resource is gone, too", is_gone).await;
}

#[tokio::test(start_paused = true)]
async fn a_system_that_does_not_answer_is_not_waited_for() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let system = Http::new(&format!("http://{}", silent.local_addr().unwrap()));
    let Err(Failure::Unavailable(why)) = system.put("1", &record("warehouse", None)).await else {
        panic!("there was no answer");
    };
    assert!(why.ends_with("no answer within 10s"), "{why}");
}

#[tokio::test]
async fn the_operator_can_be_tried_out_without_a_system() {
    let (cluster, records) = (TestCluster::start().await, Recorded::default());
    let _operator = cluster.run(operator_with(records.clone())).await;
    cluster.apply(SAMPLE).await;
    cluster.quiet().await;
    assert_eq!(records.records(), [(id(&cluster).await, record("warehouse", Some("foo")))].into());
    cluster.delete::<FooBar>("sample").await;
    cluster.quiet().await;
    assert_eq!(records.records(), [].into());
}

#[tokio::test]
async fn what_can_not_be_is_refused_by_name() {
    let cluster = TestCluster::start().await;
    let _operator = cluster.run(operator_with(Recorded::default())).await;
    for (spec, expected) in [
        (json!({}), "spec.target: Required value"),
        (json!({"target": ""}), "spec.target in body should be at least 1 chars long"),
        (json!({"target": "no name"}), "spec.target in body should match"),
        (json!({"target": 1}), "spec.target: expected string, got"),
        (json!({"target": "warehouse", "type": 1}), "spec.type: expected string, got"),
    ] {
        let refusal = cluster.refusal::<FooBar>("sample", spec).await;
        assert!(refusal.contains(expected), "{refusal}");
    }
}
