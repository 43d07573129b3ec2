//! The client's end of the line: each call goes through, fails, or is never heard of.

use std::{
    future::{Future, pending},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use kube::client::Body as RequestBody;
use kubewright_apiserver::{ApiServer, Body};
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};
use tower_service::Service as _;

use super::{BoxError, LATENCY, Outage, Wire, deliveries::WireBody, judge::is_of_machinery};
use crate::{
    call::{Call, Class},
    oracle::Oracle,
    plan::Fault,
    state::resource_id,
    trace::{What, digest_of},
};

/// How long the server asks to be left alone.
const RETRY_AFTER: Duration = Duration::from_secs(7);
/// How long a server can't be had, or a policy refuses something, and how often a call may be made in vain meanwhile.
const OUTAGE: Duration = Duration::from_secs(5);
const MOST_TRIES: usize = 100;
/// How slow a slow call is.
const SLOW_CALL: Duration = Duration::from_secs(5);

/// If one call of so many is a write, it is the writes that never end.
const MANY_WRITES: usize = 10;

/// The client's end of the line.
#[derive(Clone)]
pub(super) struct Line {
    pub(super) wire: Wire,
    pub(super) epoch: u64,
}

impl tower_service::Service<Request<RequestBody>> for Line {
    type Response = Response<WireBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}

impl Line {
    async fn send(self, request: Request<RequestBody>) -> Result<Response<WireBody>, BoxError> {
        let call = Call::of(&request);
        if self.is_cut() || !self.is_within_budget(&call) {
            return pending().await;
        }
        if let Some(until) = self.wire.parted_until(self.epoch) {
            sleep_until(until).await;
        }
        let slow = self.wire.state().slow_until.is_some_and(|until| Instant::now() < until);
        if slow && call.class != Class::Watch {
            sleep(SLOW_CALL).await;
        }
        let answer = match call.class {
            Class::Watch => return self.watch(call, request).await,
            Class::Read => self.read(call, request).await,
            Class::Write => self.write(call, request).await,
            Class::Other => Ok(self.pass(&call, request, None).await?.map(WireBody::Whole)),
        };
        sleep(LATENCY).await;
        answer
    }

    fn is_cut(&self) -> bool {
        self.wire.is_cut(self.epoch)
    }

    /// A flood of calls is let run dry: in paused time it would never end.
    fn is_within_budget(&self, call: &Call) -> bool {
        let limit = self.wire.0.judge.most_calls();
        let mut state = self.wire.state();
        state.calls += 1;
        if state.calls > limit {
            state.violate(Oracle::Budget, format!("more than {limit} calls in one run, at last: {call}"));
            if let Some(last) = state.writes.last().filter(|_| state.writes.len() > limit / MANY_WRITES) {
                let seen = format!("no rest within {limit} calls, the last write is: {last}");
                state.violate(Oracle::Converges, seen);
            }
        }
        if let Some(until) = state.pauses.remove(&call.to_string())
            && Instant::now() < until
        {
            let seen =
                format!("{call}: again {:?} before the time that Retry-After told", until - Instant::now());
            state.violate(Oracle::Budget, seen);
        }
        state.calls <= limit
    }

    /// Lets a call through.
    async fn pass(
        &self,
        call: &Call,
        request: Request<RequestBody>,
        fault: Option<Fault>,
    ) -> Result<Response<Body>, BoxError> {
        self.pass_to(&self.wire.0.server, call, request, fault).await
    }

    pub(super) async fn pass_to(
        &self,
        server: &ApiServer,
        call: &Call,
        request: Request<RequestBody>,
        fault: Option<Fault>,
    ) -> Result<Response<Body>, BoxError> {
        let (parts, body) = request.into_parts();
        let sent = body.collect_bytes().await?;
        let stored = || {
            let key = call.key()?;
            server.snapshot().collection(&resource_id(&call.resource)).get(&key).cloned()
        };
        let before = if call.class == Class::Write { stored() } else { None };
        let request = Request::from_parts(parts, RequestBody::from(sent.clone()));
        let answer = server.service(self.wire.0.user.clone()).call(request).await?;
        let told = answer.body().whole().cloned().unwrap_or_default();
        let what = if call.class == Class::Write { What::Write } else { What::Read };
        let digest = digest_of(&call.resource, &[&sent, &told]);
        let mut state = self.wire.state();
        state.note(what, call.to_string(), answer.status().as_u16(), digest, fault);
        if call.class == Class::Write {
            self.wire.0.judge.write(&mut state, call, &sent, before.as_deref(), answer.status(), &told);
            self.wire.fence(&mut state, self.epoch, call, answer.status());
        }
        self.wire.0.judge.answer(&mut state, call, answer.status(), &told);
        drop(state);
        if call.class == Class::Write {
            self.wire.observe();
            self.wire.doubt_readiness(call);
        }
        Ok(answer)
    }

