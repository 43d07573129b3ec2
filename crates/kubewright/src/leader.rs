//! Leader election on a `coordination.k8s.io/v1` Lease: of many replicas one works, and another soon after that
//! one is gone.
//!
//! An [`Elector`] waits for its turn and becomes a [`Leadership`], which renews the lease until it is released,
//! lost or dropped. Its [`Fence`] stops the writes of a leader that can't renew before another may lead: it is
//! held until [`renew_deadline`](LeaderElection::renew_deadline) after the last renewal was *sent*, while others
//! wait for [`lease_duration`](LeaderElection::lease_duration) after they *saw* it, each by its own monotonic
//! clock. So clocks that disagree change nothing: the times in the lease are for people.
//!
//! Rights needed on `leases` in the group `coordination.k8s.io`: `get`, `create`, `update`.

mod lease;

use std::{fmt, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use tokio::{
    sync::watch,
    task::AbortHandle,
    time::{Instant, sleep_until, timeout, timeout_at},
};

use self::lease::LeaseClient;
pub use crate::client::{Fence, NotLeader};
use crate::{Error, Result, clock::Clock, entropy::Entropy};

/// A pause between tries lasts up to this many retry periods, so that replicas don't try in step.
const JITTER: f64 = 1.2;

/// How a leader is elected.
#[derive(Debug, Clone)]
pub struct LeaderElection {
    /// The name of the lease; replicas that name the same one elect one leader.
    pub name: String,
    /// The namespace of the lease; by default that of the client.
    pub namespace: Option<String>,
    /// Who this replica is: no two may be the same. By default the host's name and a random number.
    pub identity: Option<String>,
    /// How long others wait after they last saw a leader renew: 15 seconds.
    pub lease_duration: Duration,
    /// How long a leader goes on without a renewal: 10 seconds.
    pub renew_deadline: Duration,
    /// The pause between renewals, and between tries to lead: 2 seconds.
    pub retry_period: Duration,
    /// Whether [`Leadership::release`] gives the lease back, so that the next one need not wait: true.
    pub release_on_shutdown: bool,
}

/// Options with which no election is safe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// The lease has no name.
    #[error("leader election: the lease needs a name")]
    NoName,
    /// The identity is empty, as is the holder of a lease that is free.
    #[error("leader election: the identity must not be empty; leave it out to have one made")]
    NoIdentity,
    /// The lease could end while the leader still writes.
    #[error(
        "leader election: lease_duration must be longer than renew_deadline, but {lease:?} is not longer than {renew:?}"
    )]
    LeaseTooShort {
        /// The lease duration.
        lease: Duration,
        /// The renew deadline.
        renew: Duration,
    },
    /// The leader could give up before it tried to renew.
    #[error(
        "leader election: renew_deadline must be longer than {JITTER} times retry_period, but {renew:?} is not longer than {JITTER} times {retry:?}"
    )]
    RenewTooShort {
        /// The renew deadline.
        renew: Duration,
        /// The retry period.
        retry: Duration,
    },
    /// There would be no pause between tries.
    #[error("leader election: retry_period must be longer than nothing")]
    NoRetryPeriod,
}

impl LeaderElection {
    /// An election on the lease `name`, with the usual durations.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            namespace: None,
            identity: None,
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            release_on_shutdown: true,
        }
    }

    /// Whether a leader elected like this would be the only one.
    pub fn check(&self) -> Result<(), OptionsError> {
        let (lease, renew, retry) = (self.lease_duration, self.renew_deadline, self.retry_period);
        match () {
            () if self.name.is_empty() => Err(OptionsError::NoName),
            () if self.identity.as_deref() == Some("") => Err(OptionsError::NoIdentity),
            () if retry.is_zero() => Err(OptionsError::NoRetryPeriod),
            () if renew <= retry.mul_f64(JITTER) => Err(OptionsError::RenewTooShort { renew, retry }),
            () if lease <= renew => Err(OptionsError::LeaseTooShort { lease, renew }),
            () => Ok(()),
        }
    }
}

/// What a replica knows of the election.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Election {
    /// Whether this replica leads.
    pub is_leader: bool,
    /// Who held the lease when it was last seen.
    pub holder: Option<String>,
}

/// Why a leadership ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lost {
    /// The lease could not be renewed in time.
    Expired,
    /// The lease has another holder, or none.
    Taken {
        /// The holder.
        by: Option<String>,
    },
    /// Nothing renews the lease any more, as the runtime is shutting down.
    Stopped,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired => f.write_str("the lease could not be renewed before the deadline"),
            Self::Taken { by: Some(holder) } => write!(f, "the lease was taken by {holder}"),
            Self::Taken { by: None } => f.write_str("the lease was taken away"),
            Self::Stopped => f.write_str("the lease is not renewed any more"),
        }
    }
}

