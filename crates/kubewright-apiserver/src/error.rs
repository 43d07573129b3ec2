//! The one error of the API: a `Status`, as Kubernetes clients understand it.
//!
//! Every refusal on the way of a request ends as one of these; the HTTP layer only serialises it.
//! The constructors carry the exact wording of kube-apiserver, because people search for it.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::field::FieldError;

/// A request's failure: HTTP code, machine-readable reason and a message for people.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The HTTP status code.
    pub code: u16,
    /// The reason clients switch on, such as `NotFound`. Empty for an unexplained failure.
    pub reason: &'static str,
    /// The message for people.
    pub message: String,
    /// What the failure is about.
    pub details: Option<Box<Details>>,
    /// Where a list whose token has expired can go on, inconsistently.
    pub continue_token: String,
    /// A `Status` of somebody else that is passed on as it is.
    pub verbatim: Option<Box<serde_json::Value>>,
}

/// What a failure is about, and its single causes.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// Name of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// API group of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Resource or kind of the object, as kube-apiserver reports it for the case.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Uid of the object, where the answer names one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The single causes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// Seconds after which to try again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
}

/// One cause of a failure, usually one field.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Cause {
    /// Machine-readable reason, such as `FieldValueRequired`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The message for people, without the field.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Path of the field.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// What an error speaks of: group, resource (plural) and kind. All three, as messages use either.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Subject<'a> {
    /// API group; empty for core.
    pub group: &'a str,
    /// Plural resource name, such as `deployments`.
    pub resource: &'a str,
    /// Kind, such as `Deployment`.
    pub kind: &'a str,
}

impl Subject<'_> {
    fn qualified(name: &str, group: &str) -> String {
        if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
    }

    fn resource(&self) -> String {
        Self::qualified(self.resource, self.group)
    }
}

impl ApiError {
    /// An error without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
            continue_token: String::new(),
            verbatim: None,
        }
    }

    /// The same error, told by a `Status` that somebody else has written.
    #[must_use]
    pub fn verbatim(mut self, status: serde_json::Value) -> Self {
        self.verbatim = Some(Box::new(status));
        self
    }

    /// The same error with `details`.
    #[must_use]
    pub fn with_details(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    fn about(self, subject: &Subject<'_>, name: &str) -> Self {
        self.with_details(Details {
            name: name.to_owned(),
            group: subject.group.to_owned(),
            kind: subject.resource.to_owned(),
            ..Details::default()
        })
    }

    /// 400: the request itself can't be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 401: nobody we know.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// 403: known, but not allowed.
    pub fn forbidden(subject: &Subject<'_>, name: &str, why: impl std::fmt::Display) -> Self {
        let resource = subject.resource();
        let message = match (resource.is_empty(), name.is_empty()) {
            (true, _) => format!("forbidden: {why}"),
            (false, true) => format!("{resource} is forbidden: {why}"),
            (false, false) => format!("{resource} \"{name}\" is forbidden: {why}"),
        };
        Self::new(403, "Forbidden", message).about(subject, name)
    }

    /// 404: no such object.
    pub fn not_found(subject: &Subject<'_>, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} \"{name}\" not found", subject.resource()))
            .about(subject, name)
    }

    /// 409: the name is taken.
    pub fn already_exists(subject: &Subject<'_>, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} \"{name}\" already exists", subject.resource()))
            .about(subject, name)
    }

    /// 409: somebody else was faster, or a precondition does not hold.
    pub fn conflict(subject: &Subject<'_>, name: &str, why: impl std::fmt::Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", subject.resource());
        Self::new(409, "Conflict", message).about(subject, name)
    }

    /// 422: understood, but the object is not valid; one cause a field.
    pub fn invalid(subject: &Subject<'_>, name: &str, errors: &[FieldError]) -> Self {
        let kind = Subject::qualified(subject.kind, subject.group);
        // The same problem found twice is two causes, but is said once.
        let mut list: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let mut said = BTreeSet::new();
        list.retain(|text| said.insert(text.clone()));
        let why = match list.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        Self::new(422, "Invalid", format!("{kind} \"{name}\" is invalid: {why}")).with_details(Details {
            name: name.to_owned(),
            group: subject.group.to_owned(),
            kind: subject.kind.to_owned(),
            causes: errors.iter().map(FieldError::cause).collect(),
            ..Details::default()
        })
    }

    /// 405: the resource has no such verb.
    pub fn method_not_supported(subject: &Subject<'_>, verb: &str) -> Self {
        let message = format!("{verb} is not supported on resources of kind \"{}\"", subject.resource());
        Self::new(405, "MethodNotAllowed", message).about(subject, "")
    }

    /// 410: the asked-for revision is no longer kept.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 500 with the reason `InternalError`.
    pub fn internal(why: impl std::fmt::Display) -> Self {
        Self::new(500, "InternalError", format!("Internal error occurred: {why}")).with_details(Details {
            causes: vec![Cause { message: why.to_string(), ..Cause::default() }],
            ..Details::default()
        })
    }

    /// 500 without a reason: how kube-apiserver answers a failure it has no words for.
    pub fn unexplained(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// The error as the `Status` object that goes over the wire.
    pub fn to_status(&self) -> serde_json::Value {
        if let Some(status) = &self.verbatim {
            return (**status).clone();
        }
        let mut status = serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.continue_token.is_empty() {
            status["metadata"]["continue"] = self.continue_token.as_str().into();
        }
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(details) = &self.details {
            status["details"] = serde_json::to_value(details)
                .expect("details are strings and numbers, which always serialise");
        }
        status
    }
}
