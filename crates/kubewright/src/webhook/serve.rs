//! Answers the API server: admission reviews by path, conversions on one path for all kinds. Whatever a handler does, an
//! answer comes in time: if it panics, fails or takes too long, the API server is told that it can't be said, and goes by
//! the failure policy.

use std::{collections::BTreeMap, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use http::{Method, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use hyper::{Request, body::Incoming};
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::{Call, Handle};
use crate::{
    error::panic_message,
    kind::KindName,
    lookup::Lookup,
    metrics::Metrics,
    serve::{Answer, Answers, PLAIN, Tls, text},
};

const JSON: &str = "application/json";
/// More than any review has: two objects, of at most 3 MiB each, and what is said of them.
const LARGEST: usize = 16 << 20;
/// The API server waits no longer than 30 seconds.
const LONGEST: Duration = Duration::from_secs(30);

/// One webhook, as it is served.
pub(crate) struct Hook {
    pub(crate) kind: KindName,
    pub(crate) handle: Handle,
    pub(crate) lookup: Lookup,
}

/// All webhooks of an operator.
pub(crate) struct Desk {
    pub(crate) tls: Arc<Tls>,
    /// By path.
    pub(crate) hooks: BTreeMap<String, Hook>,
    pub(crate) metrics: Metrics,
}

impl Answers for Desk {
    fn tls(&self) -> Option<&Tls> {
        Some(&self.tls)
    }

    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let path = request.uri().path().to_owned();
        let Some(hook) = self.hooks.get(&path) else {
            return text(StatusCode::NOT_FOUND, PLAIN, "no webhook is here\n");
        };
        let (began, _running) = (Instant::now(), self.metrics.webhook(&path));
        let answer = hook.answer(request).await;
        self.metrics.webhook_answered(&path, answer.status(), began.elapsed());
        answer
    }
}

impl Hook {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        if request.method() != Method::POST {
            return text(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only POST is answered here\n");
        }
        let is_json = request
            .headers()
            .get(header::CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok())
            .is_some_and(|kind| kind.split(';').next().is_some_and(|kind| kind.trim() == JSON));
        if !is_json {
            let why = format!("an AdmissionReview is expected, as {JSON}\n");
            return text(StatusCode::UNSUPPORTED_MEDIA_TYPE, PLAIN, why);
        }
        let allowed = time_allowed(request.uri().query().unwrap_or_default());
        let answer = async {
            let body = match Limited::new(request.into_body(), LARGEST).collect().await {
                Ok(body) => body.to_bytes(),
                Err(why) => return text(StatusCode::BAD_REQUEST, PLAIN, format!("{why}\n")),
            };
            let call = match Call::read(&body) {
                Ok(call) => call,
                Err(why) => return text(StatusCode::BAD_REQUEST, PLAIN, why + "\n"),
            };
            self.handle(call).await
        };
        timeout(allowed, answer).await.unwrap_or_else(|_| {
            text(StatusCode::GATEWAY_TIMEOUT, PLAIN, format!("it took longer than {allowed:?}\n"))
        })
    }

    async fn handle(&self, call: Call) -> Answer {
        let answering = self.handle.answer(&self.kind, call, self.lookup.clone());
        let failure = match AssertUnwindSafe(answering).catch_unwind().await {
            Ok(Ok(response)) => {
                let review = json!({
                    "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
                });
                return text(StatusCode::OK, JSON, review.to_string());
            }
            Ok(Err(error)) => error.to_string(),
            Err(panic) => format!("it panicked: {}", panic_message(&*panic)),
        };
        tracing::error!(kind = %self.kind, error = failure, "a webhook failed");
        text(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, failure)
    }
}

/// A little less than the API server waits, so that it hears why.
fn time_allowed(query: &str) -> Duration {
    let asked = query.split('&').find_map(|pair| pair.strip_prefix("timeout=")?.strip_suffix('s'));
    let asked = asked.and_then(|seconds| seconds.parse().ok()).map_or(LONGEST, Duration::from_secs);
    asked.min(LONGEST).mul_f64(0.9)
}
