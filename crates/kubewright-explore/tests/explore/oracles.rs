//! Every oracle that none of the [bugs](crate::bugs) is about: that it notices, and that it does not where all is well.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, OnceLock},
    time::Duration,
};

use k8s_openapi::api::{
    apps::v1::DeploymentStrategy,
    core::v1::{Event, Node},
};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams},
};
use kubewright::{Verb, prelude::*, workload::child_meta};
use kubewright_explore::{Fault, Finding, Oracle, Step, explore};
use serde_json::{Value, json};

use crate::{
    bugs::{SOME, pod},
    gadget::{Does, Doing, Gadget, GadgetStatus, SAMPLE, keeper, operator, text},
};

/// What only this oracle finds in an operator.
fn found(
    operator: impl Fn() -> Operator + Send + Sync + 'static,
    oracle: Oracle,
    fault: Fault,
) -> Vec<Finding> {
    explore(operator).sample(SAMPLE).oracles([oracle]).faults([fault]).run().findings
}

/// The oracle finds something in an operator that does this; what it says of it.
fn finds(doing: Doing, oracle: Oracle) -> String {
    let findings = found(move || operator(doing), oracle, Fault::CrashAfter);
    let finding = findings.first().unwrap_or_else(|| panic!("{oracle} found nothing"));
    assert_eq!(finding.violation.oracle, oracle);
    finding.violation.seen.clone()
}

/// Writes a status as it is given, past everything that the SDK does for it.
async fn say(gadget: &Gadget, cx: &Context<Gadget>, status: Value) -> Result<()> {
    let gadgets: Api<Gadget> = Api::namespaced(cx.client().clone(), cx.namespace());
    let status = Patch::Merge(json!({"status": status}));
    gadgets.patch_status(&gadget.name_any(), &PatchParams::default(), &status).await?;
    Ok(())
}

fn condition_since(name: &str, since: jiff::Timestamp) -> Value {
    json!({"type": name, "status": "True", "reason": "Said", "message": "", "lastTransitionTime": since.to_string()})
}

#[test]
fn a_gadget_that_is_looked_after_well_survives() {
    explore(keeper).sample(SAMPLE).runs(SOME).run().assert_survived();
}

#[test]
fn what_is_tried_in_vain_is_no_rest_and_is_told_with_the_answer() {
    let seen = finds(
        |gadget, cx| {
            Box::pin(async move {
                cx.apply(text(gadget)).await?;
                let maps: Api<ConfigMap> = Api::namespaced(cx.client().clone(), cx.namespace());
                let wrong = Patch::Merge(json!({"data": {"text": 1}}));
                let _ = maps.patch(&gadget.name_any(), &PatchParams::default(), &wrong).await;
                Ok(Next::on_change())
            })
        },
        Oracle::Converges,
    );
    let expected = "at a resync the operator wrote: patch configmaps default/sample, which was refused: 4";
    assert!(seen.contains(expected), "{seen}");
}

#[test]
fn a_generation_that_is_not_there_yet_was_not_observed() {
    let seen = finds(
        |gadget, cx| {
            Box::pin(async move {
                cx.apply(text(gadget)).await?;
                let ahead = gadget.metadata.generation.unwrap_or(0) + 1;
                say(gadget, cx, json!({"observedGeneration": ahead})).await?;
                Ok(Next::on_change())
            })
        },
        Oracle::Status,
    );
    assert!(seen.contains("says it has observed generation Some(2) of Some(1)"), "{seen}");
}

#[test]
fn a_transition_time_moves_only_with_a_transition() {
    let seen = finds(
        |gadget, cx| {
            Box::pin(async move {
                let now = cx.clock().now();
                say(gadget, cx, json!({"conditions": [condition_since("Kept", now)]})).await?;
                Ok(Next::after(Duration::from_secs(5)))
            })
        },
        Oracle::Status,
    );
    assert!(seen.contains("condition Kept is True as before, but its transition time has moved"), "{seen}");
}

