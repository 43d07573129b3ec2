//! What is told of a finding, and of an exploration that ends early.

use std::sync::atomic::{AtomicUsize, Ordering};

use kubewright::{prelude::*, workload::child_meta};
use kubewright_explore::{Fault, Finding, Oracle, Report, explore, replay};

use crate::gadget::{Gadget, GadgetStatus, SAMPLE, keeper, operator, text};

/// Makes the text only if it has not noted that it has, and notes it first; but says that it is still at work.
fn notes_first() -> Operator {
    operator(|gadget, cx| {
        Box::pin(
            async move { note_first(gadget, cx, vec![condition("Progressing", true, "Works", "")]).await },
        )
    })
}

/// The same, but does not say so.
fn claims_first() -> Operator {
    operator(|gadget, cx| Box::pin(async move { note_first(gadget, cx, Vec::new()).await }))
}

async fn note_first(gadget: &Gadget, cx: &Context<Gadget>, conditions: Vec<Condition>) -> Result<Next> {
    let noted = gadget.status.as_ref().and_then(|status| status.note.as_ref());
    if noted != Some(&gadget.spec.text) {
        let note = Some(gadget.spec.text.clone());
        cx.status(GadgetStatus { note, conditions, ..GadgetStatus::default() }).await?;
        cx.apply(text(gadget)).await?;
    }
    Ok(Next::on_change())
}

fn explored() -> Report {
    explore(notes_first).sample(SAMPLE).faults([Fault::CrashAfter]).run()
}

#[test]
fn a_finding_is_short_and_can_be_replayed() {
    let report = explored();
    let finding = &report.findings[0];
    assert_eq!(finding.violation.oracle, Oracle::EndState);
    let steps: Vec<&str> = finding.plan.steps.iter().map(|step| &*step.name).collect();
    assert_eq!(steps, ["create"], "the other steps are of no matter");
    assert_eq!(finding.plan.faults.len(), 1);
    let plan = serde_json::to_string(&finding.plan).unwrap();
    let again = replay(notes_first, &plan);
    assert_eq!(again.findings[0].violation, finding.violation);
    replay(keeper, &plan).assert_survived();
    let test = finding.test();
    assert!(test.starts_with("#[test]\nfn survives_end_state_crash_after() {"), "{test}");
    assert!(test.contains("kubewright_explore::replay("), "{test}");
}

#[test]
fn what_is_wrong_undisturbed_does_not_hide_what_faults_do() {
    let report = explore(claims_first).sample(SAMPLE).faults([Fault::CrashAfter]).run();
    let found: Vec<(Oracle, usize)> =
        report.findings.iter().map(|one| (one.violation.oracle, one.plan.faults.len())).collect();
    assert_eq!(found, [(Oracle::Status, 0), (Oracle::EndState, 1)], "{report}");
}

#[test]
fn a_finding_shows_both_runs_and_where_they_part() {
    let text = explored().to_string();
    for expected in [
        "end-state: at the end of step `create`, configmaps default/sample is missing",
        "after crash-after at create: apply gadgets.test.example.com/status default/sample",
        "undisturbed                                                      with the faults",
        "=> 1.1s apply configmaps default/sample 201",
        "<-- crash-after",
        "docs/howto/reliability.md#end-state",
        "gadget-operator: 1 finding in ",
    ] {
        assert!(text.contains(expected), "{expected:?} is not in:\n{text}");
    }
}

#[test]
fn a_finding_is_told_to_programs_and_as_a_page() {
    let report = explored();
    let told = serde_json::to_value(&report).unwrap();
    assert_eq!(told["findings"][0]["oracle"], "end-state");
    assert_eq!(told["findings"][0]["book"], "docs/howto/reliability.md#end-state");
    assert_eq!(told["findings"][0]["plan"]["faults"][0]["fault"], "crash-after");
    let page = report.page();
    for expected in [
        "<!doctype html>",
        "<h2><code>end-state</code></h2>",
        "<span class=\"fault\">crash-after</span>",
        "<summary>A test</summary>",
        "docs/howto/reliability.md#end-state\">",
    ] {
        assert!(page.contains(expected), "{expected:?} is not in:\n{page}");
    }
    for loaded in ["src=", "<link", "<script", "@import", "url("] {
        assert!(!page.contains(loaded), "{loaded:?}: it needs nothing else");
    }
}

/// Makes three things if the first of them is missing.
fn makes_three() -> Operator {
    operator(|gadget, cx| {
        Box::pin(async move {
            let child = |name| ConfigMap { metadata: child_meta(gadget, name), ..ConfigMap::default() };
            if cx.get::<ConfigMap>(&child_name(gadget, "a"))?.is_none() {
                cx.apply(child("a")).await?;
                cx.apply(child("b")).await?;
                cx.apply(child("c")).await?;
            }
            Ok(Next::on_change())
        })
    })
}

#[test]
fn findings_that_are_alike_have_names_of_their_own() {
    let exploration = explore(makes_three).sample(SAMPLE).faults([Fault::CrashAfter]);
    let report = exploration.oracles([Oracle::EndState]).run();
    let names: Vec<String> = report.findings.iter().map(Finding::name).collect();
    assert_eq!(names, ["end-state-crash-after", "end-state-crash-after-2"], "{report}");
}

#[test]
fn an_exploration_that_is_interrupted_tells_what_is_known() {
    let asked = AtomicUsize::new(0);
    let report =
        explore(keeper).sample(SAMPLE).until(move || asked.fetch_add(1, Ordering::Relaxed) > 20).run();
    report.assert_survived();
    let all = explore(keeper).sample(SAMPLE).faults([Fault::CrashAfter]).run();
    assert!(report.runs < 1_000 && all.runs > 0);
}

#[test]
fn a_plan_that_leads_nowhere_is_said_to() {
    let finding = explored().findings.remove(0);
    let plan = serde_json::to_string(&finding.plan).unwrap().replace("default/sample", "default/other");
    let why = explore(keeper).try_replay(&plan).unwrap_err().to_string();
    assert!(why.starts_with("the operator does not come to create: apply gadgets"), "{why}");
    let why = explore(keeper).try_replay("{}").unwrap_err().to_string();
    assert!(why.starts_with("this is no plan"), "{why}");
}

#[test]
fn a_sample_that_does_not_fit_is_refused() {
    for (sample, expected) in [
        ("nonsense: [", "the sample can't be read"),
        ("{metadata: {name: a}}", "the sample can't be read: it has no apiVersion and kind"),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: a}}",
            "gadget-operator brings no v1 Pod along, only: Gadget",
        ),
        (
            "{apiVersion: test.example.com/v1, kind: Gadget, metadata: {name: a}, spec: {text: 1}}",
            "the sample is refused",
        ),
    ] {
        let why = explore(keeper).sample(sample).try_run(|_| {}).unwrap_err().to_string();
        assert!(why.starts_with(expected), "{why}");
    }
}