/// A replica that wants to lead. It leads once: whoever lost a leadership starts anew, with a new fence.
pub struct Elector {
    candidate: Candidate,
    fence: Fence,
    options: LeaderElection,
}

impl Elector {
    /// A replica that writes the lease with `client`, which must not be behind the fence of this election.
    pub fn new(
        client: Client,
        options: LeaderElection,
        clock: Clock,
        entropy: Entropy,
    ) -> Result<Self, OptionsError> {
        options.check()?;
        let namespace = options.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
        let lease = LeaseClient {
            leases: Api::namespaced(client, &namespace),
            name: options.name.clone(),
            identity: options.identity.clone().unwrap_or_else(|| identity(&entropy)),
            duration: options.lease_duration,
            clock,
        };
        let candidate = Candidate {
            lease,
            seen: None,
            election: watch::Sender::default(),
            entropy,
            retry_period: options.retry_period,
        };
        Ok(Self { candidate, fence: Fence::waiting(), options })
    }

    /// Who this replica is in the lease.
    pub fn identity(&self) -> &str {
        &self.candidate.lease.identity
    }

    /// The fence for this replica's writes: closed until it leads.
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// What becomes of the election, for metrics and events.
    pub fn watch(&self) -> watch::Receiver<Election> {
        self.candidate.election.subscribe()
    }

    /// Waits until this replica leads, however long the API server can't be reached.
    pub async fn acquire(mut self) -> Leadership {
        let renew_deadline = self.options.renew_deadline;
        loop {
            let tried = Instant::now();
            match timeout(renew_deadline / 2, self.candidate.try_to_lead()).await {
                Ok(Ok(Some(sent))) if self.fence.hold_until(sent + renew_deadline) => return self.lead(sent),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => self.candidate.warn(&error),
                Err(late) => self.candidate.warn(&late),
            }
            sleep_until(tried + self.candidate.pause()).await;
        }
    }

    fn lead(self, sent: Instant) -> Leadership {
        let Self { candidate, fence, options } = self;
        tracing::info!(lease = options.name, identity = candidate.lease.identity, "became the leader");
        candidate.election.send_modify(|election| election.is_leader = true);
        let (lease, election) = (candidate.lease.clone(), candidate.election.clone());
        let claimed = candidate.seen.as_ref().map(|seen| seen.lease.clone()).unwrap_or_default();
        let (tell, lost) = watch::channel(None);
        let renewing = {
            let (fence, election) = (fence.clone(), election.clone());
            async move {
                let why = candidate.keep(&fence, sent, options.renew_deadline).await;
                fence.fall();
                election.send_modify(|election| election.is_leader = false);
                tracing::error!("not the leader any more: {why}");
                tell.send_replace(Some(why));
            }
        };
        let task = tokio::spawn(renewing).abort_handle();
        Leadership { fence, lease, claimed, election, lost, task, options }
    }
}

/// The time of one leader. The lease is renewed until this is released or dropped; a drop is like a crash: no
/// write passes the fence any more, and others wait until the lease ends.
#[must_use = "the leadership ends when this is dropped"]
pub struct Leadership {
    fence: Fence,
    lease: LeaseClient,
    claimed: Lease,
    election: watch::Sender<Election>,
    lost: watch::Receiver<Option<Lost>>,
    task: AbortHandle,
    options: LeaderElection,
}

impl Leadership {
    /// The fence for this leader's writes, the same as [`Elector::fence`].
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Who leads.
    pub(crate) fn identity(&self) -> &str {
        &self.lease.identity
    }

    /// The lease as it was when this leadership began.
    pub(crate) fn claimed(&self) -> &Lease {
        &self.claimed
    }

    /// Waits until the leadership is lost, and tells why. It may be dropped and called again.
    pub async fn lost(&mut self) -> Lost {
        match self.lost.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or(Lost::Stopped),
            Err(_) => Lost::Stopped,
        }
    }

    /// Ends the leadership and, if the options say so, gives the lease back. To be called when all work has
    /// stopped: another may lead as soon as this is done.
    pub async fn release(self) -> Result<()> {
        self.end();
        if !self.options.release_on_shutdown {
            return Ok(());
        }
        let limit = self.options.renew_deadline;
        match timeout(limit, self.lease.release()).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Error::new(format!(
                "the lease {} was not released within {limit:?}; others wait until it ends",
                self.options.name
            ))),
        }
    }

    fn end(&self) {
        self.fence.fall();
        self.task.abort();
        self.election.send_modify(|election| election.is_leader = false);
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        self.end();
    }
}