#[test]
fn what_is_ready_has_children_that_are() {
    let seen = finds(
        |gadget, cx| {
            Box::pin(async move {
                // Until it is changed, its image is one that works.
                let image = match &*gadget.spec.text {
                    "hello" => "nginx:1.29",
                    _ => "kubewright.invalid/never-ready:1",
                };
                let mut deployment = workload::deployment(gadget, 1, pod(image));
                let all_at_once = DeploymentStrategy {
                    type_: Some("Recreate".to_owned()),
                    ..DeploymentStrategy::default()
                };
                deployment.spec.get_or_insert_default().strategy = Some(all_at_once);
                cx.apply(deployment).await?;
                let conditions = vec![condition("Ready", true, "Applied", "")];
                cx.status(GadgetStatus { conditions, ..GadgetStatus::default() }).await?;
                Ok(Next::on_change())
            })
        },
        Oracle::Status,
    );
    assert!(seen.contains("says Ready, but its deployments.apps default/sample is not ready"), "{seen}");
}

#[test]
fn what_is_ready_was_made_before_that_is_said() {
    let seen = finds(
        |gadget, cx| {
            Box::pin(async move {
                let conditions = vec![condition("Ready", true, "Hoped", "")];
                cx.status(GadgetStatus { conditions, ..GadgetStatus::default() }).await?;
                cx.apply(text(gadget)).await?;
                Ok(Next::on_change())
            })
        },
        Oracle::Status,
    );
    assert!(seen.contains("only then came: apply configmaps default/sample"), "{seen}");
}

#[test]
fn no_reconciler_panics() {
    let seen = finds(
        |gadget, cx| {
            Box::pin(async move {
                assert_eq!(gadget.spec.text, "hello");
                cx.apply(text(gadget)).await?;
                Ok(Next::on_change())
            })
        },
        Oracle::Budget,
    );
    assert_eq!(seen, "a reconciler panicked");
}

#[test]
fn the_server_is_not_flooded() {
    let seen = finds(
        |gadget, cx| {
            Box::pin(async move {
                while cx.live().get::<ConfigMap>("never").await?.is_none() {}
                cx.apply(text(gadget)).await?;
                Ok(Next::on_change())
            })
        },
        Oracle::Budget,
    );
    assert!(seen.starts_with("more than 5000 calls in one run"), "{seen}");
}

#[test]
fn no_task_outlives_the_operator() {
    let seen = finds(
        |gadget, cx| {
            Box::pin(async move {
                cx.apply(text(gadget)).await?;
                tokio::spawn(std::future::pending::<()>());
                Ok(Next::on_change())
            })
        },
        Oracle::Budget,
    );
    assert!(seen.starts_with("a restart leaves 1 of the operator's tasks behind"), "{seen}");
}

#[test]
fn a_pause_that_is_asked_for_is_kept() {
    let impatient = || {
        operator(|gadget, cx| {
            Box::pin(async move {
                let name = gadget.name_any();
                let live = cx.live();
                let ask = || tokio::time::timeout(Duration::from_secs(1), live.get::<ConfigMap>(&name));
                if ask().await.is_err() {
                    let _ = ask().await;
                }
                cx.apply(text(gadget)).await?;
                Ok(Next::on_change())
            })
        })
    };
    let findings = found(impatient, Oracle::Budget, Fault::TooManyRequests);
    let seen = &findings[0].violation.seen;
    assert!(seen.contains("again 6s before the time that Retry-After told"), "{seen}");
    assert!(found(keeper, Oracle::Budget, Fault::TooManyRequests).is_empty());
}

/// A reconciler that writes with the client of a task, past the fence, and does not wait for it.
struct Hands(Arc<OnceLock<Client>>);

