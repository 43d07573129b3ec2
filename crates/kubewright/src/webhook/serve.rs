//! Answers the API server: admission reviews by path, conversions on one path for all kinds. Whatever a handler does, an
//! answer comes in time: if it panics, fails or takes too long, the API server is told that it can't be said; of admission,
//! the failure policy then decides.

use std::{collections::BTreeMap, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use http::{Method, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use hyper::{Request, body::Incoming};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::{Call, Handle};
use crate::{
    conversion::Conversions,
    error::panic_message,
    kind::KindName,
    lookup::Lookup,
    metrics::Metrics,
    serve::{Answer, Answers, PLAIN, Tls, text},
};

const JSON: &str = "application/json";
/// More than a review of admission has, which is of two objects of at most 3 MiB each; and as much as the API server sends
/// of a list to convert.
const LARGEST: usize = 64 << 20;
/// The API server waits no longer than 30 seconds.
const LONGEST: Duration = Duration::from_secs(30);

/// What is behind a path.
pub(crate) enum Hook {
    Admission { kind: KindName, handle: Handle, lookup: Lookup },
    Conversion(Conversions),
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
            let why = format!("a review is expected, as {JSON}\n");
            return text(StatusCode::UNSUPPORTED_MEDIA_TYPE, PLAIN, why);
        }
        let allowed = time_allowed(request.uri().query().unwrap_or_default());
        let answer = async {
            let body = match Limited::new(request.into_body(), LARGEST).collect().await {
                Ok(body) => body.to_bytes(),
                Err(why) => return text(StatusCode::BAD_REQUEST, PLAIN, format!("{why}\n")),
            };
            match AssertUnwindSafe(self.review(&body)).catch_unwind().await {
                Ok(Ok(review)) => text(StatusCode::OK, JSON, review.to_string()),
                Ok(Err(failure)) => failure.tell(),
                Err(panic) => Failure::Own(format!("it panicked: {}", panic_message(&*panic))).tell(),
            }
        };
        timeout(allowed, answer).await.unwrap_or_else(|_| {
            text(StatusCode::GATEWAY_TIMEOUT, PLAIN, format!("it took longer than {allowed:?}\n"))
        })
    }

    async fn review(&self, body: &[u8]) -> Result<Value, Failure> {
        match self {
            Self::Admission { kind, handle, lookup } => {
                let call = Call::read(body).map_err(Failure::Theirs)?;
                // Of half of what there is nothing can be concluded.
                lookup.synced().await;
                let response = handle.answer(kind, call, lookup.clone()).await;
                let response = response.map_err(|error| Failure::Own(error.to_string()))?;
                Ok(json!({
                    "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
                }))
            }
            Self::Conversion(conversions) => {
                let review = serde_json::from_slice(body);
                let review = review.map_err(|why| Failure::Theirs(format!("this is no JSON: {why}")))?;
                Ok(conversions.review(review))
            }
        }
    }
}

/// Why there is no review to answer with.
enum Failure {
    /// What was sent makes no sense.
    Theirs(String),
    /// What was sent may be fine.
    Own(String),
}

impl Failure {
    fn tell(self) -> Answer {
        match self {
            Self::Theirs(why) => text(StatusCode::BAD_REQUEST, PLAIN, why),
            Self::Own(why) => {
                tracing::error!(error = why, "a webhook failed");
                text(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, why)
            }
        }
    }
}

/// A little less than the API server waits, so that it hears why.
fn time_allowed(query: &str) -> Duration {
    let asked = query.split('&').find_map(|pair| pair.strip_prefix("timeout=")?.strip_suffix('s'));
    let asked = asked.and_then(|seconds| seconds.parse().ok()).map_or(LONGEST, Duration::from_secs);
    asked.min(LONGEST).mul_f64(0.9)
}
