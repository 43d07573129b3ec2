//! One question of the API server, and its answer: an AdmissionReview comes in as JSON, and one goes out.

use std::{collections::BTreeMap, fmt, marker::PhantomData, pin::Pin, sync::Arc};

use k8s_openapi::{ByteString, api::authentication::v1::UserInfo};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Handle, patch};
use crate::{
    controller::Views,
    error::Result,
    kind::{KindName, Object},
    lookup::Lookup,
};

/// What is to be done with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    /// As rules and requests spell it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// What is asked about an object, by whom, and what was there before.
///
/// In a test it is made up: `Admission::create()`, `Admission::update(old)`, `Admission::delete()`.
pub struct Admission<K> {
    /// What is to be done.
    pub operation: Operation,
    /// The object before an update.
    pub old: Option<K>,
    /// Who asks for it.
    pub user: UserInfo,
    /// Whether nothing will come of it. A webhook that does something besides answering must not do so then.
    pub is_dry_run: bool,
    /// The object's namespace; nothing for objects outside of namespaces.
    pub namespace: Option<String>,
    /// The object's name; empty while the API server has not made one up yet.
    pub name: String,
    lookup: Lookup,
}

impl<K> fmt::Debug for Admission<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission")
            .field("operation", &self.operation)
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .field("user", &self.user.username)
            .finish_non_exhaustive()
    }
}

impl<K> Admission<K> {
    /// A request to create an object.
    pub fn create() -> Self {
        Self::new(Operation::Create, None)
    }

    /// A request to update an object that was `old` until now.
    pub fn update(old: K) -> Self {
        Self::new(Operation::Update, Some(old))
    }

    /// A request to delete an object.
    pub fn delete() -> Self {
        Self::new(Operation::Delete, None)
    }

    fn new(operation: Operation, old: Option<K>) -> Self {
        Self {
            operation,
            old,
            user: UserInfo::default(),
            is_dry_run: false,
            namespace: None,
            name: String::new(),
            lookup: Lookup::new(Views::new("made up").share()),
        }
    }

    /// Reads from memory what the webhook was said to [read](super::Webhook::reads).
    pub fn lookup(&self) -> &Lookup {
        &self.lookup
    }
}

/// What a webhook says: whether a request may go on, why not, and what its sender should know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "nothing is refused unless the verdict is returned"]
pub struct Verdict {
    refusals: Vec<Refusal>,
    warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Refusal {
    /// Empty if it is about the object as a whole.
    field: String,
    reason: &'static str,
    message: String,
}

impl Verdict {
    /// The request may go on.
    pub fn allowed() -> Self {
        Self::default()
    }

    /// The request is refused.
    pub fn denied(why: impl Into<String>) -> Self {
        Self::default().refuse("", "", why.into())
    }

    /// The request is refused because of the value of a field, as in `spec.size`.
    pub fn invalid(self, field: &str, value: impl Into<Value>, why: impl fmt::Display) -> Self {
        self.refuse(field, "FieldValueInvalid", format!("Invalid value: {}: {why}", value.into()))
    }

    /// The request is refused because a field is missing.
    pub fn required(self, field: &str, why: impl fmt::Display) -> Self {
        self.refuse(field, "FieldValueRequired", format!("Required value: {why}"))
    }

    /// The request is refused because a field may not be set, or not be changed.
    pub fn forbidden(self, field: &str, why: impl fmt::Display) -> Self {
        self.refuse(field, "FieldValueForbidden", format!("Forbidden: {why}"))
    }

    /// Tells the sender something, whatever becomes of the request. kubectl prints it.
    pub fn warn(mut self, text: impl Into<String>) -> Self {
        self.warnings.push(text.into());
        self
    }

    /// Whether the request may go on.
    pub fn is_allowed(&self) -> bool {
        self.refusals.is_empty()
    }

    /// Why it may not: one line for each reason.
    pub fn reasons(&self) -> Vec<String> {
        self.refusals.iter().map(ToString::to_string).collect()
    }

    /// What the sender is told besides.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn refuse(mut self, field: &str, reason: &'static str, message: String) -> Self {
        self.refusals.push(Refusal { field: field.to_owned(), reason, message });
        self
    }

