//! The fewest faults and the shortest scenario that still come to the same.

use std::{sync::Arc, time::Instant};

use crate::{
    Settings,
    branch::is_late,
    finding::Plan,
    ground::{Ground, undisturbed},
    oracle::Oracle,
    run::Outcome,
    search::replay,
    subject::Subject,
};

/// A plan that is as short as can be, with what it comes to.
pub(crate) struct Shrunk {
    pub(crate) plan: Plan,
    pub(crate) ground: Option<Ground>,
    pub(crate) outcome: Outcome,
}

/// Leaves out whatever can be left out of a plan without another oracle being violated, or none, as long as there is time.
pub(crate) fn shrink(
    subject: &Subject,
    settings: &Settings,
    ground: &Ground,
    plan: Plan,
    outcome: Outcome,
    oracle: Oracle,
    deadline: Option<Instant>,
) -> Shrunk {
    let mut best = Shrunk { plan, ground: None, outcome };
    let mut at = 0;
    while at < best.plan.faults.len() && best.plan.faults.len() > 1 && !is_over(settings, deadline) {
        let mut shorter = best.plan.clone();
        shorter.faults.remove(at);
        match attempt(subject, settings, ground, shorter, oracle) {
            Some(shrunk) => best = shrunk,
            None => at += 1,
        }
    }
    // From the end, so that what comes after is gone first.
    for at in (0..best.plan.steps.len()).rev() {
        let step = &best.plan.steps[at];
        let is_needed = best.plan.faults.iter().any(|planned| planned.point.step == step.name);
        if is_needed || best.plan.steps.len() == 1 || is_over(settings, deadline) {
            continue;
        }
        let mut shorter = best.plan.clone();
        shorter.steps.remove(at);
        if let Some(shrunk) = attempt(subject, settings, ground, shorter, oracle) {
            best = shrunk;
        }
    }
    best
}

/// Whether nobody wants to wait any more.
fn is_over(settings: &Settings, deadline: Option<Instant>) -> bool {
    is_late(deadline) || (settings.stop)()
}

/// What a plan comes to, if it is the same.
fn attempt(
    subject: &Subject,
    settings: &Settings,
    ground: &Ground,
    plan: Plan,
    oracle: Oracle,
) -> Option<Shrunk> {
    // Something has to be created first.
    plan.steps.first()?.spec.as_ref()?;
    let steps = Arc::new(plan.steps.clone());
    let alone = undisturbed(subject, settings.seed, &steps, &ground.noise);
    if alone.refused.is_some() || alone.violations.iter().any(|violation| violation.oracle == oracle) {
        return None;
    }
    let ground = Ground::new(steps, ground.noise.clone(), ground.fresh.clone(), alone);
    let outcome = replay(subject, settings, &ground, &plan, false);
    let is_same = outcome.violations.iter().any(|violation| violation.oracle == oracle);
    is_same.then_some(Shrunk { plan, ground: Some(ground), outcome })
}
