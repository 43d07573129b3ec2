//! What is asked before a `Memcached` is stored.

use kubewright::prelude::*;

use crate::v1beta1::Memcached;

/// As much as memcached takes by itself, so that it can be seen and does not change with the image.
const MEMORY_MEGABYTES: i32 = 64;

/// Fills in what is left open.
pub fn fill(memcached: &mut Memcached, _: &Admission<Memcached>) {
    memcached.spec.memory_megabytes.get_or_insert(MEMORY_MEGABYTES);
}

/// Refuses what would lose more of the cache than one may want to lose at a time.
pub fn check(memcached: &Memcached, admission: &Admission<Memcached>) -> Verdict {
    let verdict = Verdict::allowed();
    let Some(old) = &admission.old else { return verdict };
    let (before, now) = (&old.spec, &memcached.spec);
    let verdict = match now.replicas < before.replicas - 1 {
        true => verdict.invalid("spec.replicas", now.replicas, "only one pod may go at a time"),
        false => verdict,
    };
    match now.image != before.image && is_rolling(old) {
        true => verdict.forbidden("spec.image", "can't be changed while pods are being replaced"),
        false => verdict,
    }
}

/// Whether pods are being replaced. If something is in the way of that, another image may be the remedy.
fn is_rolling(memcached: &Memcached) -> bool {
    let status = memcached.status.clone().unwrap_or_default();
    let holds = |name: &str| status.conditions.iter().any(|one| one.type_ == name && one.status == "True");
    holds("Progressing") && !holds("Degraded")
}
