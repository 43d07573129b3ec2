//! The lease as an object: what it says, and the requests that change it. Every change carries the revision it
//! is based on, so that of two replicas that try at once the server lets one through.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, api::PostParams};

use crate::clock::Clock;

/// The lease of an election, as one replica reads and writes it.
#[derive(Clone)]
pub(super) struct LeaseClient {
    pub(super) leases: Api<Lease>,
    pub(super) name: String,
    pub(super) identity: String,
    pub(super) duration: Duration,
    pub(super) clock: Clock,
}

impl LeaseClient {
    pub(super) async fn read(&self) -> kube::Result<Option<Lease>> {
        self.leases.get_opt(&self.name).await
    }

    /// Makes this replica the holder from now on, based on the lease as it was last seen.
    pub(super) async fn claim(&self, seen: Option<Lease>) -> kube::Result<Lease> {
        let now = self.clock.micro_time();
        let exists = seen.is_some();
        let mut lease = seen.unwrap_or_default();
        let is_renewal = holder(&lease) == Some(&self.identity);
        let spec = lease.spec.get_or_insert_default();
        if !is_renewal {
            let transitions = spec.lease_transitions.unwrap_or(0);
            spec.lease_transitions = Some(if exists { transitions.saturating_add(1) } else { 0 });
            spec.acquire_time = Some(now.clone());
        }
        spec.holder_identity = Some(self.identity.clone());
        // Others wait in whole seconds, and never for less than is meant.
        spec.lease_duration_seconds = Some(self.duration.as_secs_f64().ceil() as i32);
        spec.renew_time = Some(now);
        if exists {
            return self.replace(&lease).await;
        }
        lease.metadata.name = Some(self.name.clone());
        self.leases.create(&PostParams::default(), &lease).await
    }

    /// Lets the next one in at once, unless another holds the lease anyway.
    pub(super) async fn release(&self) -> kube::Result<()> {
        loop {
            let Some(mut lease) = self.read().await? else { return Ok(()) };
            if holder(&lease) != Some(&self.identity) {
                return Ok(());
            }
            let now = self.clock.micro_time();
            let spec = lease.spec.get_or_insert_default();
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
            spec.acquire_time = Some(now.clone());
            spec.renew_time = Some(now);
            match self.replace(&lease).await {
                Err(error) if is_outdated(&error) => {}
                answer => return answer.map(drop),
            }
        }
    }

    async fn replace(&self, lease: &Lease) -> kube::Result<Lease> {
        self.leases.replace(&self.name, &PostParams::default(), lease).await
    }
}

/// Who holds the lease, if anybody does.
pub(super) fn holder(lease: &Lease) -> Option<&String> {
    lease.spec.as_ref()?.holder_identity.as_ref().filter(|holder| !holder.is_empty())
}

/// For how long the holder wants the lease to be respected.
pub(super) fn duration(lease: &Lease) -> Option<Duration> {
    let seconds = lease.spec.as_ref()?.lease_duration_seconds?;
    Some(Duration::from_secs(seconds.try_into().ok()?))
}

/// Whether a write failed because the lease is not what it was when it was read.
pub(super) fn is_outdated(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 404 | 409))
}
