//! The `token` subresource of ServiceAccounts: a TokenRequest and its answer.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{BoundKind, BoundObject, Claims, Kubernetes, Lookup, Reference, ServiceAccountTokens};
use crate::auth::user::service_account_username;
use crate::error::{ApiError, Subject};
use crate::field::{FieldError, Path};

const GROUP: &str = "authentication.k8s.io";
const MIN_SECONDS: i64 = 10 * 60;
const MAX_SECONDS: i64 = 1 << 32;
/// What kubelets ask for. Such a token warns after that time but works for a year, because old clients never
/// read it again.
const KUBELET_SECONDS: i64 = 60 * 60 + 7;
const EXTENDED_SECONDS: i64 = 365 * 24 * 60 * 60;

/// An answered TokenRequest.
#[derive(Debug, Clone, PartialEq)]
pub struct Issued {
    /// The TokenRequest with its status.
    pub object: Value,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

impl ServiceAccountTokens {
    /// Answers a TokenRequest for the ServiceAccount of the request's path. `id` is the new token's own, a uuid.
    pub fn request(
        &self,
        namespace: &str,
        name: &str,
        request: &Value,
        now: Timestamp,
        id: &str,
        lookup: &Lookup<'_>,
    ) -> Result<Issued, ApiError> {
        let kind = Subject { group: GROUP, resource: "TokenRequest", kind: "TokenRequest" };
        let given = |field: &str| -> &str {
            request.pointer(&format!("/metadata/{field}")).and_then(Value::as_str).unwrap_or_default()
        };
        for (field, expected) in [("name", name), ("namespace", namespace)] {
            if !given(field).is_empty() && given(field) != expected {
                let path = Path::new("metadata").child(field);
                let detail = format!("must match the service account {field} if specified");
                let error = FieldError::invalid(&path, given(field), detail);
                return Err(ApiError::invalid(&kind, name, &[error]));
            }
        }
        let account = find(lookup, BoundKind::ServiceAccount, namespace, name)?;
        if !given("uid").is_empty() && given("uid") != account.uid {
            let why = format!(
                "the UID in the token request ({}) does not match the UID of the service account ({})",
                given("uid"),
                account.uid
            );
            return Err(ApiError::conflict(&kind, name, why));
        }

        let spec = request.get("spec").unwrap_or(&Value::Null);
        let mut seconds = spec.get("expirationSeconds").and_then(Value::as_i64).unwrap_or(60 * 60);
        let path = Path::new("spec.expirationSeconds");
        for (bad, detail) in [
            (seconds < MIN_SECONDS, "may not specify a duration less than 10 minutes"),
            (seconds > MAX_SECONDS, "may not specify a duration larger than 2^32 seconds"),
        ] {
            if bad {
                return Err(ApiError::invalid(&kind, "", &[FieldError::invalid(&path, seconds, detail)]));
            }
        }
        let asked = spec.get("audiences").and_then(Value::as_array).into_iter().flatten();
        let mut audiences: Vec<String> = asked.filter_map(Value::as_str).map(str::to_owned).collect();
        if audiences.is_empty() {
            audiences.push(self.issuer.clone());
        }
        let bound_ref = spec.get("boundObjectRef").unwrap_or(&Value::Null);
        let mut kubernetes = Kubernetes {
            namespace: namespace.to_owned(),
            node: None,
            pod: None,
            secret: None,
            serviceaccount: Reference { name: name.to_owned(), uid: account.uid.clone() },
            warnafter: None,
        };
        if !bound_ref.is_null() {
            bind(&mut kubernetes, bound_ref, lookup)?;
        }

        let mut warnings = Vec::new();
        if let Some(max) = self.max_seconds.filter(|max| *max > 0 && seconds > *max) {
            warnings.push(format!("requested expiration of {seconds} seconds shortened to {max} seconds"));
            seconds = max;
        }
        let issued_at = now.as_second();
        let own_audience = audiences.iter().all(|audience| *audience == self.issuer);
        let mut lifetime = seconds;
        if kubernetes.pod.is_some() && seconds == KUBELET_SECONDS && own_audience {
            kubernetes.warnafter = Some(issued_at.saturating_add(seconds));
            lifetime = EXTENDED_SECONDS;
        }
        let claims = Claims {
            aud: audiences,
            exp: issued_at.saturating_add(lifetime),
            iat: issued_at,
            iss: self.issuer.clone(),
            jti: id.to_owned(),
            kubernetes,
            nbf: issued_at,
            sub: service_account_username(namespace, name),
        };
        let token = self
            .sign(&claims)
            .map_err(|why| ApiError::internal(format!("failed to generate token: {why}")))?;

        let time = |second| {
            Timestamp::from_second(second)
                .map(|time| time.to_string())
                .unwrap_or_else(|_| Timestamp::MAX.to_string())
        };
        let mut metadata = request.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
        metadata.insert("name".to_owned(), name.into());
        metadata.insert("namespace".to_owned(), namespace.into());
        metadata.insert("uid".to_owned(), account.uid.into());
        metadata.insert("creationTimestamp".to_owned(), time(issued_at).into());
        let object = json!({
            "kind": "TokenRequest",
            "apiVersion": format!("{GROUP}/v1"),
            "metadata": metadata,
            "spec": {"audiences": claims.aud, "expirationSeconds": seconds, "boundObjectRef": bound_ref},
            "status": {"token": token, "expirationTimestamp": time(issued_at.saturating_add(seconds))},
        });
        Ok(Issued { object, warnings })
    }
}

fn find(lookup: &Lookup<'_>, kind: BoundKind, namespace: &str, name: &str) -> Result<BoundObject, ApiError> {
    lookup(kind, namespace, name).ok_or_else(|| {
        let subject = Subject { resource: kind.resource(), ..Subject::default() };
        ApiError::not_found(&subject, name)
    })
}

/// Ties the claims to the object that a TokenRequest refers to.
fn bind(claims: &mut Kubernetes, reference: &Value, lookup: &Lookup<'_>) -> Result<(), ApiError> {
    let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
    let (kind, name) = (text("kind"), text("name"));
    let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
    let object = match (group, kind) {
        ("", "Pod") => {
            let pod = find(lookup, BoundKind::Pod, &claims.namespace, name)?;
            let account = &claims.serviceaccount.name;
            if pod.service_account != *account {
                return Err(ApiError::bad_request(format!(
                    "cannot bind token for serviceaccount {account:?} to pod running with different \
                     serviceaccount name."
                )));
            }
            if !pod.node.is_empty() {
                let uid = lookup(BoundKind::Node, "", &pod.node).map(|node| node.uid).unwrap_or_default();
                claims.node = Some(Reference { name: pod.node.clone(), uid });
            }
            claims.pod = Some(Reference { name: name.to_owned(), uid: pod.uid.clone() });
            pod
        }
        ("", "Node") => {
            let node = find(lookup, BoundKind::Node, "", name)?;
            claims.node = Some(Reference { name: name.to_owned(), uid: node.uid.clone() });
            node
        }
        ("", "Secret") => {
            let secret = find(lookup, BoundKind::Secret, &claims.namespace, name)?;
            claims.secret = Some(Reference { name: name.to_owned(), uid: secret.uid.clone() });
            secret
        }
        _ => {
            let shown = format!("{group}/{version}, Kind={kind}");
            return Err(ApiError::bad_request(format!("cannot bind token to object of type {shown}")));
        }
    };
    let uid = text("uid");
    if !uid.is_empty() && uid != object.uid {
        let subject = Subject { group, resource: kind, kind };
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might \
             have been deleted and then recreated"
        );
        return Err(ApiError::conflict(&subject, name, why));
    }
    Ok(())
}
