//! Writes that are not applied: generated names, patches, replacements.

use futures_util::FutureExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kubewright::{Context, Controller, Next, Result, Seen};
use serde_json::json;

use crate::support::{Log, Site, World, doing, map, only, site, value};

/// A config map whose name is generated.
fn numbered(value: &str) -> ConfigMap {
    let mut map = map("", value);
    map.metadata.name = None;
    map.metadata.generate_name = Some("child-".to_owned());
    map
}

async fn write(cx: &Context<Site>, log: &Log) -> Result<()> {
    let values = || -> Result<Vec<String>> {
        let mut values: Vec<String> =
            cx.children::<ConfigMap>()?.iter().map(|child| value(child).to_owned()).collect();
        values.sort();
        Ok(values)
    };
    let first: Seen<ConfigMap> = cx.create(numbered("a")).await?;
    cx.create(numbered("b")).await?;
    log.add(format!("created {:?}", values()?));
    let changed = cx.patch(&first, json!({"data": {"value": "c"}})).await?;
    log.add(format!("patched {:?}", values()?));
    let replaced = |from: &ConfigMap, value: &str| {
        let data = Some([("value".to_owned(), value.to_owned())].into());
        ConfigMap { data, ..from.clone() }
    };
    let stale = cx.replace(replaced(&first, "never")).await.unwrap_err();
    log.add(format!("stale {}", stale.to_string().contains("the object has been modified")));
    let last = cx.replace(replaced(&changed, "d")).await?;
    log.add(format!("replaced {:?}", values()?));
    cx.delete(&last).await?;
    let mut another = map(&last.name_any(), "another");
    another.metadata.namespace = Some(cx.namespace().to_owned());
    cx.create_free(another).await?;
    let gone = cx.patch(&last, json!({"data": {"value": "never"}})).await;
    log.add(format!("gone {}", gone.is_err()));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_is_created_patched_and_replaced_is_seen_at_once_and_nothing_else_is_touched() {
    let world = World::new().await;
    let log = Log::default();
    let entries = log.clone();
    let controller = Controller::of::<Site>().owns::<ConfigMap>().run(doing(move |_, cx| {
        let log = entries.clone();
        async move {
            if log.0.lock().is_empty() {
                write(cx, &log).await?;
            }
            Ok(Next::on_change())
        }
        .boxed()
    }));
    let mut running = only(controller).start(world.recorded(), world.options());
    running.working().await.unwrap();
    world.create(&site("shop")).await;
    world.rest().await;
    assert_eq!(
        log.take(),
        [
            r#"created ["a", "b"]"#,
            r#"patched ["b", "c"]"#,
            "stale true",
            r#"replaced ["b", "d"]"#,
            "gone true",
        ]
    );
    let maps = world.api::<ConfigMap>().list(&Default::default()).await.unwrap();
    let mut left: Vec<(&str, usize)> = maps
        .iter()
        .filter(|map| map.data.as_ref().is_some_and(|data| data.contains_key("value")))
        .map(|map| (value(map), map.owner_references().len()))
        .collect();
    left.sort_unstable();
    assert_eq!(left, [("another", 0), ("b", 1)]);
}

#[tokio::test(start_paused = true)]
async fn the_status_of_one_is_not_written_onto_another_of_its_name() {
    let world = World::new().await;
    let (log, sites, line) = (Log::default(), world.api::<Site>(), world.line.clone());
    let told = log.clone();
    let controller = Controller::of::<Site>().run(doing(move |_, cx| {
        let (sites, line, log) = (sites.clone(), line.clone(), told.clone());
        async move {
            if log.take().is_empty() {
                // Another takes its place, and no watch tells of that.
                line.hold();
                sites.delete("shop", &Default::default()).await?;
                sites.create(&Default::default(), &site("shop")).await?;
                let seen = cx.object();
                let wrote = cx.patch_status(&seen, json!({"published": true})).await;
                log.add(format!("{}", wrote.is_err_and(|why| why.to_string().contains("modified"))));
            }
            Ok(Next::on_change())
        }
        .boxed()
    }));
    let _running = only(controller).start(world.recorded(), world.options());
    world.create(&site("shop")).await;
    world.rest().await;
    assert_eq!(log.take(), ["true"]);
    assert_eq!(world.api::<Site>().get("shop").await.unwrap().status, None);
}
