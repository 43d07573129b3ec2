//! What is outside of the namespace, or of the cluster, goes with nothing by itself: it is left, or the old one beside the
//! new.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::PersistentVolume;
use kubewright::{
    Verb,
    external::{External, Outside, StandIn, Unreachable},
    prelude::*,
};
use kubewright_explore::Oracle;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{Done, gadgets::is_present, is_found};
use crate::gadget::{Gadget, SAMPLE};

const FINALIZER: &str = "test.example.com/outlying";

/// Makes a volume of its own for every gadget.
struct Provides;

fn volume_name(gadget: &Gadget) -> String {
    format!("gadget-{}", gadget.uid().unwrap_or_default())
}

impl Reconciler<Gadget> for Provides {
    async fn reconcile(&self, gadget: &Gadget, cx: &Context<Gadget>) -> Result<Next> {
        let name = volume_name(gadget);
        if is_present(gadget, cx).await? && cx.live().get::<PersistentVolume>(&name).await?.is_none() {
            let spec = json!({
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "by-hand",
                "hostPath": {"path": "/data"},
            });
            let metadata = ObjectMeta { name: Some(name), ..ObjectMeta::default() };
            let spec = Some(serde_json::from_value(spec)?);
            cx.create_free(PersistentVolume { metadata, spec, ..PersistentVolume::default() }).await?;
        }
        // What belongs to nobody tells nobody that it is gone.
        Ok(Next::after(Duration::from_secs(60)))
    }
}

impl Finalizer<Gadget> for Provides {
    async fn finalize(&self, gadget: &Gadget, cx: Finalizing<Gadget>) -> Result<Finalized> {
        if let Some(volume) = cx.live().get::<PersistentVolume>(&volume_name(gadget)).await? {
            cx.delete(&volume).await?;
        }
        Ok(cx.done())
    }
}

#[test]
fn a_volume_is_left() {
    let operator = |done| {
        let controller = Controller::of::<Gadget>()
            .needs::<Gadget>(&[Verb::Get])
            .needs::<PersistentVolume>(&[Verb::Get, Verb::Create, Verb::Delete]);
        let controller = match done {
            Done::Right => controller.finalizer(FINALIZER, Provides),
            Done::Wrong => controller,
        };
        Operator::new("gadget-operator").controller(controller.run(Provides))
    };
    is_found(operator, SAMPLE, &[Oracle::Leaks]);
}

/// A zone of names, which is nowhere.
struct Zone;

/// The same on paper: names, and whose they are.
#[derive(Default)]
struct Paper(Mutex<BTreeMap<String, String>>);

enum Ask {
    Put { name: String, owner: String },
    Trim { owner: String, keeps: Option<String> },
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put { name, .. } => write!(f, "put {name}"),
            Self::Trim { .. } => f.write_str("trim"),
        }
    }
}

impl External for Zone {
    type Request = Ask;
    type Answer = ();
    type Failure = Unreachable;

    async fn ask(&self, _: &Ask) -> Result<(), Unreachable> {
        Err(Unreachable::new("it is never reached here"))
    }
}

impl External for Paper {
    type Request = Ask;
    type Answer = ();
    type Failure = Unreachable;

    async fn ask(&self, ask: &Ask) -> Result<(), Unreachable> {
        let mut records = self.0.lock();
        match ask {
            Ask::Put { name, owner } => drop(records.insert(name.clone(), owner.clone())),
            Ask::Trim { owner, keeps } => {
                records.retain(|name, of| of != owner || Some(name) == keeps.as_ref())
            }
        }
        Ok(())
    }
}

impl StandIn for Paper {
    fn keeps(&self) -> BTreeMap<String, Value> {
        self.0.lock().keys().map(|name| (name.clone(), json!("kept"))).collect()
    }
}

/// Enters gadgets under what they are called in their spec.
struct Names(Done, Outside<Zone>);

impl Reconciler<Gadget> for Names {
    fn remembers(&self) -> bool {
        false
    }

    async fn reconcile(&self, gadget: &Gadget, cx: &Context<Gadget>) -> Result<Next> {
        if !is_present(gadget, cx).await? {
            return Ok(Next::on_change());
        }
        let (name, owner) = (gadget.spec.text.clone(), gadget.uid().unwrap_or_default());
        self.1.ask(&Ask::Put { name: name.clone(), owner: owner.clone() }).await?;
        if self.0 == Done::Right {
            self.1.ask(&Ask::Trim { owner, keeps: Some(name) }).await?;
        }
        Ok(Next::on_change())
    }
}

impl Finalizer<Gadget> for Names {
    async fn finalize(&self, gadget: &Gadget, cx: Finalizing<Gadget>) -> Result<Finalized> {
        self.1.ask(&Ask::Trim { owner: gadget.uid().unwrap_or_default(), keeps: None }).await?;
        Ok(cx.done())
    }
}

#[test]
fn a_record_stays_under_its_old_name() {
    let operator = |done| {
        let zone = Outside::new("zone", Zone).rehearsed_with(Paper::default());
        let names = Arc::new(Names(done, zone.clone()));
        let controller = Controller::of::<Gadget>().needs::<Gadget>(&[Verb::Get]);
        Operator::new("gadget-operator")
            .reaches(&zone)
            .controller(controller.finalizer(FINALIZER, names.clone()).run(names))
    };
    is_found(operator, SAMPLE, &[Oracle::History]);
}