impl Reconciler<Gadget> for Hands {
    async fn reconcile(&self, gadget: &Gadget, cx: &Context<Gadget>) -> Result<Next> {
        let Some(client) = self.0.get().cloned() else { return Ok(Next::after(Duration::from_secs(1))) };
        let mut map = text(gadget);
        map.metadata.owner_references = Some(vec![cx.object().controller_owner_ref(&()).unwrap_or_default()]);
        let maps: Api<ConfigMap> = Api::namespaced(client, cx.namespace());
        let writing = tokio::spawn(async move {
            let name = map.name_any();
            maps.patch(&name, &PatchParams::apply("hands").force(), &Patch::Apply(&map)).await
        });
        drop(writing);
        Ok(Next::on_change())
    }
}

#[test]
fn a_former_leader_writes_nothing() {
    let past_the_fence = || {
        let client = Arc::new(OnceLock::new());
        let handed = client.clone();
        Operator::new("gadget-operator")
            .controller(
                Controller::of::<Gadget>()
                    .owns::<ConfigMap>()
                    .needs::<ConfigMap>(&[kubewright::Verb::Create, kubewright::Verb::Patch])
                    .run(Hands(client)),
            )
            .task_everywhere("hand", move |cx| {
                let _ = handed.set(cx.client.clone());
                async move {
                    cx.shutdown.requested().await;
                    Ok(())
                }
            })
    };
    let findings = found(past_the_fence, Oracle::Fencing, Fault::TwoLeaders);
    let seen = &findings.first().expect("it is found").violation.seen;
    assert!(seen.starts_with("a replica that leads no more has written: apply configmaps"), "{seen}");
    assert!(found(keeper, Oracle::Fencing, Fault::TwoLeaders).is_empty());
}

#[test]
fn what_is_done_is_allowed() {
    let seen = finds(
        |gadget, cx| {
            Box::pin(async move {
                let nodes: Api<Node> = Api::all(cx.client().clone());
                let _ = nodes.list(&ListParams::default()).await;
                cx.apply(text(gadget)).await?;
                Ok(Next::on_change())
            })
        },
        Oracle::Rights,
    );
    assert!(seen.contains("cannot list resource \"nodes\""), "{seen}");
}

#[test]
fn no_secret_is_told() {
    let tells: [(Doing, &str); 3] = [
        (
            |gadget, cx| {
                Box::pin(async move {
                    keep_secret(gadget, cx).await?;
                    let note = Some("the password is swordfish".to_owned());
                    cx.status(GadgetStatus { note, ..GadgetStatus::default() }).await?;
                    Ok(Next::on_change())
                })
            },
            "the status of gadgets.test.example.com default/sample",
        ),
        (
            |gadget, cx| {
                Box::pin(async move {
                    keep_secret(gadget, cx).await?;
                    cx.event(kubewright::Event::normal("Kept", "Keep", "swordfish")).await;
                    Ok(Next::on_change())
                })
            },
            "events",
        ),
        (
            |gadget, cx| {
                Box::pin(async move {
                    keep_secret(gadget, cx).await?;
                    tracing::info!("swordfish is kept");
                    Ok(Next::on_change())
                })
            },
            "the logs",
        ),
    ];
    for (doing, place) in tells {
        let seen = finds(doing, Oracle::Rights);
        assert!(seen.contains("password of Secret default/sample") && seen.contains(place), "{seen}");
    }
}

async fn keep_secret(gadget: &Gadget, cx: &Context<Gadget>) -> Result<()> {
    let data = [("password".to_owned(), "swordfish".to_owned())].into();
    let metadata = child_meta(gadget, "");
    cx.apply(Secret { metadata, string_data: Some(data), ..Secret::default() }).await?;
    Ok(())
}

#[test]
fn what_goes_another_way_each_time_is_noticed() {
    let seen = finds(
        |gadget, cx| {
            Box::pin(async move {
                // As the order of a map that hashes: another one in each.
                let chance = RandomState::new().hash_one("order");
                let mut map = text(gadget);
                if cx.get::<ConfigMap>(&gadget.name_any())?.is_none() {
                    map.data.get_or_insert_default().insert("chance".to_owned(), chance.to_string());
                    cx.apply(map).await?;
                }
                Ok(Next::on_change())
            })
        },
        Oracle::Replay,
    );
    assert!(seen.starts_with("two undisturbed runs differ"), "{seen}");
}

