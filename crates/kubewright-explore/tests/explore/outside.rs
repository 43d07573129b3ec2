//! Systems outside of the cluster: their calls go wrong, too, and what they keep is looked at.

use std::{collections::BTreeMap, fmt, sync::Arc};

use k8s_openapi::ByteString;
use kubewright::{
    external::{External, Outside, StandIn, Unreachable},
    prelude::*,
    workload::child_meta,
};
use kubewright_explore::{Fault, Oracle, explore};
use parking_lot::Mutex;
use serde_json::Value;

use crate::{
    bugs::{SOME, is_present},
    gadget::{Gadget, SAMPLE},
};

const FINALIZER: &str = "test.example.com/register";

/// A register of names, which is nowhere.
struct Register;

/// The same on paper.
#[derive(Default)]
struct Paper(Mutex<BTreeMap<String, Value>>);

enum Ask {
    Enter(String, String),
    /// The same, unless it is there.
    EnterNew(String, String),
    Strike(String),
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Enter(name, _) => write!(f, "enter {name}"),
            Self::EnterNew(name, _) => write!(f, "enter new {name}"),
            Self::Strike(name) => write!(f, "strike {name}"),
        }
    }
}

impl External for Register {
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
        match ask {
            Ask::Enter(name, text) => self.0.lock().insert(name.clone(), text.clone().into()),
            Ask::EnterNew(name, text) if !self.0.lock().contains_key(name) => {
                self.0.lock().insert(name.clone(), text.clone().into())
            }
            Ask::EnterNew(..) => None,
            Ask::Strike(name) => self.0.lock().remove(name),
        };
        Ok(())
    }
}

impl StandIn for Paper {
    fn keeps(&self) -> BTreeMap<String, Value> {
        self.0.lock().clone()
    }
}

/// Enters gadgets, and strikes them out again; or forgets that once it has tried.
struct Clerk {
    register: Outside<Register>,
    is_forgetful: bool,
}

impl Reconciler<Gadget> for Clerk {
    async fn reconcile(&self, gadget: &Gadget, cx: &Context<Gadget>) -> Result<Next> {
        // Nothing but the server knows whether it is still there, and nothing else would strike it out again.
        let now = cx.live().get::<Gadget>(&gadget.name_any()).await?;
        if !self.is_forgetful && now.is_none_or(|now| now.uid() != gadget.uid()) {
            return Ok(Next::on_change());
        }
        self.register.ask(&Ask::Enter(gadget.uid().unwrap_or_default(), gadget.spec.text.clone())).await?;
        Ok(Next::on_change())
    }
}

impl Finalizer<Gadget> for Clerk {
    async fn finalize(&self, gadget: &Gadget, cx: Finalizing<Gadget>) -> Result<Finalized> {
        let struck = self.register.ask(&Ask::Strike(gadget.uid().unwrap_or_default())).await;
        if !self.is_forgetful {
            struck?;
        }
        Ok(cx.done())
    }
}

fn operator(is_forgetful: bool) -> Operator {
    let register = Outside::new("register", Register).rehearsed_with(Paper::default());
    let clerk = Arc::new(Clerk { register: register.clone(), is_forgetful });
    Operator::new("clerk-operator").reaches(&register).controller(
        Controller::of::<Gadget>()
            .needs::<Gadget>(&[kubewright::Verb::Get])
            .finalizer(FINALIZER, clerk.clone())
            .run(clerk),
    )
}

/// Makes a password, and enters it.
struct Locksmith {
    register: Outside<Register>,
    /// Whether a password that is there already stays as it is.
    keeps: bool,
}

impl Reconciler<Gadget> for Locksmith {
    fn remembers(&self) -> bool {
        false
    }

    async fn reconcile(&self, gadget: &Gadget, cx: &Context<Gadget>) -> Result<Next> {
        if !is_present(gadget, cx).await? {
            return Ok(Next::after(Duration::from_secs(2)));
        }
        let uid = gadget.uid().unwrap_or_default();
        let password = match cx.live().get::<Secret>(&child_name(gadget, "")).await? {
            // That of another gadget goes with it.
            Some(secret) if secret.owner_references().iter().all(|owner| owner.uid != uid) => {
                return Ok(Next::after(Duration::from_secs(2)));
            }
            Some(secret) => secret.data.as_ref().map_or_else(Vec::new, |data| data["password"].0.clone()),
            None => {
                let password = format!("{uid}-{}", cx.clock().now()).into_bytes();
                let data = [("password".to_owned(), ByteString(password.clone()))].into();
                let metadata = child_meta(gadget, "");
                cx.create(Secret { metadata, data: Some(data), ..Secret::default() }).await?;
                password
            }
        };
        let password = String::from_utf8_lossy(&password).into_owned();
        self.register
            .ask(&if self.keeps { Ask::EnterNew(uid, password) } else { Ask::Enter(uid, password) })
            .await?;
        Ok(Next::on_change())
    }
}

impl Finalizer<Gadget> for Locksmith {
    async fn finalize(&self, gadget: &Gadget, cx: Finalizing<Gadget>) -> Result<Finalized> {
        self.register.ask(&Ask::Strike(gadget.uid().unwrap_or_default())).await?;
        Ok(cx.done())
    }
}

#[test]
fn a_password_outside_is_the_one_inside() {
    let operator = |keeps| {
        move || {
            let register = Outside::new("register", Register).rehearsed_with(Paper::default());
            let locksmith = Arc::new(Locksmith { register: register.clone(), keeps });
            let controller =
                Controller::of::<Gadget>().owns::<Secret>().needs::<Gadget>(&[kubewright::Verb::Get]);
            let controller = controller.finalizer(FINALIZER, locksmith.clone());
            Operator::new("locksmith-operator").reaches(&register).controller(controller.run(locksmith))
        }
    };
    explore(operator(false)).sample(SAMPLE).runs(SOME).run().assert_survived();
    let faults = [Fault::ChildDeleted, Fault::ChildDeletedLater];
    explore(operator(false)).sample(SAMPLE).faults(faults).run().assert_survived();
    let report = explore(operator(true)).sample(SAMPLE).oracles([Oracle::EndState]).faults(faults).run();
    assert!(!report.findings.is_empty());
}

#[test]
fn what_is_kept_outside_is_put_right_and_goes_with_its_resource() {
    explore(|| operator(false)).sample(SAMPLE).runs(SOME).run().assert_survived();
}

#[test]
fn what_is_left_outside_is_found() {
    let report = explore(|| operator(true)).sample(SAMPLE).faults(Fault::OF_ASKS).run();
    let leak = report.findings.iter().find(|finding| finding.violation.oracle == Oracle::Leaks);
    let leak = leak.unwrap_or_else(|| panic!("not found:\n{report}"));
    assert!(leak.violation.seen.contains("outside: register (a UID)"), "{}", leak.violation.seen);
    assert!(leak.plan.faults[0].point.call.starts_with("ask register strike "), "{}", leak.plan.faults[0]);
}

#[test]
fn a_system_without_a_stand_in_is_named() {
    let alone = || Operator::new("clerk-operator").reaches(&Outside::new("register", Register));
    let why = explore(alone).sample(SAMPLE).try_run(|_| {}).unwrap_err().to_string();
    assert!(why.starts_with("nothing stands in for register"), "{why}");
}
