//! Two leaders at once: the operator is cut off from the server for so long that another replica takes the lease. What it
//! had sent arrives afterwards, if it still wants it to.

use std::time::Duration;

use http::StatusCode;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use super::{State, Wire};
use crate::{call::Call, oracle::Oracle, plan::Fault, state::resource_id, trace::What};

/// How long a replica is cut off: longer than a lease lasts.
const PARTED: Duration = Duration::from_secs(40);

/// The replica that led before.
#[derive(Clone, Copy)]
pub(super) struct Former {
    epoch: u64,
    /// When its connection is back.
    pub(super) until: Instant,
}

/// Who a replica is in the lease.
pub(crate) fn identity(start: u64) -> String {
    format!("replica-{start}")
}

impl Wire {
    /// Cuts a replica off, and has another one started; waits until the connection is back.
    pub(super) async fn part(&self, epoch: u64) {
        let until = Instant::now() + PARTED;
        {
            let (text, fault) = ("the operator is cut off, another replica starts", Fault::TwoLeaders);
            let mut state = self.state();
            state.note(What::Operator, text, 0, 0, Some(fault));
            state.former = Some(Former { epoch, until });
            state.disturb_for(PARTED, PARTED);
        }
        self.0.rivalled.notify_one();
        sleep_until(until).await;
    }

    /// Waits until another replica is to be started.
    pub(crate) async fn rivalled(&self) {
        self.0.rivalled.notified().await;
    }

    /// Until when a replica is cut off, if it is.
    pub(super) fn parted_until(&self, epoch: u64) -> Option<Instant> {
        let former = self.state().former?;
        (former.epoch == epoch && Instant::now() < former.until).then_some(former.until)
    }

    /// Whether a replica is not connected any more.
    pub(super) fn is_cut(&self, epoch: u64) -> bool {
        let state = self.state();
        state.epoch != epoch && state.former.is_none_or(|former| former.epoch != epoch)
    }

    /// Looks at a write that was let through: was it that of a replica that does not lead any more?
    pub(super) fn fence(&self, state: &mut State, epoch: u64, call: &Call, code: StatusCode) {
        let is_former = state.former.is_some_and(|former| former.epoch == epoch);
        if !is_former
            || call.is_told()
            || !code.is_success()
            || !self.0.judge.oracles.contains(&Oracle::Fencing)
        {
            return;
        }
        let leases = self.0.server.snapshot().collection(&resource_id("leases.coordination.k8s.io"));
        let own = identity(epoch);
        let has_lost = leases.range("", "").any(|lease| {
            let lease: Value = serde_json::from_slice(&lease.bytes).unwrap_or_default();
            let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
            holder.starts_with("replica-") && holder != own
        });
        if has_lost {
            state.violate(Oracle::Fencing, format!("a replica that leads no more has written: {call}"));
        }
    }
}
