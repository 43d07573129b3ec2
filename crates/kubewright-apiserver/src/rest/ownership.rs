//! Who owns which field: the glue between writes and [`FieldManager`].

use std::borrow::Cow;

use parking_lot::Mutex;
use serde_json::Value;

use super::{Scope, codec::version_of, options::WriteOptions};
use crate::{
    error::ApiError,
    fields::{FieldManager, Versions},
    kinds::access,
    registry::{Origin, custom::Custom, group_version},
    schema::SchemaRef,
};

/// Objects in other versions, for a field manager that can't wait for a webhook: what it misses is noted, converted
/// by [`Scope::with_conversions`], and there when the field manager runs again.
#[derive(Debug, Default)]
pub(crate) struct Conversions(Mutex<Vec<Wanted>>);

#[derive(Debug)]
struct Wanted {
    object: Value,
    version: String,
    outcome: Option<Result<Value, String>>,
}

impl Conversions {
    /// The object in another version, if it was converted; if not, it will be.
    fn get(&self, object: Value, version: &str) -> Result<Value, String> {
        let mut wanted = self.0.lock();
        let known = wanted.iter().find(|one| one.version == version && one.object == object);
        if let Some(known) = known {
            return known.outcome.clone().unwrap_or_else(|| Err(MISSING.to_owned()));
        }
        wanted.push(Wanted { object, version: version.to_owned(), outcome: None });
        Err(MISSING.to_owned())
    }

    fn is_complete(&self) -> bool {
        self.0.lock().iter().all(|one| one.outcome.is_some())
    }

    /// Takes out what is still to be converted, all of it to one version.
    fn take_missing(&self) -> Vec<Wanted> {
        let mut all = self.0.lock();
        let Some(first) = all.iter().find(|one| one.outcome.is_none()) else { return Vec::new() };
        let version = first.version.clone();
        all.extract_if(.., |one| one.outcome.is_none() && one.version == version).collect()
    }
}

/// Never shown: whoever meets it runs again.
const MISSING: &str = "not converted yet";

/// The versions of the kind of a request.
struct Known<'a>(&'a Scope);

impl Known<'_> {
    fn version<'v>(&self, api_version: &'v str) -> Option<&'v str> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        (group == &*self.0.resource.group).then_some(version)
    }

    fn convert_custom(&self, custom: &Custom, object: &Value, version: &str) -> Result<Value, String> {
        let mut converted = object.clone();
        let managed = access::remove(&mut converted, &["metadata", "managedFields"]);
        // What nobody has touched yet is the same in all versions.
        let is_empty = converted.as_object().is_some_and(|fields| fields.len() == 2);
        if custom.conversion.is_some() && !is_empty && version_of(&converted) != version {
            converted = self.0.conversions.get(converted, version)?;
        }
        converted["apiVersion"] = group_version(&self.0.resource.group, version).into();
        if let Some(managed) = managed {
            access::set(&mut converted, &["metadata", "managedFields"], managed);
        }
        Ok(converted)
    }
}

impl Versions for Known<'_> {
    fn schema(&self, api_version: &str) -> Option<SchemaRef> {
        let Scope { resource, registry, .. } = self.0;
        let version = self.version(api_version)?;
        if version == &*resource.version {
            return Some(resource.schema.clone());
        }
        match &resource.origin {
            Origin::Custom(custom) => custom.has_version(version).then(|| custom.schema(version)),
            Origin::BuiltIn(_) => {
                let other = registry.resource(&resource.group, version, &resource.plural)?;
                Some(other.schema.clone())
            }
        }
    }

    fn convert<'o>(&self, object: &'o Value, api_version: &str) -> Result<Cow<'o, Value>, String> {
        match (&self.0.resource.origin, self.version(api_version)) {
            (Origin::Custom(custom), Some(version)) => {
                self.convert_custom(custom, object, version).map(Cow::Owned)
            }
            _ => Ok(Cow::Borrowed(object)),
        }
    }
}

impl Scope {
    /// Records that `manager` made `new` of `live`.
    pub(crate) fn record_update(&self, live: &Value, new: &mut Value, manager: &str) {
        self.with_fields(|fields| fields.update(live, new, manager));
    }

    /// `live` with an applied configuration merged in; nothing if that changes nothing.
    pub(crate) fn applied(
        &self,
        live: &Value,
        config: &Value,
        options: &WriteOptions,
    ) -> Result<Option<Value>, ApiError> {
        self.with_fields(|fields| fields.apply(live, config, &options.manager, options.force))
    }

    fn with_fields<T>(&self, run: impl FnOnce(&FieldManager<'_>) -> T) -> T {
        let api_version = self.resource.api_version();
        run(&FieldManager {
            versions: &Known(self),
            api_version: &api_version,
            kind: &self.resource.kind,
            subresource: &self.subresource,
            reset: &self.resource.reset_fields(&self.subresource),
            empty: self.resource.empty(),
            now: self.server.clock.now(),
        })
    }

    /// Runs what records or applies, again and again until it has all the conversions it needs.
    pub(crate) async fn with_conversions<T>(&self, mut run: impl FnMut() -> T) -> T {
        let mut outcome = run();
        while !self.conversions.is_complete() {
            Box::pin(self.convert_missing()).await;
            outcome = run();
        }
        outcome
    }

    async fn convert_missing(&self) {
        let Origin::Custom(custom) = &self.resource.origin else { return };
        let mut missing = self.conversions.take_missing();
        let version = missing.first().map(|one| one.version.clone()).unwrap_or_default();
        let mut converted: Vec<Value> = missing.iter().map(|one| one.object.clone()).collect();
        let mut places: Vec<&mut Value> = converted.iter_mut().collect();
        let outcome = self.convert(custom, &mut places, &version).await;
        for (one, converted) in missing.iter_mut().zip(converted) {
            one.outcome = Some(outcome.clone().map(|()| converted));
        }
        self.conversions.0.lock().append(&mut missing);
    }
}
