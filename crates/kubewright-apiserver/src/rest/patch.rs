//! Patch: the four kinds of partial change.

use serde_json::Value;

use super::{
    Scope,
    body::Source,
    options::{FieldValidation, WriteOptions},
};
use crate::{
    decode::{self, Parsed, Problem},
    error::ApiError,
    fields::folded::{self, unfolded},
    http::answer::Answer,
    kinds::access,
    patch,
    schema::Schema,
};

/// The kind of a patch, by its media type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl PatchType {
    pub(crate) fn read(scope: &Scope) -> Result<Self, ApiError> {
        let media_type = scope.content_type.as_deref().unwrap_or("").split(';').next().unwrap_or("").trim();
        let found = match media_type {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" if !scope.resource.is_custom() => Some(Self::Strategic),
            "application/apply-patch+yaml" => Some(Self::Apply),
            _ => None,
        };
        found.ok_or_else(|| {
            let types = if scope.resource.is_custom() {
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
            } else {
                "application/json-patch+json, application/merge-patch+json, \
                 application/strategic-merge-patch+json, application/apply-patch+yaml"
            };
            ApiError::new(
                415,
                "UnsupportedMediaType",
                format!(
                    "the body of the request was in an unknown format - accepted media types include: {types}"
                ),
            )
        })
    }
}

pub(crate) async fn patch(scope: &Scope) -> Result<Answer, ApiError> {
    let kind = PatchType::read(scope)?;
    let options =
        WriteOptions::read("PatchOptions", &scope.query, &scope.user_agent, kind == PatchType::Apply)?;
    if kind == PatchType::Apply {
        return apply(scope, &options).await;
    }
    let prepared = Prepared::read(scope, kind)?;
    let mut transform = |live: &Value| {
        let mut new = prepared.patched(scope, live, &options)?;
        scope.deduplicate_owners(&mut new, "");
        scope.record_update(live, &mut new, &options.manager);
        Ok(new)
    };
    scope.update_object(&mut transform, &options).await?.answer(scope, 200).await
}

/// A patch that was read and can be applied any number of times.
pub(crate) enum Prepared {
    Json(patch::json::JsonPatch, Vec<String>),
    Merge(Value, Vec<Problem>),
    Strategic(Value, Vec<Problem>),
}

impl Prepared {
    pub(crate) fn read(scope: &Scope, kind: PatchType) -> Result<Self, ApiError> {
        Ok(match kind {
            PatchType::Json => {
                let (patch, problems) = patch::json::JsonPatch::read(&scope.body)?;
                Self::Json(patch, problems)
            }
            PatchType::Merge | PatchType::Apply => {
                let mut parsed = patch::merge::read(&scope.body)?;
                folded::fold(&mut parsed.value);
                Self::Merge(parsed.value, parsed.problems)
            }
            PatchType::Strategic => {
                let mut parsed = patch::strategic::read(&scope.body)?;
                folded::fold(&mut parsed.value);
                Self::Strategic(parsed.value, parsed.problems)
            }
        })
    }

    /// `live`, which is folded, with the patch applied, not yet decoded.
    pub(crate) fn apply(&self, live: &Value, schema: &Schema) -> Result<Value, ApiError> {
        let mut object = live.clone();
        match self {
            Self::Json(patch, _) => {
                folded::unfold(&mut object);
                patch.apply(&mut object)?;
                folded::fold(&mut object);
            }
            Self::Merge(patch, _) => patch::merge::apply(&mut object, patch.clone()),
            Self::Strategic(patch, _) => patch::strategic::apply(&mut object, patch.clone(), schema)?,
        }
        Ok(object)
    }

    /// `live` with the patch applied, decoded and defaulted like a new object of the same name.
    fn patched(&self, scope: &Scope, live: &Value, options: &WriteOptions) -> Result<Value, ApiError> {
        let apply = || self.apply(live, &scope.resource.schema);
        let shown = || match self {
            Self::Strategic(patch, _) => decode::printed(&unfolded(patch)),
            _ => unfolded(&apply().unwrap_or_default()).to_string(),
        };
        let source = match self {
            Self::Strategic(..) => Source::Strategic(&shown),
            _ => Source::Patched(&shown),
        };
        let mut parsed = Parsed::from(apply()?);
        match self {
            Self::Json(_, problems) => problems.iter().for_each(|problem| scope.warn(problem)),
            Self::Merge(_, problems) | Self::Strategic(_, problems) => parsed.problems.clone_from(problems),
        }
        scope.decode_patched(parsed, options, source)
    }
}

impl Scope {
    /// A patched object is decoded like a new one; its name and namespace can't change.
    fn decode_patched(
        &self,
        parsed: Parsed<'_>,
        options: &WriteOptions,
        source: Source<'_>,
    ) -> Result<Value, ApiError> {
        let mut object = self.decode_object(parsed, options, source)?;
        self.check_name(&object)?;
        self.fix_namespace(&mut object)?;
        Ok(object)
    }
}

/// Server-side apply: the body is what its manager wants to own, and all it wants to own.
async fn apply(scope: &Scope, options: &WriteOptions) -> Result<Answer, ApiError> {
    let config = read_configuration(scope, options)?;
    loop {
        if scope.server.store.get(scope.storage(), &scope.key()).is_none() {
            return apply_new(scope, config, options).await;
        }
        let mut transform = |live: &Value| scope.decode_applied(live, &config, options);
        match scope.update_object(&mut transform, options).await {
            // It went while we looked: create it.
            Err(error)
                if error.code == 404 && error.details.as_ref().is_some_and(|d| d.name == scope.name) => {}
            outcome => return outcome?.answer(scope, 200).await,
        }
    }
}

fn read_configuration(scope: &Scope, options: &WriteOptions) -> Result<Value, ApiError> {
    let parsed = patch::apply::read(&scope.body)?;
    match (options.validation, patch::apply::strict_error(&parsed)) {
        (FieldValidation::Strict, Some(error)) => return Err(error),
        (FieldValidation::Warn, _) => {
            parsed.problems.iter().for_each(|problem| scope.warn(problem.to_string()))
        }
        _ => {}
    }
    Ok(parsed.value)
}

async fn apply_new(scope: &Scope, mut config: Value, options: &WriteOptions) -> Result<Answer, ApiError> {
    if !scope.subresource.is_empty() {
        return Err(scope.not_found());
    }
    let uid = access::get_str(&config, &["metadata", "uid"]);
    if !uid.is_empty() {
        return Err(ApiError::conflict(
            &scope.resource.subject(),
            &scope.name,
            format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            ),
        ));
    }
    access::remove(&mut config, &["metadata", "resourceVersion"]);
    let name = access::get_str(&config, &["metadata", "name"]);
    if name.is_empty() {
        access::set(&mut config, &["metadata", "name"], scope.name.as_str());
    }
    let apply = || scope.decode_applied(scope.resource.empty(), &config, options);
    let object = scope.with_conversions(apply).await?;
    scope.create_object(object, options).await?.answer(scope, 201).await
}

impl Scope {
    /// `live` with a configuration applied, decoded like a new object of the same name.
    fn decode_applied(
        &self,
        live: &Value,
        config: &Value,
        options: &WriteOptions,
    ) -> Result<Value, ApiError> {
        let applied = || self.applied(live, config, options);
        let Some(merged) = applied()? else { return Ok(live.clone()) };
        let shown = || unfolded(&applied().ok().flatten().unwrap_or_default()).to_string();
        let mut object = self.decode_patched(Parsed::from(merged), options, Source::Patched(&shown))?;
        self.deduplicate_owners(&mut object, "");
        Ok(object)
    }
}
