//! Revisions: which template a Deployment had when, kept in the annotations of its ReplicaSets, and what
//! `kubectl rollout history` and `undo` go by.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::PodTemplateSpec,
};
use kube::ResourceExt as _;
use kubewright::Seen;

use super::scaling::{Limits, size};

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// What of a Deployment's annotations its sets don't get.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment.rollback.to",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
];
/// The label by which the pods of one set are told from those of another.
pub(super) const TEMPLATE_HASH: &str = "pod-template-hash";
/// How long the list of former revisions of a set gets, in characters.
const LONGEST_HISTORY: usize = 2000;

/// The revision of a set; none if nobody gave it one.
pub(super) fn revision(set: &ReplicaSet) -> i64 {
    set.annotations().get(REVISION).and_then(|revision| revision.parse().ok()).unwrap_or(0)
}

/// How many pods the Deployment wanted when the set was last scaled.
pub(super) fn desired_replicas(set: &ReplicaSet) -> Option<i32> {
    number(set, DESIRED_REPLICAS)
}

/// How many pods the Deployment could have had at most when the set was last scaled.
pub(super) fn max_replicas(set: &ReplicaSet) -> Option<i32> {
    number(set, MAX_REPLICAS)
}

fn number(set: &ReplicaSet, annotation: &str) -> Option<i32> {
    set.annotations().get(annotation)?.parse().ok().filter(|number| *number >= 0)
}

/// What a set is told about its Deployment whenever it is scaled.
pub(super) fn scale_annotations(limits: &Limits) -> BTreeMap<String, String> {
    BTreeMap::from([
        (DESIRED_REPLICAS.to_owned(), limits.desired.to_string()),
        (MAX_REPLICAS.to_owned(), limits.most().to_string()),
    ])
}

/// The annotations that the newest set must have besides its own: those of the Deployment, and a revision above
/// all older ones. If it had a revision before, this is a way back, and that revision becomes history.
pub(super) fn annotations(
    deployment: &Deployment,
    before: &BTreeMap<String, String>,
    old: &[Seen<ReplicaSet>],
) -> BTreeMap<String, String> {
    let copied = deployment.annotations().iter().filter(|(name, _)| !NOT_COPIED.contains(&name.as_str()));
    let mut annotations: BTreeMap<_, _> = copied.map(|(name, value)| (name.clone(), value.clone())).collect();
    let newest = old.iter().map(|set| revision(set)).max().unwrap_or(0) + 1;
    let Some(current) = before.get(REVISION) else {
        annotations.insert(REVISION.to_owned(), newest.to_string());
        return annotations;
    };
    if current.parse::<i64>().is_ok_and(|current| current < newest) {
        annotations.insert(REVISION.to_owned(), newest.to_string());
        let history = before.get(REVISION_HISTORY).map_or("", String::as_str);
        annotations.insert(REVISION_HISTORY.to_owned(), with_revision(history, current));
    }
    annotations
}

/// A list of revisions with one more, and without the first ones if it gets too long.
fn with_revision(history: &str, revision: &str) -> String {
    let mut revisions: Vec<&str> = history.split(',').filter(|one| !one.is_empty()).collect();
    revisions.push(revision);
    let mut length = revisions.iter().map(|one| one.len() + 1).sum::<usize>() - 1;
    let mut first = 0;
    while length > LONGEST_HISTORY && first + 1 < revisions.len() {
        length -= revisions[first].len() + 1;
        first += 1;
    }
    revisions[first..].join(",")
}

/// Which of the wanted annotations an object has not, or has with another value.
pub(super) fn missing<'a>(
    present: &BTreeMap<String, String>,
    wanted: &'a BTreeMap<String, String>,
) -> BTreeMap<&'a String, &'a String> {
    wanted.iter().filter(|(name, value)| present.get(*name) != Some(*value)).collect()
}

/// Whether a set is the one for a template: the same but for the label that tells sets apart.
pub(super) fn is_made_from(set: &ReplicaSet, template: &PodTemplateSpec) -> bool {
    let Some(own) = set.spec.as_ref().and_then(|spec| spec.template.as_ref()) else { return false };
    let meta = |template: &PodTemplateSpec| {
        let mut meta = template.metadata.clone().unwrap_or_default();
        meta.labels.get_or_insert_default().remove(TEMPLATE_HASH);
        meta
    };
    own.spec == template.spec && meta(own) == meta(template)
}

/// The old sets, oldest first, that may go because more are kept than wanted.
pub(super) fn superfluous(old: &[Seen<ReplicaSet>], limit: Option<i32>) -> Vec<&Seen<ReplicaSet>> {
    let Some(limit) = limit.filter(|limit| *limit != i32::MAX) else { return Vec::new() };
    let mut kept: Vec<_> = old.iter().filter(|set| set.metadata.deletion_timestamp.is_none()).collect();
    // What was created earlier comes first among equals: the sort is stable.
    kept.sort_by_key(|set| revision(set));
    let surplus = kept.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    kept.truncate(surplus);
    kept.retain(|set| is_empty(set));
    kept
}

/// Whether a set has no pods, and knows that it is to have none.
fn is_empty(set: &ReplicaSet) -> bool {
    let status = set.status.clone().unwrap_or_default();
    size(set) == 0 && status.replicas == 0 && set.metadata.generation <= status.observed_generation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn former_revisions_are_listed_and_the_first_ones_forgotten() {
        assert_eq!(with_revision("", "1"), "1");
        assert_eq!(with_revision("1,3", "5"), "1,3,5");
        let long = vec!["1000"; 400].join(",");
        let longer = with_revision(&long, "2000");
        assert!(longer.len() <= LONGEST_HISTORY && longer.ends_with(",2000"), "{longer}");
    }
}
