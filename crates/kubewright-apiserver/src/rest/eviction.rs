//! Eviction: a deletion of a pod that a disruption budget has a say in.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Scope, delete, options::WriteOptions, respond, subresource::success};
use crate::{
    error::{ApiError, Cause, Details, Subject},
    http::answer::Answer,
    kinds::access,
    selector::LabelSelector,
};

/// More evictions than this that nobody has confirmed are a sign that nobody will.
const UNCONFIRMED_MAX: usize = 2000;

impl Scope {
    /// Evicts a pod, unless a disruption budget forbids it.
    pub(super) async fn evict(self: &Arc<Self>) -> Result<Answer, ApiError> {
        let options = WriteOptions::read("CreateOptions", &self.query, &self.user_agent, false)?;
        let mut eviction = self.body_as("policy", "v1", "Eviction")?;
        if access::get_str(&eviction, &["metadata", "name"]) != self.name {
            return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
        }
        let pod = self.live().await?;
        self.admit_body(&mut eviction, &options).await?;
        if !is_disrupted_anyway(&pod) {
            self.take_from_budget(&pod, &options).await?;
        }
        if !options.dry_run {
            self.mark_disrupted(&options).await?;
        }
        let delete = access::get(&eviction, &["deleteOptions"]).cloned();
        delete::evicted(self, delete.as_ref(), &options).await?;
        Ok(respond::document_answer(self, 201, &success(201)))
    }

    /// Tells on the pod why it goes.
    async fn mark_disrupted(&self, options: &WriteOptions) -> Result<(), ApiError> {
        let pod = self.server.internal("", "pods", &self.namespace, &self.name, "status");
        let Some(pod) = pod else { return Ok(()) };
        let now = self.server.clock.now_text();
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
            "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
        });
        pod.change(&options.manager, &mut |object| set_condition(object, &condition)).await
    }

    /// Takes one from the budget that covers the pod; refuses if there is none left.
    async fn take_from_budget(&self, pod: &Value, options: &WriteOptions) -> Result<(), ApiError> {
        let Some(budgets) = self.server.internal("policy", "poddisruptionbudgets", &self.namespace, "", "")
        else {
            return Ok(());
        };
        let mut covering = Vec::new();
        for stored in
            self.server.store.collection(budgets.storage()).range(&format!("{}/", self.namespace), "")
        {
            let budget = budgets.load(stored).await?;
            let selector = LabelSelector::from_object(access::get(&budget, &["spec", "selector"]));
            let labels = access::get(pod, &["metadata", "labels"]).and_then(Value::as_object);
            if selector.is_ok_and(|selector| selector.matches(labels)) {
                covering.push(budget);
            }
        }
        let budget = match covering.as_slice() {
            [] => return Ok(()),
            [budget] => budget,
            _ => {
                let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
                return Err(ApiError::unexplained(why));
            }
        };
        if !is_ready(pod) && spares_unready(budget) {
            return Ok(());
        }
        if options.dry_run {
            return decrement(&mut budget.clone(), &self.name, &self.server.clock.now_text());
        }
        let name = access::get_str(budget, &["metadata", "name"]);
        let Some(status) =
            self.server.internal("policy", "poddisruptionbudgets", &self.namespace, name, "status")
        else {
            return Ok(());
        };
        let now = self.server.clock.now_text();
        let mut outcome = Ok(());
        status
            .change(&options.manager, &mut |budget| {
                let mut changed = budget.clone();
                outcome = decrement(&mut changed, &self.name, &now);
                if outcome.is_ok() {
                    *budget = changed;
                }
            })
            .await?;
        outcome
    }
}

/// A pod that is over, has not begun, or goes already: its end disrupts nothing.
fn is_disrupted_anyway(pod: &Value) -> bool {
    let phase = access::get_str(pod, &["status", "phase"]);
    matches!(phase, "Succeeded" | "Failed" | "Pending")
        || access::has(pod, &["metadata", "deletionTimestamp"])
}

