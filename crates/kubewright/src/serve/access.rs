//! Who may read what is served: whom the API server knows by the token of the request, and allows to `get` the path.
//! What it said is remembered for a while, under fingerprints: a token is neither kept nor logged.

use std::{collections::BTreeMap, time::Duration};

use http::{StatusCode, header, request::Parts};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use tokio::time::{Instant, timeout};

use super::{Answer, PATIENCE, PLAIN, text};
use crate::error::Result;

/// As long as the components of Kubernetes trust such answers.
const KNOWN_FOR: Duration = Duration::from_secs(60);
const ALLOWED_FOR: Duration = Duration::from_secs(300);
const DENIED_FOR: Duration = Duration::from_secs(30);

/// How many answers of each sort are remembered.
const REMEMBERED: usize = 1024;

/// Asks the API server who may read.
pub(crate) struct Access {
    client: Client,
    /// By token; nobody for a token that is not good.
    users: Mutex<Remembered<Option<UserInfo>>>,
    /// By what was asked.
    rights: Mutex<Remembered<bool>>,
}

impl Access {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, users: Mutex::default(), rights: Mutex::default() }
    }

    /// Why a request is not answered, if it is not to be.
    pub(super) async fn refusal(&self, request: &Parts) -> Option<Answer> {
        let Some(token) = bearer(request) else { return Some(unauthorized()) };
        match timeout(PATIENCE, self.decide(token, request.uri.path())).await {
            Ok(Ok(Decision::Allowed)) => None,
            Ok(Ok(Decision::Unknown)) => Some(unauthorized()),
            Ok(Ok(Decision::Denied)) => {
                Some(text(StatusCode::FORBIDDEN, PLAIN, "this user may not read this\n"))
            }
            Ok(Err(error)) => Some(failed(&error)),
            Err(late) => Some(failed(&late)),
        }
    }

    async fn decide(&self, token: &str, path: &str) -> Result<Decision> {
        let Some(user) = self.user(token).await? else { return Ok(Decision::Unknown) };
        let is_allowed = self.is_allowed(user, path).await?;
        Ok(if is_allowed { Decision::Allowed } else { Decision::Denied })
    }

    async fn user(&self, token: &str) -> Result<Option<UserInfo>> {
        let print = fingerprint(token.as_bytes());
        if let Some(user) = self.users.lock().get(&print) {
            return Ok(user);
        }
        let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let status = reviews.create(&PostParams::default(), &review).await?.status.unwrap_or_default();
        let user = status.user.filter(|_| status.authenticated == Some(true));
        self.users.lock().put(print, user.clone(), KNOWN_FOR);
        Ok(user)
    }

    async fn is_allowed(&self, user: UserInfo, path: &str) -> Result<bool> {
        let attributes = NonResourceAttributes { path: Some(path.to_owned()), verb: Some("get".to_owned()) };
        let spec = SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            non_resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let print = fingerprint(&serde_json::to_vec(&spec)?);
        if let Some(is_allowed) = self.rights.lock().get(&print) {
            return Ok(is_allowed);
        }
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let status = reviews.create(&PostParams::default(), &review).await?.status;
        let is_allowed = status.is_some_and(|status| status.allowed && status.denied != Some(true));
        self.rights.lock().put(print, is_allowed, if is_allowed { ALLOWED_FOR } else { DENIED_FOR });
        Ok(is_allowed)
    }
}

enum Decision {
    Allowed,
    /// The user is known, but may not.
    Denied,
    /// The token is not good.
    Unknown,
}

fn bearer(request: &Parts) -> Option<&str> {
    let (scheme, token) = request.headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let is_token = scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty();
    is_token.then(|| token.trim())
}

fn unauthorized() -> Answer {
    let mut answer = text(StatusCode::UNAUTHORIZED, PLAIN, "a token that the API server knows is needed\n");
    answer.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
    answer
}

fn failed(error: &dyn std::fmt::Display) -> Answer {
    tracing::error!(%error, "the API server did not say who may read the metrics");
    text(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, "the API server did not say whether this may be read\n")
}

type Fingerprint = [u8; 32];

fn fingerprint(secret: &[u8]) -> Fingerprint {
    let mut print = Fingerprint::default();
    print.copy_from_slice(digest(&SHA256, secret).as_ref());
    print
}

/// Answers, and until when they count.
struct Remembered<V>(BTreeMap<Fingerprint, (V, Instant)>);

impl<V> Default for Remembered<V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<V: Clone> Remembered<V> {
    fn get(&self, print: &Fingerprint) -> Option<V> {
        self.0.get(print).filter(|(_, until)| Instant::now() < *until).map(|(value, _)| value.clone())
    }

    fn put(&mut self, print: Fingerprint, value: V, time: Duration) {
        let now = Instant::now();
        if self.0.len() >= REMEMBERED {
            self.0.retain(|_, (_, until)| now < *until);
        }
        if self.0.len() >= REMEMBERED {
            let first = self.0.iter().min_by_key(|(_, (_, until))| *until).map(|(print, _)| *print);
            first.map(|print| self.0.remove(&print));
        }
        self.0.insert(print, (value, now + time));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn answers_are_remembered_for_their_time_and_never_more_than_so_many() {
        let mut remembered = Remembered::default();
        let print = |number: usize| fingerprint(&number.to_be_bytes());
        remembered.put(print(0), 0, Duration::from_secs(60));
        for number in 1..REMEMBERED {
            remembered.put(print(number), number, Duration::from_secs(300));
        }
        assert_eq!(remembered.get(&print(0)), Some(0));
        remembered.put(print(REMEMBERED), REMEMBERED, Duration::from_secs(300));
        assert_eq!(remembered.get(&print(0)), None, "it would have been the first to go");
        assert_eq!(remembered.0.len(), REMEMBERED);
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!(remembered.get(&print(1)), None);
        remembered.put(print(0), 0, Duration::from_secs(60));
        assert_eq!(remembered.0.len(), 1);
    }
}
