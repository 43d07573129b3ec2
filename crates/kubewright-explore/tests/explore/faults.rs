//! Every fault, by its name: that it strikes, and what it does.

use kubewright::prelude::*;
use kubewright_explore::{Entry, Fault, Step, What, replay};
use serde_json::{Value, json};

use crate::gadget::{GadgetStatus, operator, text};

/// Reads what is kept from the server, keeps it, and says so.
fn reads_and_keeps() -> Operator {
    operator(|gadget, cx| {
        Box::pin(async move {
            cx.live().get::<ConfigMap>(&gadget.name_any()).await?;
            cx.apply(text(gadget)).await?;
            cx.status(GadgetStatus { note: Some(gadget.spec.text.clone()), ..GadgetStatus::default() })
                .await?;
            Ok(Next::on_change())
        })
    })
}

/// Takes some time until it says so.
fn keeps_slowly() -> Operator {
    operator(|gadget, cx| {
        Box::pin(async move {
            cx.apply(text(gadget)).await?;
            tokio::time::sleep(Duration::from_millis(300)).await;
            cx.status(GadgetStatus { note: Some(gadget.spec.text.clone()), ..GadgetStatus::default() })
                .await?;
            Ok(Next::on_change())
        })
    })
}

/// A gadget with a pod, so that one can be lost.
fn has_a_pod() -> Operator {
    use k8s_openapi::api::core::v1::{Container, PodSpec};
    operator(|gadget, cx| {
        Box::pin(async move {
            let image = Some("nginx:1.29".to_owned());
            let container = Container { name: "main".to_owned(), image, ..Container::default() };
            let pod = PodSpec { containers: vec![container], ..PodSpec::default() };
            cx.apply(workload::deployment(gadget, 1, pod)).await?;
            cx.apply(text(gadget)).await?;
            Ok(Next::on_change())
        })
    })
}

/// What happens in a run in which a fault strikes at a call of the step `change`.
fn run(operator: fn() -> Operator, call: &str, fault: Fault) -> Vec<Entry> {
    run_all(operator, &[(call, fault)])
}

/// The same for several.
fn run_all(operator: fn() -> Operator, faults: &[(&str, Fault)]) -> Vec<Entry> {
    let elects = faults.iter().any(|(_, fault)| *fault == Fault::TwoLeaders);
    let planned = |(call, fault): &(&str, Fault)| json!({"step": "change", "call": call, "occurrence": 1, "fault": fault});
    let spec = |text: &str| json!({"text": text});
    let sample = json!({
        "apiVersion": "test.example.com/v1", "kind": "Gadget", "metadata": {"name": "sample"}, "spec": spec("hello"),
    });
    let step = |name: &str, spec: Value| json!({"name": name, "spec": spec});
    let plan = json!({
        "sample": sample,
        "steps": [
            step("create", spec("hello")), step("change", spec("changed")), step("undo", spec("hello")),
        ],
        "faults": faults.iter().map(planned).collect::<Vec<_>>(),
        "elects": elects,
        "seed": 1,
    });
    let report = replay(operator, &plan.to_string());
    report.assert_survived();
    report.replayed
}

/// What comes after a fault has struck.
fn after(trace: &[Entry], fault: Fault) -> (&Entry, &[Entry]) {
    let at = trace.iter().position(|entry| entry.fault == Some(fault));
    let at = at.unwrap_or_else(|| panic!("{fault} did not strike"));
    (&trace[at], &trace[at + 1..])
}

const WRITE: &str = "apply configmaps default/sample";
const READ: &str = "get configmaps default/sample";
const EVENT: &str = "watch gadgets.test.example.com: modified default/sample";

fn times(trace: &[Entry], text: &str) -> usize {
    trace.iter().filter(|entry| entry.text == text).count()
}

#[test]
fn a_crash_ends_the_operator_before_or_after_a_write() {
    for (fault, is_done, is_repeated) in [(Fault::CrashBefore, 0, true), (Fault::CrashAfter, 200, false)] {
        let trace = run(reads_and_keeps, WRITE, fault);
        let (struck, rest) = after(&trace, fault);
        assert_eq!((struck.what, struck.code), (What::Write, is_done), "{fault}");
        assert_eq!((rest[0].what, &*rest[0].text), (What::Operator, "the operator dies"), "{fault}");
        assert_eq!((rest[1].what, &*rest[1].text), (What::Operator, "the operator starts"), "{fault}");
        assert_eq!(times(rest, WRITE) > 0, is_repeated, "{fault}");
    }
}

