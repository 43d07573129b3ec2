//! How many pods each ReplicaSet of a Deployment may have. Nothing here reads or writes.

use std::cmp::Reverse;

use k8s_openapi::{
    api::apps::v1::{DeploymentSpec, ReplicaSet},
    apimachinery::pkg::util::intstr::IntOrString,
};

use super::history::max_replicas;
use crate::controllers::percent;

/// How far a Deployment may be from the number of pods it wants.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) desired: i32,
    /// How many more there may be; none unless it is rolled out bit by bit.
    surge: i32,
    /// How many fewer may be available.
    unavailable: i32,
    pub(super) is_rolling: bool,
}

impl Limits {
    pub(super) fn of(spec: &DeploymentSpec) -> Self {
        let desired = spec.replicas.unwrap_or(1);
        let strategy = spec.strategy.as_ref();
        if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate") {
            return Self { desired, surge: 0, unavailable: 0, is_rolling: false };
        }
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let none = IntOrString::Int(0);
        let surge = rolling.and_then(|rolling| rolling.max_surge.as_ref()).unwrap_or(&none);
        let unavailable = rolling.and_then(|rolling| rolling.max_unavailable.as_ref()).unwrap_or(&none);
        let surge = percent::rounded_up(surge, desired);
        let unavailable = match percent::rounded_down(unavailable, desired) {
            // Rounding must not leave a rollout without any way to move.
            0 if surge == 0 => 1,
            number => number,
        };
        Self { desired, surge, unavailable: unavailable.min(desired), is_rolling: true }
    }

    /// How many pods there may be at most.
    pub(super) fn most(&self) -> i32 {
        self.desired + self.surge
    }

    /// How many pods must be available at least.
    pub(super) fn least_available(&self) -> i32 {
        self.desired - self.unavailable
    }
}

