//! Custom resources: what a CustomResourceDefinition makes of a kind, parsed once.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use jiff::Timestamp;
use serde_json::Value;

use super::{Origin, Resource, Storage, Subresource, group_version};
use crate::{
    crd::{self, Conversion, Definition, SelectableFields, Table, Verdict},
    error::ApiError,
    field::{FieldError, Path},
    rest::codec,
    schema::{self, Schema, SchemaRef, props::Props},
    store::{Attributes, ResourceId},
    table::Column,
};

/// The verbs of every custom resource, in the order in which discovery tells them.
const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const SUBRESOURCE_VERBS: [&str; 3] = ["get", "patch", "update"];

/// A CustomResourceDefinition, ready to serve objects.
#[derive(Debug)]
pub(crate) struct Custom {
    /// The definition as it is stored.
    pub(crate) definition: Value,
    /// The revision of the definition when it was read.
    pub(crate) revision: u64,
    /// Objects that were written later already follow the schemas.
    pub(crate) schema_revision: u64,
    pub(crate) storage_version: String,
    /// How objects in the storage version begin as JSON.
    pub(crate) storage_head: Vec<u8>,
    /// The webhook that converts between versions; without one they differ in name only.
    pub(crate) conversion: Option<Conversion>,
    versions: BTreeMap<String, Version>,
}

#[derive(Debug)]
struct Version {
    schema: SchemaRef,
    table: Table,
    columns: Vec<Column>,
    selectable: SelectableFields,
    deprecation: Option<String>,
}

impl Custom {
    /// Reads a definition. What has not changed since `before` is taken over.
    pub(crate) fn read(definition: Value, revision: u64, before: Option<&Arc<Self>>) -> Self {
        let view = Definition(&definition);
        let versions: BTreeMap<String, Version> = view
            .versions()
            .map(|version| {
                let schema = before
                    .filter(|before| before.view(version.name()).openapi() == version.openapi())
                    .and_then(|before| Some(before.versions.get(version.name())?.schema.clone()))
                    .unwrap_or_else(|| compiled(version.openapi()));
                let table = Table::of(version);
                let entry = Version {
                    schema,
                    columns: table.definitions().iter().map(column).collect(),
                    table,
                    selectable: SelectableFields::of(version),
                    deprecation: crd::deprecation_warning(view, version),
                };
                (version.name().to_owned(), entry)
            })
            .collect();
        let same = before.filter(|before| {
            versions.iter().all(|(name, version)| before.schema(name).same(&version.schema))
        });
        let storage_version = view.storage_version().map(|version| version.name()).unwrap_or_default();
        Self {
            conversion: Conversion::of(view),
            storage_head: codec::custom_head(&group_version(view.group(), storage_version)),
            storage_version: storage_version.to_owned(),
            schema_revision: same.map_or(revision, |before| before.schema_revision),
            revision,
            versions,
            definition,
        }
    }

    /// The resources it serves: one a version; none unless its names were accepted.
    pub(crate) fn resources(self: &Arc<Self>) -> Vec<Arc<Resource>> {
        let view = Definition(&self.definition);
        if !view.is_true("Established") {
            return Vec::new();
        }
        let names = view.accepted_names();
        let strings = |list: &mut dyn Iterator<Item = &str>| list.map(Arc::from).collect::<Vec<Arc<str>>>();
        view.versions()
            .filter(|version| version.served())
            .map(|version| {
                let (group, version_name) = (view.group(), version.name());
                let mut subresources = Vec::new();
                let verbs: Vec<Arc<str>> = SUBRESOURCE_VERBS.map(Arc::from).to_vec();
                if version.has_status() {
                    subresources.push(Subresource {
                        name: "status".into(),
                        group_version: None,
                        kind: names.kind().into(),
                        verbs: verbs.clone(),
                    });
                }
                if version.scale().is_some() {
                    subresources.push(Subresource {
                        name: "scale".into(),
                        group_version: Some(("autoscaling".into(), "v1".into())),
                        kind: "Scale".into(),
                        verbs,
                    });
                }
                Arc::new(Resource {
                    group: group.into(),
                    version: version_name.into(),
                    plural: names.plural().into(),
                    singular: names.singular().into(),
                    kind: names.kind().into(),
                    list_kind: names.list_kind().into(),
                    namespaced: view.scope() == "Namespaced",
                    verbs: VERBS.map(Arc::from).to_vec(),
                    short_names: strings(&mut names.short_names()),
                    categories: strings(&mut names.categories()),
                    storage_hash: None,
                    subresources,
                    schema: self.schema(version_name),
                    origin: Origin::Custom(self.clone()),
                    storage: Storage { id: ResourceId::new(group, names.plural()), convert: None },
                    head: codec::custom_head(&group_version(group, version_name)),
                    empty: OnceLock::new(),
                })
            })
            .collect()
    }

    /// Whether the definition is being deleted: nothing new is created then.
    pub(crate) fn is_terminating(&self) -> bool {
        !self.definition["metadata"]["deletionTimestamp"].is_null()
    }