fn is_ready(pod: &Value) -> bool {
    access::items(pod, &["status", "conditions"]).iter().any(|condition| {
        access::get_str(condition, &["type"]) == "Ready" && access::get_str(condition, &["status"]) == "True"
    })
}

/// Whether a pod that is not ready goes without counting.
fn spares_unready(budget: &Value) -> bool {
    let number = |field: &str| access::get_i64(budget, &["status", field]).unwrap_or(0);
    access::get_str(budget, &["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow"
        || (number("desiredHealthy") > 0 && number("currentHealthy") >= number("desiredHealthy"))
}

/// Takes one disruption from a budget and notes for which pod.
fn decrement(budget: &mut Value, pod: &str, now: &str) -> Result<(), ApiError> {
    let name = access::get_str(budget, &["metadata", "name"]).to_owned();
    let number = |path: &[&str]| access::get_i64(budget, path).unwrap_or(0);
    if number(&["status", "observedGeneration"]) < number(&["metadata", "generation"]) {
        return Err(refused(
            10,
            format!("The disruption budget {name} is still being processed by the server."),
        ));
    }
    let allowed = number(&["status", "disruptionsAllowed"]);
    let subject = Subject { group: "policy", resource: "poddisruptionbudget", kind: "PodDisruptionBudget" };
    if allowed < 0 {
        return Err(ApiError::forbidden(&subject, &name, "pdb disruptions allowed is negative"));
    }
    if access::entries(budget, &["status", "disruptedPods"]).count() > UNCONFIRMED_MAX {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(ApiError::forbidden(&subject, &name, why));
    }
    if allowed == 0 {
        return Err(refused(0, exhausted(budget, &name)));
    }
    access::set(budget, &["status", "disruptionsAllowed"], allowed - 1);
    access::set(budget, &["status", "disruptedPods", pod], now);
    if allowed == 1 {
        let generation = access::get_i64(budget, &["status", "observedGeneration"]).unwrap_or(0);
        let condition = json!({
            "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
            "lastTransitionTime": now, "observedGeneration": generation,
        });
        set_condition(budget, &condition);
    }
    Ok(())
}

/// Why a budget has nothing left.
fn exhausted(budget: &Value, name: &str) -> String {
    let number = |field: &str| access::get_i64(budget, &["status", field]).unwrap_or(0);
    let (desired, current) = (number("desiredHealthy"), number("currentHealthy"));
    let conditions = access::items(budget, &["status", "conditions"]);
    let condition = conditions.iter().find(|one| access::get_str(one, &["type"]) == "DisruptionAllowed");
    let told = condition
        .filter(|one| access::get_str(one, &["status"]) == "False")
        .map(|one| (access::get_str(one, &["reason"]), access::get_str(one, &["message"])));
    let told = told.filter(|(_, message)| !message.is_empty());
    // What is counted is not to be trusted while the budget can't be worked out.
    match told {
        Some(("SyncFailed", message)) => format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
        ),
        _ if current <= desired => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {current} currently")
        }
        Some((reason, message)) => {
            format!(
                "The disruption budget {name} does not allow evicting pods currently ({reason}): {message}"
            )
        }
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    }
}

fn refused(retry_after_seconds: u32, why: String) -> ApiError {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let cause = Cause { reason: "DisruptionBudget".to_owned(), message: why, ..Cause::default() };
    ApiError::new(429, "TooManyRequests", message).with_details(Details {
        causes: vec![cause],
        retry_after_seconds: Some(retry_after_seconds).filter(|seconds| *seconds > 0),
        ..Details::default()
    })
}

/// Puts a condition in the place of the one of its type.
fn set_condition(object: &mut Value, condition: &Value) {
    let conditions =
        access::ensure_object(object, &["status"]).entry("conditions").or_insert_with(|| json!([]));
    if let Value::Array(list) = conditions {
        match list.iter_mut().find(|one| one.get("type") == condition.get("type")) {
            Some(one) => *one = condition.clone(),
            None => list.push(condition.clone()),
        }
    }
}
