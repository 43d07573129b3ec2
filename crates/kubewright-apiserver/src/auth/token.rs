//! Service-account tokens: JWTs that say which ServiceAccount, and which Pod, Node or Secret they live and die with.
//!
//! [`ServiceAccountTokens`] answers TokenRequests and verifies what comes back. Whether the objects a token is
//! tied to still exist is asked of the caller through a [`Lookup`] each time; only the signature is remembered.

mod request;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use jiff::Timestamp;
use parking_lot::Mutex;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING as ALGORITHM, UnparsedPublicKey,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use self::request::Issued;
use super::key::{CredentialError, Key, sha256};
use super::rbac::quoted;
use super::user::{CREDENTIAL_ID, NODE_NAME, UserInfo, service_account_groups, service_account_username};

/// The issuer, and the audience of tokens that ask for none, as kubeadm sets it.
pub const DEFAULT_ISSUER: &str = "https://kubernetes.default.svc";

/// Clocks may differ by this many seconds.
const LEEWAY: i64 = 60;
/// Tokens whose signature is remembered as good. At this number all are forgotten.
const REMEMBERED: usize = 4096;

/// A kind of object that a token can be tied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BoundKind {
    /// The ServiceAccount the token is for.
    ServiceAccount,
    /// A Pod of the namespace.
    Pod,
    /// A Secret of the namespace.
    Secret,
    /// A Node; its namespace is empty.
    Node,
}

impl BoundKind {
    fn resource(self) -> &'static str {
        match self {
            Self::ServiceAccount => "serviceaccounts",
            Self::Pod => "pods",
            Self::Secret => "secrets",
            Self::Node => "nodes",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::ServiceAccount => "service account",
            Self::Pod => "pod",
            Self::Secret => "secret",
            Self::Node => "node",
        }
    }
}

/// What matters of an object that a token is tied to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BoundObject {
    /// Its uid.
    pub uid: String,
    /// When its deletion began, if it did.
    pub deleted: Option<Timestamp>,
    /// `spec.serviceAccountName` of a Pod.
    pub service_account: String,
    /// `spec.nodeName` of a Pod.
    pub node: String,
}

impl BoundObject {
    /// What matters of `object`.
    pub fn of(object: &Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        Self {
            uid: text("/metadata/uid").to_owned(),
            deleted: text("/metadata/deletionTimestamp").parse().ok(),
            service_account: text("/spec/serviceAccountName").to_owned(),
            node: text("/spec/nodeName").to_owned(),
        }
    }
}

/// Whom a token speaks for, and which of the audiences asked for it is good for.
pub(crate) type Bearer = (Arc<UserInfo>, Vec<String>);