    fn view(&self, version: &str) -> crd::Version<'_> {
        static NONE: Value = Value::Null;
        Definition(&self.definition).version(version).unwrap_or(crd::Version(&NONE))
    }

    /// Whether it defines such a version, served or not.
    pub(crate) fn has_version(&self, version: &str) -> bool {
        self.versions.contains_key(version)
    }

    pub(crate) fn schema(&self, version: &str) -> SchemaRef {
        self.versions.get(version).map(|entry| entry.schema.clone()).unwrap_or_default()
    }

    pub(crate) fn default(&self, version: &str, object: &mut Value) {
        schema::default(object, &self.schema(version));
    }

    /// Takes from a decoded object what the schema does not declare; answers the paths of it.
    pub(crate) fn coerce(&self, version: &str, object: &mut Value) -> Result<Vec<String>, String> {
        schema::coerce(object, &self.schema(version))
    }

    pub(crate) fn prepare_create(&self, version: &str, object: &mut Value) {
        crd::prepare_object(object, self.view(version));
    }

    pub(crate) fn prepare_update(&self, version: &str, object: &mut Value, old: &Value, subresource: &str) {
        match subresource {
            "status" => crd::prepare_object_status(object, old),
            _ => crd::prepare_object_update(object, old, self.view(version)),
        }
    }

    /// What is wrong with a new object; `errors` are those of its metadata.
    pub(crate) fn validate(&self, version: &str, object: &Value, errors: Vec<FieldError>) -> Verdict {
        crd::validate_object(errors, object, &self.schema(version), self.view(version))
    }

    /// What is wrong with a changed object; `errors` are those of its metadata.
    pub(crate) fn validate_update(
        &self,
        version: &str,
        object: &Value,
        old: &Value,
        subresource: &str,
        errors: Vec<FieldError>,
    ) -> Verdict {
        let (schema, view) = (self.schema(version), self.view(version));
        match subresource {
            "status" => crd::validate_object_status(errors, object, old, &schema, view),
            _ => crd::validate_object_update(errors, object, old, &schema, view),
        }
    }

    pub(crate) fn deprecation(&self, version: &str) -> Option<String> {
        self.versions.get(version)?.deprecation.clone()
    }

    pub(crate) fn check_field(&self, version: &str, namespaced: bool, field: &str) -> Result<(), ApiError> {
        let selectable = self.versions.get(version).map(|entry| &entry.selectable);
        let known = field == "metadata.name"
            || (namespaced && field == "metadata.namespace")
            || selectable.is_some_and(|fields| fields.names().any(|name| name == field));
        if known { Ok(()) } else { Err(ApiError::bad_request(format!("field label not supported: {field}"))) }
    }

    /// The selectable fields of all versions: whichever asks finds its own.
    pub(crate) fn selectable_values(&self, object: &Value) -> Attributes {
        let mut values = BTreeMap::new();
        for entry in self.versions.values() {
            values.extend(entry.selectable.values(object));
        }
        values.into_iter().collect()
    }

    /// The columns of a version's tables.
    pub(crate) fn columns(&self, version: &str) -> &[Column] {
        self.versions.get(version).map(|entry| entry.columns.as_slice()).unwrap_or_default()
    }

    pub(crate) fn cells(&self, version: &str, object: &Value, now: Timestamp) -> Vec<Value> {
        self.versions.get(version).map(|entry| entry.table.cells(object, now)).unwrap_or_default()
    }

    fn scale_paths(&self, version: &str) -> Result<&Value, ApiError> {
        self.view(version).scale().ok_or_else(|| ApiError::internal("the version has no scale subresource"))
    }

    /// The field names that lead to the number of replicas, for each apiVersion; none where there is no `/scale`.
    pub(crate) fn replicas_paths(&self) -> Vec<(String, Option<Vec<String>>)> {
        let view = Definition(&self.definition);
        let steps = |scale: &Value| {
            let path = scale["specReplicasPath"].as_str().unwrap_or_default();
            path.split('.').filter(|step| !step.is_empty()).map(str::to_owned).collect()
        };
        view.versions()
            .map(|version| (group_version(view.group(), version.name()), version.scale().map(steps)))
            .collect()
    }

    pub(crate) fn scale(&self, version: &str, object: &Value) -> Result<Value, ApiError> {
        crd::scale_of(object, self.scale_paths(version)?)
    }

    pub(crate) fn scale_for_update(&self, version: &str, object: &Value) -> Result<Value, ApiError> {
        crd::scale_for_update(object, self.scale_paths(version)?)
    }

    pub(crate) fn write_scale(
        &self,
        version: &str,
        object: &mut Value,
        scale: &Value,
    ) -> Result<(), ApiError> {
        crd::write_scale(object, scale, self.scale_paths(version)?)
    }
}

fn column(definition: &Value) -> Column {
    let text = |key: &str| definition[key].as_str().unwrap_or_default().to_owned().into();
    let priority = definition["priority"].as_i64().and_then(|number| i32::try_from(number).ok());
    Column {
        name: text("name"),
        kind: text("type"),
        format: text("format"),
        description: text("description"),
        priority: priority.unwrap_or_default(),
    }
}

/// The schema of a version, with its rules ready to run.
fn compiled(openapi: Option<&Value>) -> SchemaRef {
    let schema = openapi.map_or_else(Schema::any, Schema::custom_resource);
    if let Some(props) = openapi.and_then(Props::of)
        && schema.below.rules
    {
        // What is wrong with a rule was said when the definition was written.
        let _ = crd::compile_rules(props, &schema, &Path::default(), &[]);
    }
    SchemaRef::new(schema)
}