#[test]
fn an_operator_that_dies_is_started_again_after_the_next_change() {
    for (fault, code) in [(Fault::CrashPastChange, 200), (Fault::CrashBeforePastChange, 0)] {
        let trace = run(reads_and_keeps, WRITE, fault);
        let (struck, rest) = after(&trace, fault);
        assert_eq!((struck.what, struck.code), (What::Write, code), "{fault}");
        let texts: Vec<&str> = rest.iter().take(3).map(|entry| &*entry.text).collect();
        assert_eq!(texts[0], "the operator dies", "{fault}");
        assert_eq!((rest[1].what, texts[2]), (What::Step, "the operator starts"), "{fault}");
    }
}

#[test]
fn an_operator_that_dies_just_before_the_next_change_does_not_miss_it() {
    let last = "apply gadgets.test.example.com/status default/sample";
    let trace = run(keeps_slowly, last, Fault::CrashPastChange);
    let (_, rest) = after(&trace, Fault::CrashPastChange);
    let step = rest.iter().find(|entry| entry.what == What::Step).unwrap();
    let start = rest.iter().find(|entry| entry.text == "the operator starts").unwrap();
    assert!((start.at - step.at).as_secs() < 5, "{step}\n{start}");
}

#[test]
fn a_write_is_refused_and_made_again() {
    for (fault, code) in [
        (Fault::Conflict, 409),
        (Fault::TooManyRequests, 429),
        (Fault::InternalError, 500),
        (Fault::Unavailable, 503),
        (Fault::Denied, 403),
        (Fault::TimeoutLost, 0),
    ] {
        let trace = run(reads_and_keeps, WRITE, fault);
        let (struck, rest) = after(&trace, fault);
        assert_eq!((&*struck.text, struck.code), (WRITE, code), "{fault}");
        let mut tries = rest.iter().filter(|entry| entry.text == WRITE);
        let again = match fault {
            // For a while it is of no use to try.
            Fault::Unavailable | Fault::Denied => tries.find(|entry| entry.code != code).unwrap(),
            _ => tries.next().unwrap(),
        };
        assert_eq!(again.code, 200, "{fault}");
        let pause = (again.at - struck.at).as_secs();
        match fault {
            Fault::TooManyRequests => assert_eq!(pause, 7, "as Retry-After says"),
            Fault::TimeoutLost => assert_eq!(pause, 10),
            Fault::Unavailable | Fault::Denied => assert!((5..15).contains(&pause), "{fault}: {pause} s"),
            _ => assert!(pause < 2, "{fault}: {pause} s"),
        }
    }
}

#[test]
fn a_write_is_made_and_nobody_hears_of_it() {
    let trace = run(reads_and_keeps, WRITE, Fault::TimeoutApplied);
    let (struck, rest) = after(&trace, Fault::TimeoutApplied);
    assert_eq!(struck.code, 200);
    let next = rest.iter().find(|entry| entry.what == What::Write).unwrap();
    assert_eq!((next.at - struck.at).as_secs(), 10, "{next}");
}

#[test]
fn a_read_fails_or_is_old() {
    for (fault, code) in [
        (Fault::InternalError, 500),
        (Fault::TooManyRequests, 429),
        (Fault::TimeoutLost, 0),
        // As it was when the resource had just been created.
        (Fault::StaleRead, 404),
    ] {
        let trace = run(reads_and_keeps, READ, fault);
        let (struck, _) = after(&trace, fault);
        assert_eq!((struck.what, &*struck.text, struck.code), (What::Read, READ, code), "{fault}");
    }
}

#[test]
fn others_meddle_around_a_write() {
    let trace = run(reads_and_keeps, WRITE, Fault::ChildDeleted);
    let (_, rest) = after(&trace, Fault::ChildDeleted);
    assert_eq!(times(rest, "watch configmaps: deleted default/sample"), 1);
    assert!(rest.iter().any(|entry| entry.text == WRITE && entry.code == 201), "it comes back");

    let trace = run(reads_and_keeps, WRITE, Fault::ChildDeletedLater);
    let (struck, rest) = after(&trace, Fault::ChildDeletedLater);
    let again = rest.iter().find(|entry| entry.text == WRITE && entry.code == 201).unwrap();
    assert_eq!((again.at - struck.at).as_secs(), 30, "it comes back when all was at rest");

    let trace = run(has_a_pod, WRITE, Fault::PodLost);
    let (_, rest) = after(&trace, Fault::PodLost);
    assert!(
        times(rest, "watch deployments.apps: modified default/sample") > 1,
        "a pod goes and another comes"
    );

    let trace = run(has_a_pod, WRITE, Fault::NodeLost);
    let (struck, rest) = after(&trace, Fault::NodeLost);
    let change = rest.iter().find(|entry| entry.text == "watch deployments.apps: modified default/sample");
    let after_seconds = (change.unwrap().at - struck.at).as_secs();
    assert!(after_seconds > 30, "the node is missed: {after_seconds} s");

    let trace = run(reads_and_keeps, WRITE, Fault::ClockJump);
    let (struck, rest) = after(&trace, Fault::ClockJump);
    assert!((rest[0].at - struck.at).as_secs() >= 3600, "{}", rest[0]);

    let trace = run(reads_and_keeps, WRITE, Fault::SlowApi);
    let (struck, rest) = after(&trace, Fault::SlowApi);
    let next = rest.iter().find(|entry| entry.what == What::Write).unwrap();
    assert!((next.at - struck.at).as_secs() >= 5, "{next}");

    let trace = run(reads_and_keeps, WRITE, Fault::SchemaChange);
    after(&trace, Fault::SchemaChange);
}

