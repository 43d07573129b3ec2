//! Mutating webhooks: asked one after the other, each sees what the ones before have made of the object.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::Value;

use super::{
    super::{attributes::Attributes, configurations::Read, matching::Objects},
    Failure, Webhook,
    review::Response,
};
use crate::{
    decode,
    error::ApiError,
    patch::json::JsonPatch,
    registry::{Origin, Resource, types::Types},
};

/// Which webhooks want to see the object again because it has changed since they saw it.
#[derive(Debug, Default)]
pub(in super::super) struct Reinvocation {
    /// Those that have seen it and would want to, by configuration and name.
    seen: BTreeSet<(String, String)>,
    due: BTreeSet<(String, String)>,
    /// Whether this is the second round.
    second: bool,
    changed: bool,
    /// The object after the last webhook.
    output: Option<Value>,
}

impl Reinvocation {
    /// Begins the second round, if there is reason for one.
    pub(in super::super) fn again(&mut self) -> bool {
        self.second = true;
        self.changed
    }

    /// The object has changed: whoever has seen it before is to see it again.
    pub(in super::super) fn object_changed(&mut self) {
        self.changed = true;
        self.due.append(&mut self.seen);
    }
}

/// The objects of a request in the version of the webhook that saw them last.
struct Current<'a> {
    resource: Arc<Resource>,
    object: Option<&'a mut Value>,
    old: Option<Value>,
}

impl Current<'_> {
    async fn turn_to(&mut self, request: &Attributes<'_>, resource: &Arc<Resource>) -> Result<(), ApiError> {
        if let Some(object) = self.object.as_deref_mut() {
            request.convert(object, &self.resource, resource).await?;
        }
        if let Some(old) = &mut self.old {
            request.convert(old, &self.resource, resource).await?;
        }
        self.resource = resource.clone();
        Ok(())
    }

    fn objects(&self) -> Objects<'_> {
        Objects { object: self.object.as_deref(), old: self.old.as_ref() }
    }
}

/// Lets the webhooks change the object of a request.
pub(in super::super) async fn mutate(
    request: &Attributes<'_>,
    configurations: &[Arc<Read<Vec<Webhook>>>],
    object: Option<&mut Value>,
    old: Option<&Value>,
    reinvocation: &mut Reinvocation,
) -> Result<(), ApiError> {
    if reinvocation.second && reinvocation.output.as_ref() != object.as_deref() {
        reinvocation.object_changed();
    }
    let mut current = Current { resource: request.resource().clone(), object, old: old.cloned() };
    for webhook in configurations.iter().flat_map(|configuration| &configuration.content) {
        let Some(matched) = webhook.concerns(request, current.objects(), &current.resource).await? else {
            continue;
        };
        let identity = (webhook.configuration.clone(), webhook.name.clone());
        if reinvocation.second && !reinvocation.due.contains(&identity) {
            continue;
        }
        current.turn_to(request, &matched).await?;
        let outcome = match webhook.ask(request, &matched, current.objects()).await {
            Ok(response) => webhook.apply(request, &matched, response, current.object.as_deref_mut()),
            Err(failure) => Err(failure),
        };
        if matches!(outcome, Ok(true)) {
            reinvocation.object_changed();
        }
        if webhook.reinvoked {
            reinvocation.seen.insert(identity);
        }
        if let Err(failure) = outcome {
            webhook.judge(failure)?;
        }
    }
    current.turn_to(request, request.resource()).await?;
    reinvocation.output = current.object.as_deref().cloned();
    Ok(())
}

impl Webhook {
    /// Applies the patch of an answer; says whether it has changed anything.
    fn apply(
        &self,
        request: &Attributes<'_>,
        resource: &Resource,
        response: Response,
        object: Option<&mut Value>,
    ) -> Result<bool, Failure> {
        let Some((patch, kind)) = response.patch else { return Ok(false) };
        let patch = JsonPatch::of_operations(&patch)
            .map_err(|why| Failure::Call(format!("received undecodable patch in webhook response: {why}")))?;
        if patch.is_empty() {
            return Ok(false);
        }
        let internal = |why: String| Failure::Refused(ApiError::internal(why));
        let Some(object) = object else {
            return Err(internal(format!(
                "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
                self.name
            )));
        };
        if kind != "JSONPatch" {
            return Err(Failure::Call(format!("unsupported patch type {kind:?}")));
        }
        let mut patched = object.clone();
        patch.apply(&mut patched).map_err(|why| internal(why.to_string()))?;
        let patched = request.decode(patched, resource).map_err(internal)?;
        let changed = *object != patched;
        *object = patched;
        Ok(changed)
    }
}

impl Attributes<'_> {
    /// An object that somebody else has written, as one of the request's kind: fields checked, defaulted.
    pub(in super::super) fn decode(&self, object: Value, resource: &Resource) -> Result<Value, String> {
        let kind = self.kind_in(resource);
        let is_whole = kind.kind == &*resource.kind && kind.group == &*resource.group;
        let expected = crate::registry::group_version(kind.group, kind.version);
        let (api_version, given) = decode::type_meta(&object)?;
        if !resource.is_custom() && (api_version != expected || given != kind.kind) {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            let schema = Types::get().kind(group, version, given);
            let why = match schema.map(|schema| decode::typed(object.clone(), &schema)) {
                Some(Err(why)) => why,
                _ => format!(
                    "converting ({version}.{given}) to ({}.{}): unknown conversion",
                    kind.version, kind.kind
                ),
            };
            return Err(why);
        }
        let mut object = match &resource.origin {
            Origin::Custom(custom) if is_whole => {
                let mut object = object;
                custom.coerce(&resource.version, &mut object)?;
                object
            }
            _ if is_whole => decode::typed(object, &resource.schema)?.0,
            _ => {
                let schema = Types::get().kind(kind.group, kind.version, kind.kind);
                decode::typed(object, &schema.unwrap_or_default())?.0
            }
        };
        if is_whole {
            resource.default(&mut object);
        }
        if let Value::Object(fields) = &mut object {
            fields.insert("apiVersion".to_owned(), expected.into());
            fields.insert("kind".to_owned(), kind.kind.into());
        }
        Ok(object)
    }
}
