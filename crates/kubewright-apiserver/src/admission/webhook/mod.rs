//! Webhooks: who is asked about a request, and what becomes of their answers.
//!
//! Mutating webhooks are asked one after the other and may change the object, validating ones all at once.
//! A webhook that can't be asked refuses the request or is passed over, as its failure policy says.

mod mutating;
mod review;
mod validating;

use std::{sync::Arc, time::Duration};

use serde_json::Value;

use self::review::Response;
pub(super) use self::{
    mutating::{Reinvocation, mutate},
    validating::validate,
};
use super::{
    attributes::Attributes,
    expressions::{Compiler, Conditions, Input, UserAuthorizer},
    matching::{Matcher, Objects},
};
use crate::{error::ApiError, kinds::access, registry::Resource, webhook::Endpoint};

/// Which of the two kinds of webhooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Mutating,
    Validating,
}

/// A webhook of a configuration, ready to be asked.
#[derive(Debug)]
pub(super) struct Webhook {
    kind: Kind,
    configuration: String,
    name: String,
    matcher: Matcher,
    conditions: Conditions,
    endpoint: Endpoint,
    timeout: Duration,
    /// Passed over if it can't be asked.
    ignore_failure: bool,
    /// Asked again if a later webhook changes the object.
    reinvoked: bool,
    /// Whether it may be asked about what is not going to happen.
    dry_run: bool,
    /// The first version of AdmissionReview it understands that is known here.
    review_version: Option<&'static str>,
}

impl Webhook {
    /// The webhooks of a configuration.
    pub(super) fn read_all(kind: Kind, configuration: &str, object: &Value) -> Vec<Self> {
        access::items(object, &["webhooks"])
            .iter()
            .map(|webhook| Self::read(kind, configuration, webhook))
            .collect()
    }

    fn read(kind: Kind, configuration: &str, webhook: &Value) -> Self {
        let text = |name: &str| access::get_str(webhook, &[name]);
        let ignore_failure = text("failurePolicy") == "Ignore";
        let seconds = webhook["timeoutSeconds"].as_u64().unwrap_or(10);
        let versions = access::items(webhook, &["admissionReviewVersions"]);
        Self {
            kind,
            configuration: configuration.to_owned(),
            name: text("name").to_owned(),
            matcher: Matcher::of_webhook(webhook),
            conditions: Conditions::compile(&Compiler::default(), webhook, false, !ignore_failure),
            endpoint: Endpoint::read(&webhook["clientConfig"]),
            timeout: Duration::from_secs(seconds),
            ignore_failure,
            reinvoked: text("reinvocationPolicy") == "IfNeeded",
            dry_run: matches!(text("sideEffects"), "None" | "NoneOnDryRun"),
            review_version: versions.iter().find_map(|version| match version.as_str() {
                Some("v1") => Some("v1"),
                Some("v1beta1") => Some("v1beta1"),
                _ => None,
            }),
        }
    }

    /// The resource in whose terms the webhook is to be asked about a request, if it is.
    /// The objects are those of the equivalent resource `from`.
    async fn concerns(
        &self,
        request: &Attributes<'_>,
        objects: Objects<'_>,
        from: &Resource,
    ) -> Result<Option<Arc<Resource>>, ApiError> {
        let Some(matched) = self.matcher.matches(request, objects)? else { return Ok(None) };
        if self.conditions.is_empty() {
            return Ok(Some(matched));
        }
        let object = request.converted(objects.object, from, &matched).await?.unwrap_or_default();
        let old = request.converted(objects.old, from, &matched).await?.unwrap_or_default();
        let asked = Value::Object(request.request(&matched));
        let authorizer = UserAuthorizer::of(request, request.resource());
        let input = Input {
            object: &object,
            old: &old,
            request: &asked,
            namespace: &Value::Null,
            params: &Value::Null,
            authorizer: &authorizer,
        };
        match self.conditions.hold(&input.activation(), None) {
            Ok(holds) => Ok(holds.then_some(matched)),
            Err(why) => Err(ApiError::forbidden(&request.subject(), &request.name, why)),
        }
    }

    /// Asks the webhook about objects that are in the version it has matched.
    async fn ask(
        &self,
        request: &Attributes<'_>,
        matched: &Resource,
        objects: Objects<'_>,
    ) -> Result<Response, Failure> {
        if request.dry_run && !self.dry_run {
            let why = format!("admission webhook {:?} does not support dry run", self.name);
            return Err(Failure::Refused(ApiError::bad_request(why)));
        }
        let Some(version) = self.review_version else {
            return Err(Failure::Call(
                "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"
                    .to_owned(),
            ));
        };
        let server = &request.scope.server;
        let uid = server.entropy.uid();
        let body = review::request(version, &uid, request.request(matched), objects);
        let answer = server.webhooks.post(&self.endpoint, body, self.timeout).await;
        let answer = answer.map_err(|why| Failure::Call(format!("failed to call webhook: {why}")))?;
        let response = review::response(version, &uid, self.kind, answer).map_err(Failure::Call)?;
        response.warnings.iter().for_each(|warning| request.scope.warn(warning));
        if !response.allowed {
            return Err(Failure::Refused(review::denial(&self.name, response.status)));
        }
        Ok(response)
    }

    /// What a failure to get a yes means for the request: nothing, or its end.
    fn judge(&self, failure: Failure) -> Result<(), ApiError> {
        match failure {
            Failure::Refused(error) => Err(error),
            Failure::Call(_) if self.ignore_failure => Ok(()),
            Failure::Call(why) => {
                Err(ApiError::internal(format!("failed calling webhook {:?}: {why}", self.name)))
            }
        }
    }
}

/// Why a webhook has not said yes.
enum Failure {
    /// It could not be asked, or its answer makes no sense.
    Call(String),
    /// It, or the way it was to be used, refuses the request whatever the failure policy.
    Refused(ApiError),
}
