//! What an operator does besides its controllers.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kubewright::{Operator, Watch};
use serde_json::json;

use crate::support::{Log, World, map};

/// Writes down what is told of config maps until it is told that `last` has gone, and then looks what is left.
fn following(log: &Log, last: &'static str) -> Operator {
    let log = log.clone();
    Operator::new("site-operator").task("follow", move |cx| {
        let log = log.clone();
        async move {
            let (end, mut ended) = tokio::sync::watch::channel(false);
            let told = log.clone();
            let maps = cx.watch(Watch::<ConfigMap>::new().labels("follow=yes"), move |change| {
                let what = match (&change.old, &change.new) {
                    (None, Some(_)) if change.is_initial => "is there",
                    (None, Some(_)) => "is new",
                    (Some(_), Some(_)) => "has changed",
                    _ => "has gone",
                };
                let name = change.object().name_any();
                told.add(format!("{name} {what}"));
                if what == "has gone" && name == last {
                    end.send_replace(true);
                }
            });
            maps.ready().await?;
            log.add(format!("ready: {}", maps.list(None).len()));
            ended.wait_for(|ended| *ended).await.unwrap();
            log.add(format!("left: {}", maps.list(None).len()));
            Ok(())
        }
    })
}

fn followed(name: &str) -> ConfigMap {
    let mut map = map(name, "1");
    map.labels_mut().insert("follow".to_owned(), "yes".to_owned());
    map
}

#[tokio::test(start_paused = true)]
async fn a_task_is_told_of_what_it_watches_until_it_lets_go() {
    let world = World::new().await;
    let log = Log::default();
    world.create(&followed("one")).await;
    let mut running = following(&log, "one").start(world.recorded(), world.options());
    running.working().await.unwrap();
    world.rest().await;
    assert_eq!(log.take(), ["one is there", "ready: 1"]);
    assert_eq!(world.open_watches(), ["configmaps"]);

    world.create(&followed("two")).await;
    world.merge::<ConfigMap>("two", json!({"data": {"value": "2"}})).await;
    world.delete::<ConfigMap>("one").await;
    world.rest().await;
    assert_eq!(log.take(), ["two is new", "two has changed", "one has gone", "left: 1"]);
    assert_eq!(world.open_watches(), Vec::<String>::new(), "nobody wants it any more");

    world.delete::<ConfigMap>("two").await;
    world.rest().await;
    assert_eq!(log.take(), Vec::<String>::new());
}
