//! The `Table` document of `meta.k8s.io`, and the `PartialObjectMetadata` its rows carry.
//!
//! Both borrow the objects they show and are meant to be serialised at once. A `Status` is never made a
//! table: the caller sends it as it is.

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer, ser::SerializeStruct};
use serde_json::{Value, value::RawValue};

use super::{Cells, Column, Printer};
use crate::{
    error::ApiError,
    field::{FieldError, Path},
    kinds::access::{get, get_i64, get_str},
};

/// The version of `meta.k8s.io` a client asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum MetaVersion {
    /// `meta.k8s.io/v1`
    #[default]
    V1,
    /// `meta.k8s.io/v1beta1`
    V1Beta1,
}

impl MetaVersion {
    fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// What a row carries of its object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    /// Its metadata.
    #[default]
    Metadata,
    /// All of it.
    Object,
    /// Nothing.
    None,
}

impl IncludeObject {
    /// The value of the query parameter `includeObject`; empty for the default.
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        match text {
            "" | "Metadata" => Ok(Self::Metadata),
            "Object" => Ok(Self::Object),
            "None" => Ok(Self::None),
            other => {
                let detail = "must be 'Metadata', 'Object', 'None', or empty";
                let error = FieldError::invalid(&Path::new("includeObject"), other, detail);
                Err(ApiError::bad_request(format!("Unable to convert to Table as requested: {error}")))
            }
        }
    }
}

/// How a client wants its table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// The version of the document.
    pub version: MetaVersion,
    /// What rows carry of their object.
    pub include: IncludeObject,
    /// Leave the columns out, as in all but the first event of a watch.
    pub no_headers: bool,
}

/// The metadata of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListMeta {
    /// The revision the list shows.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Where the rest of the list starts.
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
    /// How many items that rest has, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_item_count: Option<i64>,
}

/// A table, ready to be serialised.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Table<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: ListMeta,
    column_definitions: Option<&'a [Column]>,
    rows: Option<Vec<Row<'a>>>,
}

#[derive(Serialize)]
struct Row<'a> {
    cells: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    conditions: Option<[RowCondition; 1]>,
    object: RowObject<'a>,
}

#[derive(Serialize)]
struct RowCondition {
    #[serde(rename = "type")]
    kind: &'static str,
    status: &'static str,
    reason: &'static str,
    message: &'static str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum RowObject<'a> {
    Metadata(PartialObjectMetadata<&'a Value>),
    Object(&'a Value),
    None(()),
}

impl<'a> Table<'a> {
    /// The table of a list.
    pub(crate) fn of_list(
        printer: Printer<'a>,
        items: impl IntoIterator<Item = &'a Value>,
        metadata: ListMeta,
        options: Options,
        now: Timestamp,
    ) -> Self {
        let mut items: Vec<&Value> = items.into_iter().collect();
        if items.first().is_some_and(|item| get_str(item, &["kind"]) == "FlowSchema") {
            items.sort_by_key(|item| {
                let precedence = get_i64(item, &["spec", "matchingPrecedence"]).unwrap_or_default();
                (precedence, get_str(item, &["metadata", "name"]))
            });
        }
        let rows = items.into_iter().map(|item| Row::new(printer, item, options, now)).collect();
        Self::new(printer, rows, metadata, options)
    }

    fn new(printer: Printer<'a>, rows: Vec<Row<'a>>, metadata: ListMeta, options: Options) -> Self {
        // kube-apiserver's default printer makes no list where there is nothing to list.
        let nothing = rows.is_empty() && matches!(printer.cells, Cells::Default);
        Self {
            kind: "Table",
            api_version: options.version.api_version(),
            metadata,
            column_definitions: (!options.no_headers).then_some(printer.columns),
            rows: (!nothing).then_some(rows),
        }
    }
}

impl<'a> Row<'a> {
    fn new(printer: Printer<'a>, object: &'a Value, options: Options, now: Timestamp) -> Self {
        let is_pod = get_str(object, &["kind"]) == "Pod" && get_str(object, &["apiVersion"]) == "v1";
        let carried = match options.include {
            IncludeObject::Object => RowObject::Object(object),
            // The mark in the metadata is all that tells the end of the initial events.
            IncludeObject::None if !ends_initial_events(object) => RowObject::None(()),
            _ => RowObject::Metadata(PartialObjectMetadata::new(object, options.version)),
        };
        let conditions = if is_pod { completed(object).map(|condition| [condition]) } else { None };
        Self { cells: printer.cells(object, now), conditions, object: carried }
    }
}

fn ends_initial_events(object: &Value) -> bool {
    get_str(object, &["metadata", "annotations", "k8s.io/initial-events-end"]) == "true"
}

/// Marks the row of a pod that has run to its end, which clients may hide.
fn completed(pod: &Value) -> Option<RowCondition> {
    let (reason, message) = match get_str(pod, &["status", "phase"]) {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(RowCondition { kind: "Completed", status: "True", reason, message })
}

/// An object of which only the metadata is shown.
pub(crate) struct PartialObjectMetadata<M> {
    metadata: Option<M>,
    version: MetaVersion,
}

impl<'a> PartialObjectMetadata<&'a Value> {
    /// The metadata of `object`.
    pub(crate) fn new(object: &'a Value, version: MetaVersion) -> Self {
        Self { metadata: get(object, &["metadata"]), version }
    }
}

impl<'a> PartialObjectMetadata<&'a RawValue> {
    /// The metadata of an object that is there as JSON, as it stands there.
    pub(crate) fn read(object: &'a [u8], version: MetaVersion) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct Object<'a> {
            #[serde(borrow)]
            metadata: Option<&'a RawValue>,
        }
        let Object { metadata } = serde_json::from_slice(object)?;
        Ok(Self { metadata, version })
    }
}

impl<M: Serialize> Serialize for PartialObjectMetadata<M> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut document = serializer.serialize_struct("PartialObjectMetadata", 3)?;
        document.serialize_field("kind", "PartialObjectMetadata")?;
        document.serialize_field("apiVersion", self.version.api_version())?;
        match &self.metadata {
            Some(metadata) => document.serialize_field("metadata", metadata)?,
            None => document.serialize_field("metadata", &serde_json::Map::new())?,
        }
        document.end()
    }
}

/// A list of which only the metadata of the items is shown.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PartialObjectMetadataList<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: ListMeta,
    items: Vec<PartialObjectMetadata<&'a Value>>,
}

impl<'a> PartialObjectMetadataList<'a> {
    /// The metadata of `items`.
    pub(crate) fn new(
        items: impl IntoIterator<Item = &'a Value>,
        metadata: ListMeta,
        version: MetaVersion,
    ) -> Self {
        Self {
            kind: "PartialObjectMetadataList",
            api_version: version.api_version(),
            metadata,
            items: items.into_iter().map(|item| PartialObjectMetadata::new(item, version)).collect(),
        }
    }
}