/// How many pods a set is to have.
pub(super) fn size(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// How many pods of a set are available.
pub(super) fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

/// The size to which the newest set may grow from `size`, if there are `total` pods in all.
pub(super) fn grown(limits: &Limits, size: i32, total: i32) -> i32 {
    if !limits.is_rolling || size >= limits.desired {
        return limits.desired;
    }
    size + (limits.most() - total).clamp(0, limits.desired - size)
}

/// The sizes to which old sets, given oldest first, may shrink during a rollout: first goes what is of no use.
pub(super) fn shrunk(limits: &Limits, new: &ReplicaSet, old: &[&ReplicaSet]) -> Vec<i32> {
    let mut sizes: Vec<i32> = old.iter().map(|set| size(set)).collect();
    let total = sizes.iter().sum::<i32>() + size(new);
    let unavailable = size(new) - available(new);
    let mut surplus = total - limits.least_available() - unavailable;
    // A set that has just been scaled down may still count pods that are about to go.
    let healthy: Vec<i32> = old.iter().map(|set| available(set).min(size(set))).collect();
    for (size, healthy) in sizes.iter_mut().zip(&healthy) {
        let going = (*size - healthy).min(surplus).max(0);
        *size -= going;
        surplus -= going;
    }
    let available = available(new) + healthy.iter().sum::<i32>();
    surplus = surplus.min(available - limits.least_available());
    for size in &mut sizes {
        let going = (*size).min(surplus).max(0);
        *size -= going;
        surplus -= going;
    }
    sizes
}

/// The sizes of several sets with pods, given oldest first, after their Deployment was scaled: each keeps its
/// share, and the largest takes what rounding leaves.
pub(super) fn shared(limits: &Limits, running: i32, sets: &[&ReplicaSet]) -> Vec<i32> {
    let mut sizes: Vec<i32> = sets.iter().map(|set| size(set)).collect();
    let allowed = if limits.desired > 0 { limits.most() } else { 0 };
    let mut left = allowed - sizes.iter().sum::<i32>();
    let grows = left > 0;
    let mut order: Vec<usize> = (0..sets.len()).collect();
    // Of sets of one size the newer grow first, and the older shrink first.
    if grows {
        order.reverse();
    }
    order.sort_by_key(|at| Reverse(sizes[*at]));
    for at in &order {
        let change = share(limits, running, sets[*at]);
        let change = match left {
            0 => 0,
            _ if grows => change.min(left),
            _ => change.max(left),
        };
        sizes[*at] += change;
        left -= change;
    }
    if let Some(largest) = order.first() {
        sizes[*largest] = (sizes[*largest] + left).max(0);
    }
    sizes
}

/// By how much a set changes if it keeps its share of a Deployment of a new size.
fn share(limits: &Limits, running: i32, set: &ReplicaSet) -> i32 {
    if limits.desired == 0 {
        return -size(set);
    }
    // Without a trustworthy annotation, what runs is the best guess.
    match max_replicas(set).filter(|most| *most > 0).unwrap_or(running) {
        0 => 0,
        before => {
            let exact = f64::from(size(set)) * f64::from(limits.most()) / f64::from(before);
            #[allow(clippy::cast_possible_truncation, reason = "both factors are numbers of pods")]
            let rounded = exact.round() as i32;
            rounded - size(set)
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::{ReplicaSetSpec, ReplicaSetStatus};
    use serde_json::json;

    use super::*;

    fn limits(desired: i32, surge: &str, unavailable: &str) -> Limits {
        let spec = json!({
            "replicas": desired, "selector": {}, "template": {},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
        });
        Limits::of(&serde_json::from_value(spec).unwrap())
    }

    fn set(size: i32, available: i32, most: i32) -> ReplicaSet {
        let mut set = ReplicaSet {
            spec: Some(ReplicaSetSpec { replicas: Some(size), ..ReplicaSetSpec::default() }),
            status: Some(ReplicaSetStatus { available_replicas: Some(available), ..Default::default() }),
            ..ReplicaSet::default()
        };
        let annotations = set.metadata.annotations.get_or_insert_default();
        annotations.insert("deployment.kubernetes.io/max-replicas".to_owned(), most.to_string());
        set
    }

    #[test]
    fn surge_is_rounded_up_and_unavailability_down_but_never_both_to_nothing() {
        for (desired, surge, unavailable, most, least) in [
            (10, "25%", "25%", 13, 8),
            (3, "25%", "25%", 4, 3),
            (2, "0%", "1%", 2, 1),
            (1, "0%", "1%", 1, 0),
            (1, "1%", "25%", 2, 1),
            (3, "0%", "500%", 3, 0),
        ] {
            let limits = limits(desired, surge, unavailable);
            assert_eq!((limits.most(), limits.least_available()), (most, least), "{limits:?}");
        }
    }

    #[test]
    fn the_new_set_takes_what_room_there_is() {
        let limits = limits(10, "30%", "20%");
        assert_eq!(grown(&limits, 0, 10), 3);
        assert_eq!(grown(&limits, 3, 11), 5);
        assert_eq!(grown(&limits, 5, 13), 5);
        assert_eq!(grown(&limits, 9, 9), 10, "never more than wanted");
        assert_eq!(grown(&limits, 12, 12), 10);
    }

    #[test]
    fn unhealthy_pods_go_first_and_enough_stay_available() {
        let limits = limits(10, "30%", "20%");
        // All is well: two may go at once.
        assert_eq!(shrunk(&limits, &set(3, 0, 13), &[&set(10, 10, 13)]), [8]);
        // The new pods never become available: nothing more may go, even if an old one breaks.
        assert_eq!(shrunk(&limits, &set(5, 0, 13), &[&set(8, 7, 13)]), [8]);
        // Another template follows: what never worked goes first.
        assert_eq!(shrunk(&limits, &set(0, 0, 13), &[&set(8, 8, 13), &set(5, 0, 13)]), [8, 0]);
        // A set that was scaled down, but has not noticed yet, does not count for more than it will have.
        assert_eq!(shrunk(&limits, &set(3, 3, 13), &[&set(6, 10, 13)]), [5]);
    }

    #[test]
    fn sets_keep_their_shares_when_scaled() {
        let scaled = |desired, sizes: [i32; 2]| {
            let sets = sizes.map(|size| set(size, size, 13));
            shared(&limits(desired, "30%", "20%"), 13, &[&sets[0], &sets[1]])
        };
        assert_eq!(scaled(15, [8, 5]), [12, 8]);
        assert_eq!(scaled(5, [8, 5]), [4, 3]);
        assert_eq!(scaled(0, [8, 5]), [0, 0]);
    }
}