#[test]
fn another_replica_leads_while_the_first_is_cut_off() {
    let trace = run(reads_and_keeps, WRITE, Fault::TwoLeaders);
    let (struck, rest) = after(&trace, Fault::TwoLeaders);
    assert_eq!(rest[0].text, "the operator starts");
    let next = rest.iter().find(|entry| entry.text == WRITE).unwrap();
    assert!((next.at - struck.at).as_secs() >= 15, "not before the lease has ended: {next}");
}

#[test]
fn a_watch_breaks_and_is_taken_up_again() {
    for (fault, is_read_again) in [(Fault::Disconnect, false), (Fault::Gone, true)] {
        let trace = run(reads_and_keeps, EVENT, fault);
        let (_, rest) = after(&trace, fault);
        let next_step = rest.iter().position(|entry| entry.what == What::Step).unwrap();
        let expired = "watch gadgets.test.example.com: expired";
        assert_eq!(times(&rest[..next_step], expired) == 1, is_read_again, "{fault}");
        assert!(times(&rest[..next_step], WRITE) == 1, "{fault}: what it missed is seen");
    }
}

#[test]
fn an_event_is_late_alone_or_twice() {
    for (fault, seconds) in [(Fault::Delay, 10), (Fault::Coalesce, 10), (Fault::Duplicate, 0)] {
        let trace = run(reads_and_keeps, EVENT, fault);
        let (struck, rest) = after(&trace, fault);
        let told = rest.iter().find(|entry| entry.text == EVENT).unwrap();
        assert_eq!((told.at - struck.at).as_secs(), seconds, "{fault}");
    }
    let trace = run(reads_and_keeps, EVENT, Fault::Duplicate);
    let (_, rest) = after(&trace, Fault::Duplicate);
    let digests: Vec<u64> =
        rest.iter().filter(|entry| entry.text == EVENT).map(|entry| entry.digest).collect();
    assert_eq!(digests[0], digests[1]);
}

#[test]
fn an_event_comes_after_the_next_change() {
    let trace = run(reads_and_keeps, EVENT, Fault::DelayPastChange);
    let (_, rest) = after(&trace, Fault::DelayPastChange);
    let next_step = rest.iter().position(|entry| entry.what == What::Step).unwrap();
    assert_eq!(times(&rest[..next_step], EVENT), 0);
    assert!(times(&rest[next_step..], EVENT) > 0);
}

#[test]
fn a_restarted_operator_sees_the_past() {
    for fault in [Fault::TimeTravel, Fault::TimeTravelFar, Fault::StaleResource, Fault::StaleResourceFar] {
        let trace = run(reads_and_keeps, EVENT, fault);
        let (struck, rest) = after(&trace, fault);
        let texts: Vec<&str> = rest.iter().take(2).map(|entry| &*entry.text).collect();
        assert_eq!(texts, ["the operator dies", "the operator starts"], "{fault}");
        let now = rest.iter().find(|entry| (entry.at - struck.at).as_secs() >= 11);
        assert!(now.is_some(), "{fault}: the present comes back");
    }
}

#[test]
fn every_fault_has_a_name_by_which_it_is_chosen() {
    for fault in Fault::all() {
        assert_eq!(Fault::named(&fault.name()), Some(fault));
        let chosen = kubewright_explore::explore(crate::gadget::keeper);
        let steps = [Step::apply("create", json!({"text": "hello"})), Step::delete("delete")];
        let report = chosen.sample(crate::gadget::SAMPLE).steps(steps).faults([fault]).runs(1).run();
        report.assert_survived();
        // There are no pods, and nothing is read from the server.
        let is_possible = !matches!(fault, Fault::PodLost | Fault::StaleRead);
        assert_eq!(report.runs, usize::from(is_possible), "{fault}");
    }
}

/// While events are held back, the hour has passed after which a server ends a watch.
#[test]
fn a_watch_that_ends_while_it_is_held_back_is_taken_up_again() {
    const KEPT: &str = "watch configmaps: modified default/sample";
    let trace = run_all(reads_and_keeps, &[(WRITE, Fault::ClockJump), (KEPT, Fault::Coalesce)]);
    let (_, rest) = after(&trace, Fault::Coalesce);
    assert!(rest.iter().any(|entry| entry.what == What::Event && entry.text == KEPT), "{rest:#?}");
}
