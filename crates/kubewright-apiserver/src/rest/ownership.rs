//! Who owns which field: the glue between writes and [`FieldManager`].

use serde_json::Value;

use super::{Scope, options::WriteOptions};
use crate::{
    error::ApiError,
    fields::{FieldManager, Versions},
    registry::{Registry, Resource},
    schema::SchemaRef,
};

/// The served versions of a resource.
struct Served<'a> {
    registry: &'a Registry,
    resource: &'a Resource,
}

impl Versions for Served<'_> {
    fn schema(&self, api_version: &str) -> Option<SchemaRef> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        if group != &*self.resource.group {
            return None;
        }
        if version == &*self.resource.version {
            return Some(self.resource.schema.clone());
        }
        self.registry.resource(group, version, &self.resource.plural).map(|one| one.schema.clone())
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
            versions: &Served { registry: &self.registry, resource: &self.resource },
            api_version: &api_version,
            kind: &self.resource.kind,
            subresource: &self.subresource,
            reset: &self.resource.reset_fields(&self.subresource),
            empty: self.resource.empty(),
            now: self.server.clock.now(),
        })
    }
}