    /// As the API server itself says that an object is invalid; or, of one that is refused as a whole, just why.
    fn status(&self, kind: &KindName, name: &str) -> Value {
        let reasons = self.reasons();
        if self.refusals.iter().all(|refusal| refusal.field.is_empty()) {
            let message = reasons.join(", ");
            return json!({"status": "Failure", "code": 403, "reason": "Forbidden", "message": message});
        }
        let why = match reasons.as_slice() {
            [one] => one.clone(),
            all => format!("[{}]", all.join(", ")),
        };
        let KindName { group, kind, .. } = kind;
        let full = if group.is_empty() { kind.clone() } else { format!("{kind}.{group}") };
        let cause = |refusal: &Refusal| json!({"reason": refusal.reason, "field": refusal.field, "message": refusal.message});
        json!({
            "status": "Failure",
            "code": 422,
            "reason": "Invalid",
            "message": format!("{full} {name:?} is invalid: {why}"),
            "details": {
                "name": name,
                "group": group,
                "kind": kind,
                "causes": self.refusals.iter().map(cause).collect::<Vec<_>>(),
            },
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => f.write_str(&self.message),
            field => write!(f, "{field}: {}", self.message),
        }
    }
}

/// What functions that are webhooks may return: a [`Verdict`], nothing if there is nothing to refuse, or either in a
/// `Result`, whose error means that it can't be said.
pub trait Outcome {
    #[doc(hidden)]
    fn verdict(self) -> Result<Verdict>;
}

impl Outcome for () {
    fn verdict(self) -> Result<Verdict> {
        Ok(Verdict::allowed())
    }
}

impl Outcome for Verdict {
    fn verdict(self) -> Result<Verdict> {
        Ok(self)
    }
}

impl<O: Outcome> Outcome for Result<O> {
    fn verdict(self) -> Result<Verdict> {
        self?.verdict()
    }
}

/// Fills in what objects leave open. Functions are defaulters; what has to wait for something implements this.
pub trait Defaulter<K>: Send + Sync + 'static {
    /// Changes the object as it will be stored. An error means that it can't be said now: what becomes of the request
    /// then is up to the [failure policy](super::Webhook::failure_policy).
    fn fill(&self, object: &mut K, admission: &Admission<K>) -> impl Future<Output = Result<Verdict>> + Send;
}

impl<K, F, O> Defaulter<K> for F
where
    K: Object,
    F: Fn(&mut K, &Admission<K>) -> O + Send + Sync + 'static,
    O: Outcome,
{
    async fn fill(&self, object: &mut K, admission: &Admission<K>) -> Result<Verdict> {
        self(object, admission).verdict()
    }
}

/// Decides about objects. Functions are validators; what has to wait for something implements this.
pub trait Validator<K>: Send + Sync + 'static {
    /// Decides about the object as it would be stored, or that is to be deleted. An error means that it can't be said
    /// now: what becomes of the request then is up to the [failure policy](super::Webhook::failure_policy).
    fn check(&self, object: &K, admission: &Admission<K>) -> impl Future<Output = Result<Verdict>> + Send;
}

impl<K, F, O> Validator<K> for F
where
    K: Object,
    F: Fn(&K, &Admission<K>) -> O + Send + Sync + 'static,
    O: Outcome,
{
    async fn check(&self, object: &K, admission: &Admission<K>) -> Result<Verdict> {
        self(object, admission).verdict()
    }
}

/// A request as it is in an AdmissionReview.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Call {
    uid: String,
    operation: Operation,
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    user_info: UserInfo,
    #[serde(default)]
    dry_run: bool,
    #[serde(default)]
    object: Value,
    #[serde(default)]
    old_object: Value,
}

impl Call {
    /// Reads a review, and says what is wrong with one that is none.
    pub(super) fn read(body: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Review {
            request: Option<Call>,
        }
        let review: Review =
            serde_json::from_slice(body).map_err(|why| format!("this is no AdmissionReview: {why}"))?;
        review.request.ok_or_else(|| "the AdmissionReview has no request".to_owned())
    }
}

