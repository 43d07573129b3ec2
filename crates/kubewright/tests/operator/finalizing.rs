//! Finalizers: there before there is anything to clean up, and gone only when all is cleaned up.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kubewright::{Controller, Error, Finalized, Finalizer, Finalizing, Next, Result};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use crate::support::{Log, Site, World, doing, eventually, only, page, site};

/// What a finalizer does each time it is called.
#[derive(Clone, Copy)]
enum Step {
    Done,
    Again(Duration),
    Fail,
}

/// Takes one step after the other, and stays at the last.
struct Stepwise {
    name: &'static str,
    steps: Vec<Step>,
    taken: AtomicUsize,
    log: Log,
    last: Mutex<Option<Instant>>,
}

impl Finalizer<Site> for Stepwise {
    async fn finalize(&self, site: &Site, cx: Finalizing<Site>) -> Result<Finalized> {
        let at = self.taken.fetch_add(1, Ordering::Relaxed);
        assert!(site.metadata.deletion_timestamp.is_some());
        assert!(site.metadata.managed_fields.is_none(), "as the cache keeps it");
        self.log.add(match self.last.lock().replace(Instant::now()) {
            Some(last) => format!("{} after {} s", self.name, last.elapsed().as_secs()),
            None => self.name.to_owned(),
        });
        match self.steps[at.min(self.steps.len() - 1)] {
            Step::Done => Ok(cx.done()),
            Step::Again(pause) => Ok(cx.again_after(pause)),
            Step::Fail => Err(Error::new("not yet")),
        }
    }
}

fn stepwise(name: &'static str, steps: &[Step], log: &Log) -> Arc<Stepwise> {
    let (steps, taken, last) = (steps.to_vec(), Default::default(), Default::default());
    Arc::new(Stepwise { name, steps, taken, log: log.clone(), last })
}

fn controller(finalizers: impl IntoIterator<Item = Arc<Stepwise>>) -> Controller {
    let builder = finalizers.into_iter().fold(Controller::of::<Site>(), |builder, finalizer| {
        builder.finalizer(format!("test.kubewright.dev/{}", finalizer.name), finalizer)
    });
    builder.owns::<ConfigMap>().run(doing(|site, cx| {
        async move {
            assert!(site.metadata.managed_fields.is_none(), "as the cache keeps it");
            cx.apply(page(site)).await?;
            Ok(Next::on_change())
        }
        .boxed()
    }))
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_is_set_before_the_first_child_and_taken_off_when_it_is_done() {
    let world = World::new().await;
    let log = Log::default();
    let operator = only(controller([stepwise("storage", &[Step::Done], &log)]));
    let _running = operator.start(world.recorded(), world.options());
    world.create(&site("shop")).await;
    world.rest().await;
    assert_eq!(world.writes(), ["PATCH sites/shop", "PATCH configmaps/shop"]);
    assert_eq!(log.take(), Vec::<String>::new());
    let shop = world.api::<Site>().get("shop").await.unwrap();
    assert_eq!(shop.finalizers(), ["test.kubewright.dev/storage"]);
    world.delete::<Site>("shop").await;
    world.rest().await;
    assert_eq!(log.take().len(), 1);
    assert_eq!(world.writes(), ["PATCH sites/shop"]);
    assert!(world.api::<Site>().get_opt("shop").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_being_deleted_is_reconciled_where_that_is_asked_for() {
    let world = World::new().await;
    let log = Log::default();
    let entries = log.clone();
    let controller = Controller::of::<Site>().reconciles_deleted();
    let controller = controller.run(doing(move |site, _| {
        let is_deleted = site.metadata.deletion_timestamp.is_some();
        entries.add(format!("{} {is_deleted}", site.name_any()));
        async { Ok(Next::on_change()) }.boxed()
    }));
    let mut running = only(controller).start(world.recorded(), world.options());
    running.working().await.unwrap();
    let mut shop = site("shop");
    shop.finalizers_mut().push("someone.else/keeps".to_owned());
    world.create(&shop).await;
    world.rest().await;
    world.delete::<Site>("shop").await;
    world.rest().await;
    assert_eq!(log.take(), ["shop false", "shop true"]);
}

#[tokio::test(start_paused = true)]
async fn several_finalizers_run_in_order_and_leave_alone_what_others_have_set() {
    let world = World::new().await;
    let log = Log::default();
    let again = [Step::Again(Duration::from_secs(1)), Step::Done];
    let finalizers = [stepwise("first", &again, &log), stepwise("second", &[Step::Done], &log)];
    let _running = only(controller(finalizers)).start(world.recorded(), world.options());
    let mut shop = site("shop");
    shop.finalizers_mut().push("someone.else/keeps".to_owned());
    world.create(&shop).await;
    world.rest().await;
    world.delete::<Site>("shop").await;
    world.rest().await;
    assert_eq!(log.take(), ["first", "first after 1 s", "second"]);
    let left = world.api::<Site>().get("shop").await.unwrap();
    assert_eq!(left.finalizers(), ["someone.else/keeps"]);
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_fails_is_tried_again_and_the_object_stays() {
    let world = World::new().await;
    let log = Log::default();
    let mut steps = vec![Step::Fail; 5];
    steps.push(Step::Done);
    let failing = controller([stepwise("failing", &[Step::Fail], &log)]);
    let running = only(failing).start(world.recorded(), world.options());
    world.create(&site("shop")).await;
    world.rest().await;
    world.delete::<Site>("shop").await;
    eventually("it is tried again and again", async || log.0.lock().len() > 10).await;
    world.pass(Duration::from_secs(3600)).await;
    assert!(world.api::<Site>().get_opt("shop").await.unwrap().is_some());
    drop(running);
    log.take();
    let mended = controller([stepwise("failing", &steps, &log)]);
    let _running = only(mended).start(world.recorded(), world.options());
    world.rest().await;
    assert_eq!(log.take().len(), 6);
    assert!(world.api::<Site>().get_opt("shop").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_is_only_set_on_the_object_that_was_seen_and_as_it_was_seen() {
    let world = World::new().await;
    let is_refused = Arc::new(AtomicBool::new(true));
    let refused = is_refused.clone();
    let client = world.meddled(Arc::new(move |request| {
        request.method() == http::Method::PATCH && refused.load(Ordering::Relaxed)
    }));
    let operator = only(controller([stepwise("storage", &[Step::Done], &Log::default())]));
    let mut running = operator.start(client, world.options());
    running.working().await.unwrap();
    world.create(&site("changed")).await;
    world.create(&site("replaced")).await;
    world.rest().await;
    // The operator has seen both, and does not see what becomes of them.
    world.line.hold();
    world.merge::<Site>("changed", json!({"metadata": {"finalizers": ["someone.else/keeps"]}})).await;
    world.delete::<Site>("replaced").await;
    world.create(&site("replaced")).await;
    is_refused.store(false, Ordering::Relaxed);
    world.rest().await;
    let sites = world.api::<Site>();
    assert_eq!(sites.get("changed").await.unwrap().finalizers(), ["someone.else/keeps"]);
    assert!(sites.get("replaced").await.unwrap().finalizers().is_empty());
    world.line.open();
    world.rest().await;
    let both = ["someone.else/keeps", "test.kubewright.dev/storage"];
    assert_eq!(sites.get("changed").await.unwrap().finalizers(), both);
    assert_eq!(sites.get("replaced").await.unwrap().finalizers(), ["test.kubewright.dev/storage"]);
}
