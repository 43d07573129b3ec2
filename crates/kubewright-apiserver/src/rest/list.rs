//! List: a consistent view of a collection, whole or in pages.

use std::{collections::BTreeSet, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::{
    Scope, codec,
    options::{ListOptions, RevisionMatch},
    respond,
};
use crate::{
    decode::go::quote,
    error::{ApiError, Cause, Details},
    http::answer::Answer,
    store::{Attributes, Collection, RevisionError, Stored},
};

/// A page of a list: the objects, and what the list's metadata says.
pub(crate) struct Page {
    pub(crate) objects: Vec<Arc<Stored>>,
    pub(crate) revision: u64,
    pub(crate) continue_token: String,
    pub(crate) remaining: Option<usize>,
    /// Whether it was asked for as a page, which kube-apiserver reads from its store.
    pub(crate) is_paged: bool,
}

pub(crate) async fn list(scope: &Scope) -> Result<Answer, ApiError> {
    let options = ListOptions::read(&scope.query, false)?;
    let page = page(scope, &options).await?;
    respond::list(scope, page).await
}

/// The objects that `options` ask for.
pub(crate) async fn page(scope: &Scope, options: &ListOptions) -> Result<Page, ApiError> {
    scope.check_fields(options)?;
    let prefix = if scope.namespace.is_empty() { String::new() } else { format!("{}/", scope.namespace) };
    let (collection, start) = match &options.continue_token {
        Some(token) => {
            if !matches!(options.resource_version.as_str(), "" | "0") {
                let why = "specifying resource version is not allowed when using continue";
                return Err(ApiError::bad_request(why));
            }
            let token = Token::decode(token)?;
            (token.collection(scope)?, format!("{prefix}{}", token.start))
        }
        None => (revision(scope, options).await?, String::new()),
    };
    // The cache of kube-apiserver has no pages: for any revision, everything is given.
    let limit = match options.resource_version.as_str() {
        "0" if options.continue_token.is_none() && options.revision_match.is_none() => 0,
        _ => options.limit,
    };
    let is_paged = limit > 0 || options.continue_token.is_some();
    let converted = if scope.selects_converted(options) {
        let stored: Vec<Arc<Stored>> = collection.range(&prefix, &start).cloned().collect();
        let matching = scope.matching(options, &stored).await;
        Some(matching.map_err(|error| scope.unlisted(is_paged, error))?)
    } else {
        None
    };
    let selects = |object: &Stored| match &converted {
        Some(matching) => matching.contains(&object.key),
        None => scope.selects(options, object),
    };
    let mut objects = Vec::new();
    let mut continue_token = String::new();
    let mut remaining = None;
    for object in collection.range(&prefix, &start) {
        if !selects(object) {
            continue;
        }
        if limit > 0 && objects.len() == limit {
            let last: &Arc<Stored> = &objects[limit - 1];
            let start = format!("{}\0", last.key.strip_prefix(&prefix).unwrap_or(&last.key));
            continue_token = Token { revision: collection.revision() as i64, start }.encode();
            if options.labels.is_everything() && options.fields.is_everything() {
                remaining = Some(collection.count(&prefix, &object.key));
            }
            break;
        }
        objects.push(object.clone());
    }
    Ok(Page { objects, revision: collection.revision(), continue_token, remaining, is_paged })
}

async fn revision(scope: &Scope, options: &ListOptions) -> Result<Collection, ApiError> {
    let store = &scope.server.store;
    let text = options.resource_version.as_str();
    if text.is_empty() || text == "0" {
        return Ok(store.collection(scope.storage()));
    }
    let wanted: u64 = text.parse().map_err(|_| {
        ApiError::bad_request(format!(
            "resourceVersion: Invalid value: {}: strconv.ParseUint: parsing {}: invalid syntax",
            quote(text),
            quote(text)
        ))
    })?;
    scope.server.wait_for(wanted).await?;
    // With a limit and no match, an exact revision was always meant.
    let exact = options.revision_match == Some(RevisionMatch::Exact)
        || (options.revision_match.is_none() && options.limit > 0);
    if !exact {
        return Ok(store.collection(scope.storage()));
    }
    store.collection_at(scope.storage(), wanted).map_err(|error| match error {
        RevisionError::Compacted(_) => {
            ApiError::expired("The resourceVersion for the provided list is too old.")
        }
        RevisionError::Future { current } => too_large(wanted, current),
    })
}

/// 504: the revision lies in the future.
pub(crate) fn too_large(wanted: u64, current: u64) -> ApiError {
    let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
    ApiError::new(504, "Timeout", message).with_details(Details {
        causes: vec![Cause {
            reason: "ResourceVersionTooLarge".to_owned(),
            message: "Too large resource version".to_owned(),
            ..Cause::default()
        }],
        retry_after_seconds: Some(1),
        ..Details::default()
    })
}

/// Where a list goes on: the revision it shows and the key it starts at.
struct Token {
    /// Negative for "whatever is there now": what an expired token's successor says.
    revision: i64,
    start: String,
}

impl Token {
    fn encode(&self) -> String {
        let text = json!({"v": "meta.k8s.io/v1", "rv": self.revision, "start": self.start}).to_string();
        URL_SAFE_NO_PAD.encode(text)
    }

    fn decode(text: &str) -> Result<Self, ApiError> {
        let invalid = |why: &str| ApiError::bad_request(format!("continue key is not valid: {why}"));
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|error| invalid(&error.to_string()))?;
        let token: Value = serde_json::from_slice(&bytes).map_err(|error| invalid(&error.to_string()))?;
        if token.get("v").and_then(Value::as_str) != Some("meta.k8s.io/v1") {
            return Err(invalid("server does not recognize this encoded version"));
        }
        let revision = token.get("rv").and_then(Value::as_i64).filter(|revision| *revision != 0);
        let revision = revision
            .ok_or_else(|| invalid("incorrect encoded start resourceVersion (version meta.k8s.io/v1)"))?;
        let start = token.get("start").and_then(Value::as_str).filter(|start| !start.is_empty());
        let start = start.ok_or_else(|| invalid("encoded start key empty (version meta.k8s.io/v1)"))?;
        if start.split('/').any(|part| part == "..") {
            return Err(invalid(start));
        }
        Ok(Self { revision, start: start.to_owned() })
    }

    fn collection(&self, scope: &Scope) -> Result<Collection, ApiError> {
        let store = &scope.server.store;
        let Ok(revision) = u64::try_from(self.revision) else {
            return Ok(store.collection(scope.storage()));
        };
        store.collection_at(scope.storage(), revision).map_err(|error| match error {
            RevisionError::Compacted(_) => {
                let mut error = ApiError::expired(
                    "The provided continue parameter is too old to display a consistent list result. You can \
                     start a new list without the continue parameter, or use the continue token in this response \
                     to retrieve the remainder of the results. Continuing with the provided token results in an \
                     inconsistent list - objects that were created, modified, or deleted between the time the \
                     first chunk was returned and now may show up in the list.",
                );
                error.continue_token = Token { revision: -1, start: self.start.clone() }.encode();
                error
            }
            RevisionError::Future { current } => too_large(revision, current),
        })
    }
}