    /// An answer that the server did not give.
    fn fail(
        &self,
        call: &Call,
        fault: Fault,
        code: StatusCode,
        reason: &str,
        message: &str,
    ) -> Response<WireBody> {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code.as_u16(),
            "reason": reason, "message": message,
        });
        self.note_failure(call, code.as_u16(), fault);
        let mut answer = Response::new(WireBody::Whole(Body::from(Bytes::from(status.to_string()))));
        *answer.status_mut() = code;
        answer
    }

    /// A call has come to nothing.
    fn note_failure(&self, call: &Call, code: u16, fault: Fault) {
        let is_write = call.class == Class::Write;
        let what = if is_write { What::Write } else { What::Read };
        let mut state = self.wire.state();
        state.note(what, call.to_string(), code, 0, Some(fault));
        if is_write && self.is_child(call) && call.makes() {
            state.undone.insert(call.to_string());
        }
    }

    /// The failures that calls of all kinds know.
    async fn failure(&self, call: &Call, fault: Fault) -> Option<Result<Response<WireBody>, BoxError>> {
        Some(match fault {
            Fault::TooManyRequests => {
                let mut answer = self.fail(
                    call,
                    fault,
                    StatusCode::TOO_MANY_REQUESTS,
                    "TooManyRequests",
                    "The server has received too many requests and has asked us to try again later",
                );
                answer.headers_mut().insert("retry-after", RETRY_AFTER.as_secs().into());
                let mut state = self.wire.state();
                state.disturb(RETRY_AFTER);
                state.pauses.insert(call.to_string(), Instant::now() + RETRY_AFTER);
                Ok(answer)
            }
            Fault::InternalError => {
                let message = "Internal error occurred: etcdserver: leader changed";
                Ok(self.fail(call, fault, StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message))
            }
            Fault::Unavailable => Ok(self.begin_outage(call, fault)),
            Fault::TimeoutLost => {
                self.note_failure(call, 0, fault);
                self.wire.time_out().await;
                Err(timed_out())
            }
            _ => return None,
        })
    }

    /// From now on a call comes to nothing for a while: so it does not help to be woken up by something else.
    fn begin_outage(&self, call: &Call, fault: Fault) -> Response<WireBody> {
        let mut state = self.wire.state();
        state.disturb(OUTAGE);
        state.outages.insert(call.to_string(), Outage { fault, until: Instant::now() + OUTAGE, tries: 0 });
        drop(state);
        self.refuse(call, fault)
    }

    /// The answer to a call that comes to nothing for a while.
    fn refuse(&self, call: &Call, fault: Fault) -> Response<WireBody> {
        let (code, reason, message) = match fault {
            Fault::Denied => {
                let message = "admission webhook \"policy.example.com\" denied the request: not now";
                (StatusCode::FORBIDDEN, "Forbidden", message)
            }
            _ => {
                let message = "The server is currently unable to handle the request";
                (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
            }
        };
        self.fail(call, fault, code, reason, message)
    }

    /// Why a call still comes to nothing, if it does. Who insists without a pause makes things worse.
    fn outage(&self, call: &Call) -> Option<Fault> {
        let mut state = self.wire.state();
        let outage =
            state.outages.get_mut(&call.to_string()).filter(|outage| Instant::now() < outage.until)?;
        outage.tries += 1;
        let (fault, tries) = (outage.fault, outage.tries);
        if tries > MOST_TRIES {
            let seen = format!("{call}: more than {MOST_TRIES} times within {OUTAGE:?}, in vain each time");
            state.violate(Oracle::Budget, seen);
        }
        Some(fault)
    }

    async fn read(self, call: Call, request: Request<RequestBody>) -> Result<Response<WireBody>, BoxError> {
        let fault = match self.faults_of_read(&call) {
            faults if faults.is_empty() => None,
            faults => self.wire.decide(self.epoch, &call.to_string(), &faults),
        };
        match fault {
            Some(Fault::StaleRead) => {
                let Some((old, _)) = self.wire.before(1) else { return pending().await };
                Ok(self.pass_to(&old, &call, request, fault).await?.map(WireBody::Whole))
            }
            Some(fault) => match self.failure(&call, fault).await {
                Some(answer) => answer,
                None => pending().await,
            },
            None => {
                // Who does not ask for something older is told the newest.
                let server = self.wire.view_of(&call).filter(|_| call.may_be_old);
                let server = server.map_or_else(|| self.wire.0.server.clone(), |view| view.server);
                Ok(self.pass_to(&server, &call, request, None).await?.map(WireBody::Whole))
            }
        }
    }

    fn faults_of_read(&self, call: &Call) -> Vec<Fault> {
        if call.is_told() {
            return Vec::new();
        }
        let has_past = self.wire.before(1).is_some();
        Fault::OF_READS.into_iter().filter(|fault| *fault != Fault::StaleRead || has_past).collect()
    }

    async fn write(self, call: Call, request: Request<RequestBody>) -> Result<Response<WireBody>, BoxError> {
        if let Some(fault) = self.outage(&call) {
            return Ok(self.refuse(&call, fault));
        }
        let fault = match self.faults_of_write(&call) {
            faults if faults.is_empty() => None,
            faults => self.wire.decide(self.epoch, &call.to_string(), &faults),
        };
        let Some(fault) = fault else {
            return Ok(self.pass(&call, request, None).await?.map(WireBody::Whole));
        };
        match fault {
            Fault::CrashBefore => {
                self.wire.state().note(What::Write, call.to_string(), 0, 0, Some(fault));
                self.wire.crash(None);
                return pending().await;
            }
            Fault::CrashAfter => {
                self.pass(&call, request, Some(fault)).await?;
                self.wire.crash(None);
                return pending().await;
            }
            Fault::CrashPastChange => {
                self.pass(&call, request, Some(fault)).await?;
                self.wire.crash_past_change();
                return pending().await;
            }
            Fault::CrashBeforePastChange => {
                self.wire.state().note(What::Write, call.to_string(), 0, 0, Some(fault));
                self.wire.crash_past_change();
                return pending().await;
            }
            Fault::TimeoutApplied => {
                self.pass(&call, request, Some(fault)).await?;
                self.wire.time_out().await;
                return Err(timed_out());
            }
            Fault::TwoLeaders => {
                self.wire.part(self.epoch).await;
                return Ok(self.pass(&call, request, Some(fault)).await?.map(WireBody::Whole));
            }
            Fault::Conflict => {
                let message = "Operation cannot be fulfilled: the object has been modified; please apply your \
                               changes to the latest version and try again";
                return Ok(self.fail(&call, fault, StatusCode::CONFLICT, "Conflict", message));
            }
            Fault::Denied => return Ok(self.begin_outage(&call, fault)),
            _ => {}
        }
        if let Some(answer) = self.failure(&call, fault).await {
            return answer;
        }
        let answer = self.pass(&call, request, Some(fault)).await?;
        self.meddle(&call, fault, answer.body().whole()).await;
        Ok(answer.map(WireBody::Whole))
    }

    /// Whether a call is about something that the operator makes for the resource.
    fn is_child(&self, call: &Call) -> bool {
        call.resource != self.wire.0.primary && call.subresource.is_none() && !is_of_machinery(&call.resource)
    }

    /// What may befall a write.
    fn faults_of_write(&self, call: &Call) -> Vec<Fault> {
        if call.is_told() {
            return Vec::new();
        }
        // A claim that is used stays until it is not, whoever deletes it; and what was there before is nobody's child.
        let original = || self.wire.original(&call.resource, &call.key()?);
        let is_child =
            self.is_child(call) && call.resource != "persistentvolumeclaims" && original().is_none();
        let makes = call.makes();
        let may_befall = |fault: &Fault| match fault {
            // The server itself tries again to delete what has been changed meanwhile.
            Fault::Conflict => call.verb != "create" && makes,
            Fault::ChildDeleted | Fault::ChildDeletedLater => is_child && makes,
            Fault::CrashPastChange | Fault::CrashBeforePastChange => !self.wire.state().is_last,
            Fault::PodLost => self.a_pod().is_some(),
            Fault::TwoLeaders => self.wire.0.elects,
            _ => true,
        };
        Fault::OF_WRITES.into_iter().filter(may_befall).collect()
    }
}

fn timed_out() -> BoxError {
    std::io::Error::new(std::io::ErrorKind::TimedOut, "the call was not answered in time").into()
}
