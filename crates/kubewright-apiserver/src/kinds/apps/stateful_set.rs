//! StatefulSets.

use serde_json::{Value, json};

use super::{
    super::{
        Strategy,
        access::{copy_from, default_to, get_str, has, items, items_mut, remove, same, set},
        checks,
        core::{pod_spec, volume_claim},
        lifecycle::{keep_spec, keep_status, spec_changed},
        report::{At, Errors},
        workload,
    },
    rollout,
};
use crate::field::FieldError;

/// What a StatefulSet does.
pub(crate) const STRATEGY: Strategy = Strategy {
    default,
    prepare_create: |stateful| {
        set(stateful, &["status"], json!({"replicas": 0, "availableReplicas": 0}));
        remove(stateful, MAX_UNAVAILABLE);
    },
    prepare_update: |stateful, old| {
        keep_status(stateful, old);
        if !has(old, MAX_UNAVAILABLE) {
            remove(stateful, MAX_UNAVAILABLE);
        }
    },
    prepare_status_update: keep_spec,
    validate: |stateful| {
        Errors::of(stateful, |stateful, errors| {
            let spec = stateful.field("spec");
            for claim in spec.field("volumeClaimTemplates").items() {
                volume_claim::validate_spec(&claim.field("spec"), errors);
            }
            let service = spec.field("serviceName");
            if !service.str().is_empty() {
                errors.each(&service, checks::dns_label(service.str()));
            }
            validate(stateful, errors);
        })
    },
    validate_update,
    validate_status_update: |stateful, old| {
        Errors::of(stateful, |stateful, errors| {
            let counts = [
                "replicas",
                "readyReplicas",
                "currentReplicas",
                "updatedReplicas",
                "availableReplicas",
                "observedGeneration",
                "collisionCount",
            ];
            workload::replica_counts(stateful, &counts, "status.readyReplicas", errors);
            workload::collisions_only_rise(stateful, &At::root(old), errors);
        })
    },
    warnings,
    generation: Some(spec_changed),
};

/// Still behind a feature gate: dropped unless the object already has it.
const MAX_UNAVAILABLE: &[&str] = &["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"];

fn default(stateful: &mut Value) {
    workload::default_template(stateful);
    if get_str(stateful, &["spec", "podManagementPolicy"]).is_empty() {
        set(stateful, &["spec", "podManagementPolicy"], "OrderedReady");
    }
    if get_str(stateful, &["spec", "updateStrategy", "type"]).is_empty() {
        set(stateful, &["spec", "updateStrategy", "type"], "RollingUpdate");
        default_to(stateful, &["spec", "updateStrategy", "rollingUpdate"], json!({}));
    }
    if get_str(stateful, &["spec", "updateStrategy", "type"]) == "RollingUpdate"
        && has(stateful, &["spec", "updateStrategy", "rollingUpdate"])
    {
        default_to(stateful, &["spec", "updateStrategy", "rollingUpdate", "partition"], 0);
    }
    for when in ["whenDeleted", "whenScaled"] {
        let policy = &["spec", "persistentVolumeClaimRetentionPolicy", when];
        if get_str(stateful, policy).is_empty() {
            set(stateful, policy, "Retain");
        }
    }
    default_to(stateful, &["spec", "replicas"], 1);
    default_to(stateful, &["spec", "revisionHistoryLimit"], 10);
    for claim in items_mut(stateful, &["spec", "volumeClaimTemplates"]) {
        default_to(claim, &["spec"], json!({}));
        if let Some(spec) = claim.get_mut("spec") {
            volume_claim::default_spec(spec);
        }
        if get_str(claim, &["status", "phase"]).is_empty() {
            set(claim, &["status", "phase"], "Pending");
        }
        default_to(claim, &["apiVersion"], "v1");
        default_to(claim, &["kind"], "PersistentVolumeClaim");
    }
}

