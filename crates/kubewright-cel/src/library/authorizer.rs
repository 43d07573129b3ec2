//! Authorization checks: `authorizer.group(..).resource(..).check(..).allowed()`.
//!
//! The caller supplies an [`Authorizer`]; an expression builds a request step by step and asks it.

use std::{fmt, sync::Arc};

use super::{Extension, named_format};
use crate::{
    eval::EvalError,
    value::{Evaluated, Val},
};

pub(crate) const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
pub(crate) const PATH_CHECK: &str = "kubernetes.authorization.PathCheck";
pub(crate) const GROUP_CHECK: &str = "kubernetes.authorization.GroupCheck";
pub(crate) const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";
pub(crate) const DECISION: &str = "kubernetes.authorization.Decision";

/// Decides what a user may do.
pub trait Authorizer: fmt::Debug + Sync {
    /// Decides about a request.
    fn authorize(&self, request: &AuthorizationRequest) -> AuthorizationDecision;
}

/// What an expression asks an [`Authorizer`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorizationRequest {
    /// Namespace and name of the service account to ask about; the requesting user if there is none.
    pub service_account: Option<(String, String)>,
    /// What is to be done.
    pub verb: String,
    /// A path that is not of a resource; if there is one, only it counts.
    pub path: Option<String>,
    /// The API group.
    pub group: String,
    /// The resource, in plural.
    pub resource: String,
    /// The subresource, or nothing.
    pub subresource: String,
    /// The namespace, or nothing.
    pub namespace: String,
    /// The name of an object, or nothing.
    pub name: String,
    /// A field selector, unparsed, or nothing.
    pub field_selector: String,
    /// A label selector, unparsed, or nothing.
    pub label_selector: String,
}

/// What an [`Authorizer`] answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorizationDecision {
    /// Whether the request is allowed.
    pub allowed: bool,
    /// Why.
    pub reason: String,
    /// What went wrong, if anything did.
    pub error: Option<String>,
}

/// A step of a check.
#[derive(Debug, Clone)]
pub enum Step<'a> {
    #[doc(hidden)]
    Authorizer(&'a dyn Authorizer, Arc<AuthorizationRequest>),
    #[doc(hidden)]
    Path(&'a dyn Authorizer, Arc<AuthorizationRequest>),
    #[doc(hidden)]
    Group(&'a dyn Authorizer, Arc<AuthorizationRequest>),
    #[doc(hidden)]
    Resource(&'a dyn Authorizer, Arc<AuthorizationRequest>),
    #[doc(hidden)]
    Decision(Arc<AuthorizationDecision>),
}

impl Step<'_> {
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Authorizer(..) => AUTHORIZER,
            Self::Path(..) => PATH_CHECK,
            Self::Group(..) => GROUP_CHECK,
            Self::Resource(..) => RESOURCE_CHECK,
            Self::Decision(_) => DECISION,
        }
    }
}

impl<'a> Val<'a> {
    /// The value of the variable `authorizer`, whose type is `kubernetes.authorization.Authorizer`.
    pub fn authorizer(authorizer: &'a dyn Authorizer) -> Self {
        Self::Extension(Extension::Authorization(Step::Authorizer(authorizer, Arc::default())))
    }

    /// The value of the variable `authorizer.requestResource`, whose type is
    /// `kubernetes.authorization.ResourceCheck`: a check that is complete but for its verb.
    pub fn resource_check(authorizer: &'a dyn Authorizer, request: AuthorizationRequest) -> Self {
        Self::Extension(Extension::Authorization(Step::Resource(authorizer, Arc::new(request))))
    }
}

fn step<'a>(step: Step<'a>) -> Evaluated<'a> {
    Ok(Val::Extension(Extension::Authorization(step)))
}

fn no_such_overload<'a>() -> Evaluated<'a> {
    Err(EvalError::no_such_overload())
}