/// The lease as this replica sees it, and the tries to hold it.
struct Candidate {
    lease: LeaseClient,
    seen: Option<Seen>,
    election: watch::Sender<Election>,
    entropy: Entropy,
    retry_period: Duration,
}

/// The lease as it was last seen, and since when it says what it says.
struct Seen {
    lease: Lease,
    since: Instant,
}

enum Renewal {
    Sent(Instant),
    Taken(Option<String>),
}

impl Candidate {
    /// Tells when the request was sent that made this replica the leader, if one did.
    async fn try_to_lead(&mut self) -> kube::Result<Option<Instant>> {
        let current = self.read().await?;
        match self.is_free() {
            true => self.claim(current).await.map(Some),
            false => Ok(None),
        }
    }

    /// Renews the lease until it can't, and tells why.
    async fn keep(mut self, fence: &Fence, mut renewed: Instant, renew_deadline: Duration) -> Lost {
        let mut tried = renewed;
        loop {
            let deadline = renewed + renew_deadline;
            sleep_until(deadline.min(tried + self.pause())).await;
            tried = Instant::now();
            if tried >= deadline {
                return Lost::Expired;
            }
            // A request nobody answers must not use up the time in which the next one could succeed.
            let limit = deadline.min(tried + renew_deadline / 2);
            match timeout_at(limit, self.renew()).await {
                Ok(Ok(Renewal::Taken(by))) => return Lost::Taken { by },
                Ok(Ok(Renewal::Sent(sent))) if fence.hold_until(sent + renew_deadline) => renewed = sent,
                Ok(Ok(Renewal::Sent(_))) => return Lost::Expired,
                Ok(Err(error)) => self.warn(&error),
                Err(late) => self.warn(&late),
            }
        }
    }

    async fn renew(&mut self) -> kube::Result<Renewal> {
        let seen = self.seen.as_ref().map(|seen| seen.lease.clone());
        match self.claim(seen).await {
            Err(error) if lease::is_outdated(&error) => {}
            answer => return answer.map(Renewal::Sent),
        }
        // Somebody else wrote; or the answer to our own last write was lost; or the lease was deleted.
        match self.read().await? {
            Some(current) if lease::holder(&current) != Some(&self.lease.identity) => {
                Ok(Renewal::Taken(lease::holder(&current).cloned()))
            }
            current => self.claim(current).await.map(Renewal::Sent),
        }
    }

    async fn read(&mut self) -> kube::Result<Option<Lease>> {
        let current = self.lease.read().await?;
        if let Some(lease) = &current {
            self.note(lease.clone());
        }
        Ok(current)
    }

    /// Writes this replica into the lease, and tells when that was sent.
    async fn claim(&mut self, seen: Option<Lease>) -> kube::Result<Instant> {
        let sent = Instant::now();
        let claimed = self.lease.claim(seen).await?;
        self.note(claimed);
        Ok(sent)
    }

    fn note(&mut self, lease: Lease) {
        // What others write beside the spec is no sign of life of the holder.
        let unchanged = self.seen.as_ref().filter(|seen| seen.lease.spec == lease.spec);
        let since = unchanged.map_or_else(Instant::now, |seen| seen.since);
        let holder = lease::holder(&lease).cloned();
        self.seen = Some(Seen { lease, since });
        self.election.send_if_modified(|election| {
            let is_new = election.holder != holder;
            election.holder = holder;
            is_new
        });
    }

    /// Whether nobody else leads. A deleted lease is still respected as it was last seen.
    fn is_free(&self) -> bool {
        let Some(Seen { lease, since }) = &self.seen else { return true };
        match lease::holder(lease) {
            Some(holder) if *holder != self.lease.identity => {
                since.elapsed() >= lease::duration(lease).unwrap_or(self.lease.duration)
            }
            _ => true,
        }
    }

    fn pause(&self) -> Duration {
        self.entropy.jitter(self.retry_period.mul_f64(JITTER), 1.0 - 1.0 / JITTER)
    }

    fn warn(&self, error: &dyn std::error::Error) {
        tracing::warn!(lease = self.lease.name, %error, "could not hold the lease, will try again");
    }
}

/// The host's name, which in a cluster is the pod's, and a number: a restarted container is another replica.
fn identity(entropy: &Entropy) -> String {
    let host = std::env::var("HOSTNAME").or_else(|_| std::fs::read_to_string("/etc/hostname"));
    let host = host.unwrap_or_default();
    format!("{}_{:016x}", host.trim(), entropy.number())
}
