//! The pods of an object: found by its labels, and followed.

use futures_util::FutureExt as _;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use kube::{ResourceExt as _, api::ObjectMeta};
use kubewright::{Controller, Next, workload};

use crate::support::{Log, Site, World, doing, only, site};

/// Writes down the pods of each site whenever it is reconciled.
fn follower(log: &Log) -> Controller {
    let log = log.clone();
    Controller::of::<Site>().follows_pods().run(doing(move |site, cx| {
        let names: Vec<String> = cx.pods().unwrap().iter().map(|pod| pod.name_any()).collect();
        log.add(format!("{}: {}", site.name_any(), names.join(" ")));
        async { Ok(Next::on_change()) }.boxed()
    }))
}

/// A pod of a site, or of something else with the same name.
fn pod(name: &str, site: &Site, kind: &str) -> Pod {
    let mut labels = workload::labels(site);
    labels.insert("app.kubernetes.io/name".to_owned(), kind.to_owned());
    let container =
        Container { name: "web".to_owned(), image: Some("nginx".to_owned()), ..Container::default() };
    Pod {
        metadata: ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() },
        spec: Some(PodSpec {
            containers: vec![container],
            automount_service_account_token: Some(false),
            ..PodSpec::default()
        }),
        status: None,
    }
}

#[tokio::test(start_paused = true)]
async fn pods_are_followed_however_long_the_name_of_their_object_is() {
    let world = World::new().await;
    for name in ["shop", &"x".repeat(100), "a.b"] {
        let log = Log::default();
        let running = only(follower(&log)).start(world.recorded(), world.options());
        let site = site(name);
        world.create(&site).await;
        world.rest().await;
        log.take();
        world.create(&pod("other", &site, "page")).await;
        world.rest().await;
        assert_eq!(log.take(), [""; 0], "it is another's");
        world.create(&pod("web", &site, "site")).await;
        world.rest().await;
        assert_eq!(log.take().last(), Some(&format!("{name}: web")));
        for pod in ["web", "other"] {
            world
                .api::<Pod>()
                .delete(pod, &kube::api::DeleteParams::default().grace_period(0))
                .await
                .unwrap();
        }
        world.rest().await;
        assert_eq!(log.take().last(), Some(&format!("{name}: ")));
        running.stop().await.unwrap();
        world.api::<Site>().delete(name, &Default::default()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn asking_for_pods_that_are_not_followed_says_what_to_do() {
    let world = World::new().await;
    let log = Log::default();
    let asked = log.clone();
    let _running = only(Controller::of::<Site>().run(doing(move |_, cx| {
        asked.add(cx.pods().unwrap_err().to_string());
        async { Ok(Next::on_change()) }.boxed()
    })))
    .start(world.recorded(), world.options());
    world.create(&site("shop")).await;
    world.rest().await;
    assert_eq!(log.take()[0], "the pods of a Site are not watched: declare it with .follows_pods()");
}