type Answering<'a> = Pin<Box<dyn Future<Output = Result<Value>> + Send + 'a>>;

/// A webhook of any kind.
pub(crate) trait Handler: Send + Sync {
    /// The response of the review.
    fn answer<'a>(&'a self, kind: &'a KindName, call: Call, lookup: Lookup) -> Answering<'a>;
}

struct Defaulting<K, D>(D, PhantomData<fn(K)>);
struct Validating<K, V>(V, PhantomData<fn(K)>);

pub(super) fn defaulting<K: Object>(defaulter: impl Defaulter<K>) -> Handle {
    Arc::new(Defaulting(defaulter, PhantomData))
}

pub(super) fn validating<K: Object>(validator: impl Validator<K>) -> Handle {
    Arc::new(Validating(validator, PhantomData))
}

impl<K: Object, D: Defaulter<K>> Handler for Defaulting<K, D> {
    fn answer<'a>(&'a self, kind: &'a KindName, call: Call, lookup: Lookup) -> Answering<'a> {
        Box::pin(async move {
            let uid = call.uid.clone();
            let (sent, mut object, admission) = match read::<K>(call, lookup) {
                Ok(read) => read,
                // It is not valid yet, and says so itself when the server looks at it next.
                Err(_) => return Ok(json!({"uid": uid, "allowed": true})),
            };
            let before = serde_json::to_value(&object)?;
            let verdict = self.0.fill(&mut object, &admission).await?;
            let operations = patch::patch(&sent, &before, &serde_json::to_value(&object)?);
            let mut response = respond(&uid, kind, &admission.name, &verdict);
            if verdict.is_allowed() && !operations.is_empty() {
                response["patchType"] = json!("JSONPatch");
                response["patch"] = json!(ByteString(serde_json::to_vec(&operations)?));
            }
            Ok(response)
        })
    }
}

impl<K: Object, V: Validator<K>> Handler for Validating<K, V> {
    fn answer<'a>(&'a self, kind: &'a KindName, call: Call, lookup: Lookup) -> Answering<'a> {
        Box::pin(async move {
            let uid = call.uid.clone();
            let (_, object, admission) = match read::<K>(call, lookup) {
                Ok(read) => read,
                Err(why) => return Ok(unreadable(&uid, kind, &why)),
            };
            let verdict = self.0.check(&object, &admission).await?;
            Ok(respond(&uid, kind, &admission.name, &verdict))
        })
    }
}

/// The object as it was sent and as what it is, and what else is asked.
fn read<K: Object>(call: Call, lookup: Lookup) -> serde_json::Result<(Value, K, Admission<K>)> {
    let Call { operation, name, namespace, user_info, dry_run, object, old_object, .. } = call;
    let (sent, old) = match operation {
        // Of what is deleted there is only what it was.
        Operation::Delete => (old_object, Value::Null),
        _ => (object, old_object),
    };
    let admission = Admission {
        old: if old.is_null() { None } else { Some(K::deserialize(old)?) },
        user: user_info,
        is_dry_run: dry_run,
        namespace: Some(namespace).filter(|namespace| !namespace.is_empty()),
        name,
        lookup,
        ..Admission::new(operation, None)
    };
    let object = K::deserialize(&sent)?;
    Ok((sent, object, admission))
}

/// An object that the type of the webhook can't hold is none that the operator could work with.
fn unreadable(uid: &str, kind: &KindName, why: &serde_json::Error) -> Value {
    let message = format!("this can't be read as a {}: {why}", kind.kind);
    let status = json!({"status": "Failure", "code": 400, "reason": "BadRequest", "message": message});
    json!({"uid": uid, "allowed": false, "status": status})
}

fn respond(uid: &str, kind: &KindName, name: &str, verdict: &Verdict) -> Value {
    let mut response = BTreeMap::from([("uid", json!(uid)), ("allowed", json!(verdict.is_allowed()))]);
    if !verdict.is_allowed() {
        response.insert("status", verdict.status(kind, name));
    }
    if !verdict.warnings.is_empty() {
        response.insert("warnings", json!(verdict.warnings));
    }
    json!(response)
}
