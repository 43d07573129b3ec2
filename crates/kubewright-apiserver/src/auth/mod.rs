//! Who is it, and may they: authentication and authorization of every request.
//!
//! [`Authenticator`] turns credentials into a [`UserInfo`]; [`rbac::Rules`] decides what that user
//! may do; [`impersonation`] lets one user act as another; [`review`] answers questions about both over the API.
//! Nothing here reads the store or the clock: objects and times come in as arguments.

pub mod bootstrap;
pub mod certificates;
mod der;
pub mod impersonation;
mod key;
pub mod rbac;
pub mod review;
pub mod token;
pub mod user;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

pub use self::{key::CredentialError, token::ServiceAccountTokens, user::UserInfo};

use self::certificates::Peer;
use self::key::sha256;
use self::rbac::aggregate;
use self::token::{Bearer, Lookup};
use crate::error::ApiError;

const INVALID: &str = "invalid bearer token";

/// Tells users by their credentials: a client certificate, a known token, a service-account token, or none.
#[derive(Debug)]
pub struct Authenticator {
    /// By digest, so that neither the map's order nor the time of a look-up tells anything of a token.
    known: BTreeMap<[u8; 32], Arc<UserInfo>>,
    service_accounts: ServiceAccountTokens,
    audiences: Vec<String>,
    anonymous: Arc<UserInfo>,
}

impl Authenticator {
    /// An authenticator of certificates and service-account tokens.
    pub fn new(service_accounts: ServiceAccountTokens) -> Self {
        Self {
            known: BTreeMap::new(),
            audiences: vec![service_accounts.issuer().to_owned()],
            service_accounts,
            anonymous: Arc::new(UserInfo::anonymous()),
        }
    }

    /// The same, which also takes `token` as the credential of `user`.
    #[must_use]
    pub fn with_token(mut self, token: &str, user: UserInfo) -> Self {
        self.known.insert(sha256(token.as_bytes()), Arc::new(user.authenticated()));
        self
    }

    /// The part that issues service-account tokens.
    pub fn service_accounts(&self) -> &ServiceAccountTokens {
        &self.service_accounts
    }

    /// The user of a request, from its connection and its `Authorization` header. A credential that was given but
    /// does not hold is a 401, unless another one holds; none at all is the anonymous user.
    pub fn authenticate(
        &self,
        peer: &Peer,
        authorization: Option<&str>,
        now: Timestamp,
        lookup: &Lookup<'_>,
    ) -> Result<Arc<UserInfo>, ApiError> {
        if let Peer::Known(user) = peer {
            return Ok(Arc::clone(user));
        }
        match (authorization.and_then(bearer_token), peer) {
            (Some(token), _) => match self.authenticate_token(token, &self.audiences, now, lookup) {
                Ok((user, _)) => Ok(user),
                Err(_) => Err(ApiError::unauthorized()),
            },
            (None, Peer::Rejected) => Err(ApiError::unauthorized()),
            (None, _) => Ok(Arc::clone(&self.anonymous)),
        }
    }

    /// The user of `token`, and for which of `audiences` it is good; else why it is not.
    pub(crate) fn authenticate_token(
        &self,
        token: &str,
        audiences: &[String],
        now: Timestamp,
        lookup: &Lookup<'_>,
    ) -> Result<Bearer, String> {
        if let Some(user) = self.known.get(&sha256(token.as_bytes())) {
            let common: Vec<String> =
                audiences.iter().filter(|one| self.audiences.contains(one)).cloned().collect();
            if !common.is_empty() {
                return Ok((Arc::clone(user), common));
            }
        }
        match self.service_accounts.verify(token, audiences, now, lookup) {
            Ok(Some(user)) => Ok(user),
            Ok(None) => Err(INVALID.to_owned()),
            Err(why) => Err(aggregate([INVALID.to_owned(), why])),
        }
    }
}

/// The token of an `Authorization` header, if it has one.
fn bearer_token(header: &str) -> Option<&str> {
    let mut parts = header.trim().splitn(3, ' ');
    let (scheme, token) = (parts.next()?, parts.next()?);
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// What to warn a client of whose `Authorization` header counts for nothing because of a space too many.
pub fn authorization_warning(header: &str) -> Option<&'static str> {
    let mut parts = header.trim().splitn(3, ' ');
    let ignored = parts.next().is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"))
        && parts.next() == Some("")
        && parts.next().is_some();
    ignored.then_some(
        "the provided Authorization header contains extra space before the bearer token, and is ignored",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::token::{BoundKind, BoundObject};
    use super::*;

    fn world(_: BoundKind, _: &str, name: &str) -> Option<BoundObject> {
        (name == "s").then(|| BoundObject { uid: "u".to_owned(), ..BoundObject::default() })
    }

    #[test]
    fn the_first_credential_that_holds_decides() {
        let tokens = ServiceAccountTokens::generate(token::DEFAULT_ISSUER).unwrap();
        let now: Timestamp = "2026-06-01T12:00:00Z".parse().unwrap();
        let issue = |spec| {
            let issued = tokens.request("ns", "s", &json!({"spec": spec}), now, "id", &world).unwrap();
            format!("Bearer {}", issued.object["status"]["token"].as_str().unwrap())
        };
        let (account, misplaced) = (issue(json!({})), issue(json!({"audiences": ["vault"]})));
        let authenticator = Authenticator::new(tokens)
            .with_token("secret", UserInfo::new("kubernetes-admin", [user::MASTERS]));
        let known = Peer::Known(Arc::new(UserInfo::new("cert", ["g"])));
        for (peer, header, expected) in [
            (&Peer::Nobody, None, Some("system:anonymous")),
            (&Peer::Nobody, Some("Basic YTpi"), Some("system:anonymous")),
            (&Peer::Nobody, Some("Bearer "), Some("system:anonymous")),
            (&Peer::Nobody, Some("Bearer  secret"), Some("system:anonymous")),
            (&Peer::Nobody, Some("bearer secret"), Some("kubernetes-admin")),
            (&Peer::Nobody, Some("Bearer secret more"), Some("kubernetes-admin")),
            (&Peer::Nobody, Some("Bearer wrong"), None),
            (&Peer::Nobody, Some(account.as_str()), Some("system:serviceaccount:ns:s")),
            (&Peer::Nobody, Some(misplaced.as_str()), None),
            (&Peer::Rejected, None, None),
            (&Peer::Rejected, Some("Bearer secret"), Some("kubernetes-admin")),
            (&known, None, Some("cert")),
            (&known, Some("Bearer wrong"), Some("cert")),
        ] {
            let result = authenticator.authenticate(peer, header, now, &world);
            assert_eq!(result.as_ref().ok().map(|user| user.name.as_str()), expected, "{peer:?} {header:?}");
            if let Err(error) = result {
                assert_eq!(
                    (error.code, error.reason, error.message.as_str()),
                    (401, "Unauthorized", "Unauthorized")
                );
            }
        }
    }

    #[test]
    fn a_space_too_many_is_warned_of() {
        for (header, expected) in [
            ("Bearer  secret", true),
            ("bearer  x y", true),
            ("Bearer secret", false),
            ("Basic  x", false),
            ("Bearer ", false),
        ] {
            assert_eq!(authorization_warning(header).is_some(), expected, "{header:?}");
        }
    }
}
