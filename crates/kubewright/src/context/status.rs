//! Writing status: only when it differs, with the generation it was made for and with honest transition times.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use kube::core::object::HasStatus;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Reader, condition, request, stalled};
use crate::{
    error::{Error, Result},
    kind::{Key, Kind, revision, uid},
};

/// What the status of a kind has a place for.
#[derive(Debug, Default)]
pub(crate) struct StatusShape {
    has_generation: bool,
    pub(super) conditions_have_generation: bool,
    /// Whether there is a place to say that the object is stalled, and it is to be said.
    pub(super) tells_stalled: bool,
    /// What was last written for an object: its UID, the fingerprint of what was wanted, and of what the
    /// server made of it. Where the server changes what it is given, equal wishes are still recognised.
    written: Mutex<BTreeMap<Key, (String, u64, u64)>>,
}

impl StatusShape {
    /// Reads it from the definition of the kind.
    pub(crate) fn of(definition: &CustomResourceDefinition, version: &str, may_stall: bool) -> Self {
        let version = definition.spec.versions.iter().find(|one| one.name == version);
        let has_status = version.and_then(|one| one.subresources.as_ref()?.status.as_ref()).is_some();
        let schema = version.and_then(|one| one.schema.as_ref()?.open_api_v3_schema.as_ref());
        let status = schema.and_then(|schema| property(schema, "status"));
        let conditions = status.and_then(|status| property(status, "conditions"));
        let condition = conditions.and_then(|conditions| match conditions.items.as_ref()? {
            JSONSchemaPropsOrArray::Schema(item) => Some(&**item),
            JSONSchemaPropsOrArray::Schemas(items) => items.first(),
        });
        let has = |schema: Option<&JSONSchemaProps>| {
            schema.is_some_and(|schema| property(schema, "observedGeneration").is_some())
        };
        let fits = |condition| {
            let fields = ["type", "status", "reason", "message", "lastTransitionTime"];
            fields.iter().all(|field| property(condition, field).is_some())
        };
        Self {
            tells_stalled: may_stall && has_status && condition.is_some_and(fits),
            has_generation: has(status),
            conditions_have_generation: has(condition),
            written: Mutex::default(),
        }
    }

    /// The object has gone.
    pub(crate) fn forget(&self, key: &Key) {
        self.written.lock().remove(key);
    }
}

fn property<'s>(schema: &'s JSONSchemaProps, name: &str) -> Option<&'s JSONSchemaProps> {
    schema.properties.as_ref()?.get(name)
}

impl<K: Kind> Reader<K> {
    /// Writes the status of the object, if it differs from what is there. `observedGeneration` is filled in if
    /// the status has it, and so is since when each of its conditions is what it is.
    pub async fn status(&self, status: K::Status) -> Result<()>
    where
        K: HasStatus<Status: Serialize>,
    {
        self.apply_status(status).await
    }

    /// Like [`status`](Self::status), for kinds that don't say which type their status has.
    pub async fn apply_status(&self, status: impl Serialize) -> Result<()> {
        let mut wanted = serde_json::to_value(status)?;
        if !wanted.is_object() {
            return Err(Error::terminal("a status must be a structure"));
        }
        let key = self.key();
        // Not as it was when this reconcile began: it may have written its status before.
        let current = match self.shared.views.get::<K>()?.get(&key) {
            Some(newer) if uid(&*newer) == uid(&*self.object) => newer,
            _ => self.object.clone(),
        };
        let revision_seen = current.meta().resource_version.clone();
        let mut current = serde_json::to_value(&*current)?;
        let mut current = current.get_mut("status").map(Value::take).unwrap_or_default();
        stalled::leave_out(&mut current, &wanted);
        self.complete(&mut wanted, &current);
        drop_nulls(&mut wanted);
        let is_nothing = |status: &Value| status.as_object().map_or(status.is_null(), Map::is_empty);
        if wanted == current || is_nothing(&wanted) && is_nothing(&current) {
            return Ok(());
        }
        let shape = &self.shared.status;
        let print = (uid(&*self.object).to_owned(), fingerprint(&wanted), fingerprint(&current));
        if shape.written.lock().get(&key) == Some(&print) {
            return Ok(());
        }
        // What is said of one object must not be written onto another of its name, made since. Of a status the server does
        // not compare the UID.
        let configuration = json!({
            "apiVersion": K::api_version(&()), "kind": K::kind(&()),
            "metadata": {
                "name": key.name(), "namespace": key.namespace(), "uid": uid(&*self.object),
                "resourceVersion": revision_seen,
            },
            "status": wanted,
        });
        let answer = request::apply::<K>(
            &self.shared.client,
            &key,
            Some("status"),
            &configuration,
            &self.shared.operator,
            true,
        )
        .await?;
        let made =
            serde_json::to_value(&*answer.object)?.get_mut("status").map(Value::take).unwrap_or_default();
        shape.written.lock().insert(key, (print.0, print.1, fingerprint(&made)));
        tracing::debug!(revision = revision(&*answer.object), "status written");
        self.shared.cache.wrote(&answer);
        Ok(())
    }

    fn complete(&self, wanted: &mut Value, current: &Value) {
        let shape = &self.shared.status;
        let generation = self.object.meta().generation;
        if let (Some(generation), true) =
            (generation, shape.has_generation || wanted.get("observedGeneration").is_some())
        {
            wanted["observedGeneration"] = generation.into();
        }
        if let Some(Value::Array(conditions)) = wanted.get_mut("conditions") {
            let before = current.get("conditions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let now = format!("{:.0}", self.shared.clock.now());
            let generation = generation.filter(|_| shape.conditions_have_generation);
            condition::stamp(conditions, before, &now, generation);
        }
    }
}

/// A field that is `null` is one that is not there.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

pub(super) fn fingerprint(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new(); // with fixed keys: the same on every run
    value.to_string().hash(&mut hasher);
    hasher.finish()
}