#[test]
fn authors_have_demands_of_their_own() {
    let asked = || explore(keeper).sample(SAMPLE).faults([Fault::CrashAfter]);
    let oracle_of = |exploration: kubewright_explore::Exploration| {
        exploration.run().findings.first().map(|finding| finding.violation.oracle)
    };
    let is_there = |world: &kubewright_explore::World| world.get::<ConfigMap>("sample").is_some();
    assert_eq!(
        oracle_of(asked().always("there is none", move |world| !is_there(world))),
        Some(Oracle::Always)
    );
    assert_eq!(
        oracle_of(asked().eventually("it is there", is_there)),
        Some(Oracle::Eventually),
        "once it is deleted"
    );
    assert_eq!(
        oracle_of(asked().sometimes("there are two", |world| world.list::<Gadget>().len() == 2)),
        Some(Oracle::Sometimes)
    );
    let few = |world: &kubewright_explore::World| world.list::<Gadget>().len() < 2;
    asked()
        .always("there are few", few)
        .eventually("there are few", few)
        .sometimes("it is there", is_there)
        .run()
        .assert_survived();
}

/// The controllers of the cluster tell of what they do where somebody may read it.
#[test]
fn who_may_read_events_finds_some() {
    let is_told = |verbs: &'static [Verb]| {
        let rolls_out = move || {
            let doing: Doing = |gadget, cx| {
                Box::pin(async move {
                    cx.apply(workload::deployment(gadget, 1, pod("nginx:1.29"))).await?;
                    Ok(Next::on_change())
                })
            };
            let controller = Controller::of::<Gadget>().owns::<Deployment>().needs::<Event>(verbs);
            Operator::new("gadget-operator").controller(controller.run(Does(doing)))
        };
        let scaled = |event: &Event| event.reason.as_deref() == Some("ScalingReplicaSet");
        let tells = move |world: &kubewright_explore::World| world.list().iter().any(scaled);
        let steps = [Step::apply("create", json!({"text": "hello"}))];
        let report = explore(rolls_out).sample(SAMPLE).steps(steps).runs(1).sometimes("told", tells).run();
        report.findings.is_empty()
    };
    assert!(is_told(&[Verb::List]));
    assert!(!is_told(&[Verb::Create]));
}

#[test]
fn an_oracle_that_is_switched_off_says_nothing() {
    let panics: Doing = |_, _| Box::pin(async move { panic!("always") });
    let floods: Doing = |_, cx| {
        Box::pin(async move {
            while cx.live().get::<ConfigMap>("never").await?.is_none() {}
            Ok(Next::on_change())
        })
    };
    for doing in [panics, floods] {
        // Who panics always also fails for ever.
        let off = [Oracle::Budget, Oracle::Converges];
        let others = Oracle::ALL.into_iter().filter(|oracle| !off.contains(oracle));
        let report = explore(move || operator(doing)).sample(SAMPLE).oracles(others).runs(1).run();
        report.assert_survived();
    }
    for oracle in Oracle::ALL {
        assert_eq!(Oracle::named(&oracle.name()), Some(oracle));
    }
}

#[test]
fn who_fails_for_ever_has_not_survived() {
    let fails: Doing = |_, _| Box::pin(async move { Err(Error::new("never")) });
    let report = explore(move || operator(fails)).sample(SAMPLE).runs(1).run();
    let seen: Vec<&str> = report.findings.iter().map(|finding| &*finding.violation.seen).collect();
    assert_eq!(seen, ["at the end of step `create`, reconciles still fail"]);
    assert_eq!(report.findings[0].violation.oracle, Oracle::Converges);
}