/// Finds an object by kind, namespace and name.
pub type Lookup<'a> = dyn Fn(BoundKind, &str, &str) -> Option<BoundObject> + 'a;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Claims {
    #[serde(default)]
    aud: Vec<String>,
    exp: i64,
    iat: i64,
    iss: String,
    #[serde(default)]
    jti: String,
    #[serde(rename = "kubernetes.io")]
    kubernetes: Kubernetes,
    nbf: i64,
    sub: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Kubernetes {
    namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pod: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret: Option<Reference>,
    serviceaccount: Reference,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    warnafter: Option<i64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Reference {
    name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    uid: String,
}

/// A token whose signature is good, and whom it speaks for if the rest holds.
#[derive(Debug)]
struct Verified {
    claims: Claims,
    user: Arc<UserInfo>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: String,
}

/// Issues and verifies the tokens of one cluster.
#[derive(Debug)]
pub struct ServiceAccountTokens {
    key: Key,
    key_id: String,
    issuer: String,
    max_seconds: Option<i64>,
    verified: Mutex<BTreeMap<[u8; 32], Arc<Verified>>>,
}

impl ServiceAccountTokens {
    /// With a new key.
    pub fn generate(issuer: impl Into<String>) -> Result<Self, CredentialError> {
        Ok(Self::new(Key::generate(&ALGORITHM)?, issuer.into()))
    }

    /// With the key that was kept.
    pub fn from_pem(issuer: impl Into<String>, key: &str) -> Result<Self, CredentialError> {
        Ok(Self::new(Key::from_pem(&ALGORITHM, key)?, issuer.into()))
    }

    fn new(key: Key, issuer: String) -> Self {
        let key_id = BASE64.encode(sha256(&key.public_info()));
        Self { key, key_id, issuer, max_seconds: None, verified: Mutex::default() }
    }

    /// The same, with tokens that live at most `seconds`.
    #[must_use]
    pub fn with_max_seconds(self, seconds: i64) -> Self {
        Self { max_seconds: Some(seconds), ..self }
    }

    /// The private key, to keep.
    pub fn to_pem(&self) -> String {
        self.key.to_pem()
    }

    /// The issuer of the tokens, and their audience if they ask for none.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// `/openid/v1/jwks`, of the type `application/jwk-set+json`: the public key.
    pub fn key_set(&self) -> Value {
        let (x, y) = self.key.public_point()[1..].split_at(32);
        json!({"keys": [{
            "use": "sig", "kty": "EC", "kid": self.key_id, "crv": "P-256", "alg": "ES256",
            "x": BASE64.encode(x), "y": BASE64.encode(y),
        }]})
    }

    /// `/.well-known/openid-configuration`, for a server reached at `address` (host and port).
    pub fn openid_configuration(&self, address: &str) -> Value {
        json!({
            "issuer": self.issuer,
            "jwks_uri": format!("https://{address}/openid/v1/jwks"),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        })
    }

    fn sign(&self, claims: &Claims) -> Result<String, CredentialError> {
        let header = json!({"alg": "ES256", "kid": self.key_id}).to_string();
        let payload =
            serde_json::to_string(claims).expect("claims are strings and numbers, which always serialise");
        let mut token = format!("{}.{}", BASE64.encode(header), BASE64.encode(payload));
        let signature = self.key.sign(token.as_bytes())?;
        token.push('.');
        token.push_str(&BASE64.encode(signature));
        Ok(token)
    }

    /// Whom `token` speaks for, and for which of `audiences`. `Ok(None)` if it is not one of this issuer's; an
    /// error says why one that claims to be does not hold.
    pub(crate) fn verify(
        &self,
        token: &str,
        audiences: &[String],
        now: Timestamp,
        lookup: &Lookup<'_>,
    ) -> Result<Option<Bearer>, String> {
        let Some(verified) = self.signed_claims(token)? else { return Ok(None) };
        let claims = &verified.claims;
        let common: Vec<String> = audiences.iter().filter(|one| claims.aud.contains(one)).cloned().collect();
        if common.is_empty() {
            let (own, asked) = (quoted(&claims.aud), quoted(audiences));
            return Err(format!("token audiences {own} is invalid for the target audiences {asked}"));
        }
        let second = now.as_second();
        if second.saturating_add(LEEWAY) < claims.nbf {
            return Err("service account token is not valid yet".to_owned());
        }
        if second.saturating_sub(LEEWAY) > claims.exp {
            return Err("service account token has expired".to_owned());
        }
        if second.saturating_add(LEEWAY) < claims.iat {
            return Err("service account token is issued in the future".to_owned());
        }
        check_bound(&claims.kubernetes, second, lookup)?;
        Ok(Some((Arc::clone(&verified.user), common)))
    }

    fn signed_claims(&self, token: &str) -> Result<Option<Arc<Verified>>, String> {
        let digest = sha256(token.as_bytes());
        if let Some(verified) = self.verified.lock().get(&digest) {
            return Ok(Some(Arc::clone(verified)));
        }
        let Some(parts) = Parts::split(token) else { return Ok(None) };
        let issuer = parts.payload.get("iss").and_then(Value::as_str);
        if issuer != Some(self.issuer.as_str()) {
            return Ok(None);
        }
        if !parts.header.kid.is_empty() && parts.header.kid != self.key_id {
            return Err("invalid signature, no keys found".to_owned());
        }
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.key.public_point());
        if parts.header.alg != "ES256" || public.verify(parts.signed, &parts.signature).is_err() {
            return Err("go-jose/go-jose: error in cryptographic primitive".to_owned());
        }
        let claims: Claims = serde_json::from_value(parts.payload)
            .map_err(|why| format!("service account token claims could not be validated: {why}"))?;
        let verified = Arc::new(Verified { user: Arc::new(claims.user()), claims });
        let mut remembered = self.verified.lock();
        if remembered.len() >= REMEMBERED {
            remembered.clear();
        }
        remembered.insert(digest, Arc::clone(&verified));
        Ok(Some(verified))
    }
}

impl Claims {
    fn user(&self) -> UserInfo {
        let Kubernetes { namespace, serviceaccount, pod, node, .. } = &self.kubernetes;
        let mut extra = BTreeMap::new();
        let mut note = |key: &str, value: &str| {
            if !value.is_empty() {
                extra.insert(key.to_owned(), vec![value.to_owned()]);
            }
        };
        if !self.jti.is_empty() {
            note(CREDENTIAL_ID, &format!("JTI={}", self.jti));
        }
        if let Some(pod) = pod {
            note("authentication.kubernetes.io/pod-name", &pod.name);
            note("authentication.kubernetes.io/pod-uid", &pod.uid);
        }
        if let Some(node) = node {
            note(NODE_NAME, &node.name);
            note("authentication.kubernetes.io/node-uid", &node.uid);
        }
        UserInfo {
            name: service_account_username(namespace, &serviceaccount.name),
            uid: serviceaccount.uid.clone(),
            groups: service_account_groups(namespace),
            extra,
        }
        .authenticated()
    }
}

/// Whether all that the token is tied to is still there and still the same.
fn check_bound(claims: &Kubernetes, now: i64, lookup: &Lookup<'_>) -> Result<(), String> {
    let check = |kind: BoundKind, namespace: &str, reference: &Reference| {
        let Reference { name, uid } = reference;
        let account = kind == BoundKind::ServiceAccount;
        let invalidated = || "service account token has been invalidated".to_owned();
        let Some(object) = lookup(kind, namespace, name) else {
            return Err(if account { format!("serviceaccounts {name:?} not found") } else { invalidated() });
        };
        if object.uid != *uid {
            let (word, found) = (kind.word(), &object.uid);
            return Err(if account {
                format!("service account UID ({found}) does not match claim ({uid})")
            } else {
                format!("{word} UID ({found}) does not match service account {word} ref claim ({uid})")
            });
        }
        if object.deleted.is_some_and(|deleted| deleted.as_second() < now.saturating_sub(LEEWAY)) {
            return Err(if account {
                format!("service account {namespace}/{name} has been deleted")
            } else {
                invalidated()
            });
        }
        Ok(())
    };
    check(BoundKind::ServiceAccount, &claims.namespace, &claims.serviceaccount)?;
    if let Some(secret) = &claims.secret {
        check(BoundKind::Secret, &claims.namespace, secret)?;
    }
    match (&claims.pod, &claims.node) {
        // The node of a pod is only told, not checked: the pod's own life decides.
        (Some(pod), _) => check(BoundKind::Pod, &claims.namespace, pod),
        (None, Some(node)) => check(BoundKind::Node, "", node),
        (None, None) => Ok(()),
    }
}

/// The parts of a JWT, not verified.
struct Parts<'a> {
    header: Header,
    payload: Value,
    signed: &'a [u8],
    signature: Vec<u8>,
}

impl<'a> Parts<'a> {
    fn split(token: &'a str) -> Option<Self> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, payload) = signed.split_once('.').filter(|(_, payload)| !payload.contains('.'))?;
        Some(Self {
            header: serde_json::from_slice(&BASE64.decode(header).ok()?).ok()?,
            payload: serde_json::from_slice(&BASE64.decode(payload).ok()?).ok()?,
            signed: signed.as_bytes(),
            signature: BASE64.decode(signature).ok()?,
        })
    }
}