impl Scope {
    /// Refuses field selectors on fields that the kind does not index.
    pub(crate) fn check_fields(&self, options: &ListOptions) -> Result<(), ApiError> {
        for requirement in &options.fields.requirements {
            let field = requirement.field.as_str();
            self.resource.check_field(field)?;
        }
        Ok(())
    }

    /// Whether the selectors of `options` match an object, as it is kept.
    pub(crate) fn selects(&self, options: &ListOptions, object: &Stored) -> bool {
        self.matches(options, object, &object.labels, &object.fields)
    }

    fn matches(
        &self,
        options: &ListOptions,
        object: &Stored,
        labels: &Attributes,
        fields: &Attributes,
    ) -> bool {
        options.labels.matches_with(|name| labels.get(name))
            && options.fields.matches(|field| {
                match field {
                    "metadata.name" => object.name(),
                    "metadata.namespace" => object.namespace(),
                    _ => fields.get(&self.resource.stored_field(field)).unwrap_or_default(),
                }
                .into()
            })
    }

    /// Whether the selectors of `options` look at what a webhook may have changed.
    pub(crate) fn selects_converted(&self, options: &ListOptions) -> bool {
        let mut fields = options.fields.requirements.iter();
        self.resource.has_converter()
            && (!options.labels.is_everything() || fields.any(|one| !one.field.starts_with("metadata.")))
    }

    /// The keys of the objects that the selectors of `options` match in the version of the request.
    pub(crate) async fn matching(
        &self,
        options: &ListOptions,
        stored: &[Arc<Stored>],
    ) -> Result<BTreeSet<Arc<str>>, ApiError> {
        let objects = self.load_all(stored).await?;
        let both = stored.iter().zip(&objects);
        let matching = both.filter(|(stored, object)| {
            self.matches(options, stored, &codec::labels(object), &self.selectable(object))
        });
        Ok(matching.map(|(stored, _)| stored.key.clone()).collect())
    }

    /// What a list comes to if one of its objects can't be converted. In the real server a list without pages comes
    /// from a cache, and that never fills.
    pub(crate) fn unlisted(&self, is_paged: bool, error: ApiError) -> ApiError {
        if is_paged || !self.resource.has_converter() {
            return error;
        }
        let (version, kind, why) = (self.resource.api_version(), &self.resource.kind, error.message);
        let message = format!("storage is (re)initializing: failed to list {version}, Kind={kind}: {why}");
        ApiError::new(429, "TooManyRequests", message)
            .with_details(Details { retry_after_seconds: Some(1), ..Details::default() })
    }
}