fn changed(
    request: &Arc<AuthorizationRequest>,
    change: impl FnOnce(&mut AuthorizationRequest),
) -> Arc<AuthorizationRequest> {
    let mut request = request.as_ref().clone();
    change(&mut request);
    Arc::new(request)
}

pub(super) fn path<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [
            Val::Extension(Extension::Authorization(Step::Authorizer(authorizer, request))),
            Val::String(path),
        ] => {
            if path.trim().is_empty() {
                return Err(EvalError::new("path must not be empty"));
            }
            step(Step::Path(*authorizer, changed(request, |request| request.path = Some(path.to_string()))))
        }
        _ => no_such_overload(),
    }
}

pub(super) fn group<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [
            Val::Extension(Extension::Authorization(Step::Authorizer(authorizer, request))),
            Val::String(group),
        ] => step(Step::Group(*authorizer, changed(request, |request| request.group = group.to_string()))),
        _ => no_such_overload(),
    }
}

pub(super) fn service_account<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    let [
        Val::Extension(Extension::Authorization(Step::Authorizer(authorizer, request))),
        Val::String(namespace),
        Val::String(name),
    ] = args
    else {
        return no_such_overload();
    };
    if !named_format::is_dns1123_subdomain(name).is_empty() {
        return Err(EvalError::new("Invalid service account name"));
    }
    if !named_format::is_dns1123_label(namespace).is_empty() {
        return Err(EvalError::new("Invalid service account namespace"));
    }
    let account = Some((namespace.to_string(), name.to_string()));
    step(Step::Authorizer(*authorizer, changed(request, |request| request.service_account = account)))
}

pub(super) fn resource<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [
            Val::Extension(Extension::Authorization(Step::Group(authorizer, request))),
            Val::String(resource),
        ] => {
            if resource.trim().is_empty() {
                return Err(EvalError::new("resource must not be empty"));
            }
            step(Step::Resource(*authorizer, changed(request, |it| it.resource = resource.to_string())))
        }
        _ => no_such_overload(),
    }
}

/// Sets a part of a check of a resource.
fn refine<'a>(args: &[Val<'a>], part: fn(&mut AuthorizationRequest) -> &mut String) -> Evaluated<'a> {
    match args {
        [
            Val::Extension(Extension::Authorization(Step::Resource(authorizer, request))),
            Val::String(value),
        ] => {
            step(Step::Resource(*authorizer, changed(request, |request| *part(request) = value.to_string())))
        }
        _ => no_such_overload(),
    }
}

pub(super) fn subresource<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    refine(args, |request| &mut request.subresource)
}

pub(super) fn namespace<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    refine(args, |request| &mut request.namespace)
}

pub(super) fn name<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    refine(args, |request| &mut request.name)
}

pub(super) fn field_selector<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    refine(args, |request| &mut request.field_selector)
}

pub(super) fn label_selector<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    refine(args, |request| &mut request.label_selector)
}

pub(super) fn check<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    match args {
        [
            Val::Extension(Extension::Authorization(
                Step::Resource(authorizer, request) | Step::Path(authorizer, request),
            )),
            Val::String(verb),
        ] => {
            let request = changed(request, |request| request.verb = verb.to_string());
            step(Step::Decision(Arc::new(authorizer.authorize(&request))))
        }
        _ => no_such_overload(),
    }
}

fn decision<'d>(args: &'d [Val<'_>]) -> Result<&'d AuthorizationDecision, EvalError> {
    match args {
        [Val::Extension(Extension::Authorization(Step::Decision(decision)))] => Ok(decision),
        _ => Err(EvalError::no_such_overload()),
    }
}

pub(super) fn errored<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    Ok(Val::Bool(decision(args)?.error.is_some()))
}

pub(super) fn error<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    Ok(Val::from(decision(args)?.error.clone().unwrap_or_default()))
}

pub(super) fn allowed<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    Ok(Val::Bool(decision(args)?.allowed))
}

pub(super) fn reason<'a>(args: &[Val<'a>]) -> Evaluated<'a> {
    Ok(Val::from(decision(args)?.reason.clone()))
}
