//! How long a job waits after pods that failed: ten seconds at first, twice as long with each further one, until
//! one succeeds.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use crate::pods;

const FIRST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(10 * 60);

/// The failures since the last success.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct BackOff {
    failures: i32,
    last: Option<Timestamp>,
}

impl BackOff {
    /// What it is after so many failures, of which this was the last.
    pub(super) fn after(failures: i32, last: Timestamp) -> Self {
        Self { failures, last: Some(last) }
    }

    /// What it is after these pods have ended, too.
    pub(super) fn with(self, succeeded: &[&Pod], failed: &[&Pod]) -> Self {
        let success = succeeded.iter().map(|pod| finish(pod)).max();
        let later: Vec<Timestamp> = failed
            .iter()
            .map(|pod| finish(pod))
            .filter(|at| success.is_none_or(|success| *at > success))
            .collect();
        let before = if success.is_some() { Self::default() } else { self };
        Self {
            failures: before.failures.saturating_add(i32::try_from(later.len()).unwrap_or(i32::MAX)),
            last: later.into_iter().max().or(before.last),
        }
    }

    /// How long is still to be waited.
    pub(super) fn left(self, now: Timestamp) -> Duration {
        let Some(last) = self.last.filter(|_| self.failures > 0) else { return Duration::ZERO };
        let doublings = u32::try_from(self.failures - 1).unwrap_or(0).min(10);
        let pause = (FIRST * 2u32.pow(doublings)).min(LONGEST);
        let until = last.saturating_add(SignedDuration::try_from(pause).unwrap_or_default());
        Duration::try_from(until.unwrap_or(last).duration_since(now)).unwrap_or_default()
    }
}

/// When a pod has ended: as its containers say, or else what comes closest.
pub(super) fn finish(pod: &Pod) -> Timestamp {
    let unready = pods::condition(pod, "Ready").filter(|ready| ready.status == "False");
    containers_finish(pod)
        .or_else(|| Some(unready?.last_transition_time.as_ref()?.0))
        .or_else(|| {
            let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
            let end = pod.metadata.deletion_timestamp.as_ref()?.0;
            end.checked_sub(SignedDuration::from_secs(grace)).ok()
        })
        .or_else(|| Some(pod.metadata.creation_timestamp.as_ref()?.0))
        .unwrap_or(Timestamp::UNIX_EPOCH)
}

/// When the last of the containers has ended, sidecars among them; nothing if one has not.
fn containers_finish(pod: &Pod) -> Option<Timestamp> {
    let sidecars: Vec<&str> = pods::spec(pod)
        .init_containers
        .iter()
        .flatten()
        .filter(|container| container.restart_policy.as_deref() == Some("Always"))
        .map(|container| container.name.as_str())
        .collect();
    let status = pod.status.as_ref()?;
    let init = status.init_container_statuses.iter().flatten();
    let all = status.container_statuses.iter().flatten();
    let all = all.chain(init.filter(|container| sidecars.contains(&container.name.as_str())));
    let end = |container: &ContainerStatus| {
        container.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref().map(|time| time.0)
    };
    all.map(end).collect::<Option<Vec<_>>>()?.into_iter().max()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ended(second: i64) -> Pod {
        let at = Timestamp::from_second(second).unwrap().to_string();
        let container = json!({
            "name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 1, "finishedAt": at}},
        });
        serde_json::from_value(json!({"metadata": {}, "status": {"containerStatuses": [container]}})).unwrap()
    }

    #[test]
    fn pauses_grow_from_ten_seconds_to_ten_minutes() {
        let pauses: Vec<u64> = (0..9)
            .map(|failures| {
                BackOff::after(failures, Timestamp::UNIX_EPOCH).left(Timestamp::UNIX_EPOCH).as_secs()
            })
            .collect();
        assert_eq!(pauses, [0, 10, 20, 40, 80, 160, 320, 600, 600]);
    }

    #[test]
    fn a_success_forgives_what_failed_before_it() {
        let pods = [ended(10), ended(20), ended(30)];
        let at = |second| Timestamp::from_second(second).unwrap();
        let failed = BackOff::default().with(&[], &[&pods[0], &pods[1]]);
        assert_eq!(failed, BackOff::after(2, at(20)));
        assert_eq!(failed.with(&[], &[&pods[2]]), BackOff::after(3, at(30)));
        assert_eq!(failed.with(&[&pods[1]], &[&pods[0], &pods[2]]), BackOff::after(1, at(30)));
        assert_eq!(failed.with(&[&pods[2]], &[]), BackOff::default());
    }
}