fn validate(stateful: &At<'_, '_>, errors: &mut Errors) {
    let spec = stateful.field("spec");
    let management = spec.field("podManagementPolicy");
    match management.str() {
        "" => errors.required(&management, ""),
        "OrderedReady" | "Parallel" => {}
        other => errors.invalid(&management, other, "must be 'OrderedReady' or 'Parallel'"),
    }
    update_strategy(&spec.field("updateStrategy"), errors);
    let retention = spec.field("persistentVolumeClaimRetentionPolicy");
    for when in ["whenDeleted", "whenScaled"] {
        errors.optional_one_of(&retention.field(when), &["Retain", "Delete"]);
    }
    errors.non_negative(&spec.field("replicas"));
    errors.non_negative(&spec.field("minReadySeconds"));
    let ordinals = spec.field("ordinals");
    errors.non_negative(&ordinals.field("start"));
    let selector = spec.field("selector");
    if !selector.exists() {
        errors.required(&selector, "");
    } else {
        checks::label_selector(&selector, errors);
        if selector.field("matchLabels").is_empty() && selector.field("matchExpressions").is_empty() {
            errors.invalid(&selector, selector.shown(), "empty selector is invalid for statefulset");
        }
    }
    let template = spec.field("template");
    let metadata = template.field("metadata");
    match checks::selects(&selector, &metadata.field("labels")) {
        None => errors.invalid(&selector, selector.shown(), ""),
        Some(selected) => {
            if !selected {
                workload::template_not_selected(&template, errors);
            }
            let whole = with_claims(&spec);
            pod_spec::validate_template(&At::rooted(&whole, "spec.template"), errors);
        }
    }
    workload::runs_for_ever(&template, "StatefulSet", errors);
}

/// The template as its pods will be: the volumes of the claim templates are there, and host names are set
/// by the controller.
fn with_claims(spec: &At<'_, '_>) -> Value {
    let mut template = spec.field("template").shown();
    remove(&mut template, &["spec", "subdomain"]);
    remove(&mut template, &["spec", "hostname"]);
    let claims = spec.field("volumeClaimTemplates");
    if !claims.is_empty() {
        let names: Vec<&str> =
            claims.items().map(|claim| claim.field("metadata").field("name").str()).collect();
        let claimed =
            names.iter().map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
        let own = items(&template, &["spec", "volumes"]);
        let own = own.iter().filter(|volume| !names.contains(&get_str(volume, &["name"]))).cloned();
        let volumes: Vec<Value> = claimed.chain(own).collect();
        set(&mut template, &["spec", "volumes"], volumes);
    }
    template
}

fn update_strategy(strategy: &At<'_, '_>, errors: &mut Errors) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").str() {
        "" => errors.required(strategy, ""),
        "OnDelete" if rolling.exists() => {
            let shown = rolling.as_go(&[("Partition", "partition"), ("MaxUnavailable", "maxUnavailable")]);
            errors.invalid_text(&rolling, &shown, "only allowed for updateStrategy 'RollingUpdate'");
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            errors.non_negative(&rolling.field("partition"));
            let unavailable = rolling.field("maxUnavailable");
            if unavailable.exists() {
                rollout::amount(&unavailable, errors);
                if rollout::is_nothing(&unavailable) {
                    errors.invalid(&unavailable, unavailable.shown(), "cannot be 0");
                }
                rollout::at_most_all(&unavailable, errors);
            }
        }
        _ => {
            let shown = strategy.as_go(rollout::STRATEGY);
            errors.invalid_text(strategy, &shown, "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
}

fn validate_update(stateful: &Value, old: &Value) -> Vec<FieldError> {
    Errors::of(stateful, |at, errors| {
        validate(at, errors);
        let mut now = stateful.clone();
        for field in [
            "replicas",
            "template",
            "updateStrategy",
            "minReadySeconds",
            "ordinals",
            "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy",
        ] {
            copy_from(&mut now, old, &["spec", field]);
        }
        if !same(&now, old, &["spec"]) {
            let text = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
            errors.forbidden(&at.field("spec"), text);
        }
    })
}

fn warnings(stateful: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = workload::template_warnings(stateful, old, false);
    let at = At::root(stateful);
    let spec = at.field("spec");
    for claim in spec.field("volumeClaimTemplates").items() {
        let place = if old.is_some() { claim.field("Spec") } else { claim };
        volume_claim::spec_warnings(&place.holding(claim.field("spec").value()), &mut warnings);
    }
    if spec.field("revisionHistoryLimit").int() < 0 {
        warnings.push("spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended".to_owned());
    }
    warnings
}
