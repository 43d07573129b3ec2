//! Answers with objects: whole, as tables, or as metadata only; as JSON or YAML.

use serde_json::{Value, json};

use super::{Scope, list::Page};
use crate::{
    error::ApiError,
    fields::folded,
    http::{
        answer::{self, Answer, Joined},
        negotiate::{Accepted, Encoding, Shape},
    },
    kinds::access,
    registry::Origin,
    store::Stored,
    table::{
        self, IncludeObject, ListMeta, PartialObjectMetadata, PartialObjectMetadataList, Printer, Table,
    },
};

/// One stored object.
pub(crate) async fn stored(scope: &Scope, code: u16, stored: &Stored) -> Result<Answer, ApiError> {
    if scope.accepted == Accepted::PLAIN
        && let Some(body) = scope.resource.whole(stored, b"\n")
    {
        return Ok(answer::bytes(code, "application/json", body));
    }
    let value = scope.load(stored).await?;
    object(scope, code, value)
}

/// One object that is not stored, or not any more; it may be folded.
pub(crate) fn object(scope: &Scope, code: u16, mut object: Value) -> Result<Answer, ApiError> {
    folded::unfold(&mut object);
    let document = match scope.accepted.shape {
        Shape::Whole | Shape::Discovery => object,
        Shape::Metadata => scope.partial(&object)?,
        Shape::MetadataList => return Err(not_a_list(scope)),
        Shape::Table => {
            let revision = access::get_str(&object, &["metadata", "resourceVersion"]).to_owned();
            scope.table(&[object], ListMeta { resource_version: revision, ..ListMeta::default() }, true)?
        }
    };
    if scope.resource.is_custom() && scope.accepted == Accepted::PLAIN {
        return Ok(answer::ordered_json(code, &document));
    }
    Ok(document_answer(scope, code, &document))
}

/// A document that takes no other shape, such as a `Status` or a `Scale`.
pub(crate) fn document_answer(scope: &Scope, code: u16, document: &Value) -> Answer {
    match scope.accepted.encoding {
        Encoding::Json | Encoding::Protobuf => answer::json(code, document),
        Encoding::Yaml => answer::bytes(code, "application/yaml", crate::http::yaml::print(document)),
    }
}

fn not_a_list(scope: &Scope) -> ApiError {
    ApiError::new(
        406,
        "NotAcceptable",
        format!(
            "object does not implement the List interfaces: you may not request a PartialObjectMetadataList for {}",
            scope.resource.kind
        ),
    )
}

/// A list, or a page of one.
pub(crate) async fn list(scope: &Scope, page: Page) -> Result<Answer, ApiError> {
    let mut metadata = json!({"resourceVersion": page.revision.to_string()});
    if !page.continue_token.is_empty() || scope.resource.is_custom() {
        metadata["continue"] = page.continue_token.as_str().into();
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    if scope.accepted == Accepted::PLAIN {
        let items: Option<Vec<_>> = page.objects.iter().map(|stored| scope.resource.item(stored)).collect();
        if let Some(items) = items {
            return Ok(answer::of(200, "application/json", joined(scope, &metadata, items).into()));
        }
    }
    let objects = scope.load_all(&page.objects).await;
    let objects = objects.map_err(|error| scope.unlisted(page.is_paged, error))?;
    let document = match scope.accepted.shape {
        Shape::Whole | Shape::Discovery => whole_list(scope, metadata, objects),
        Shape::Metadata | Shape::MetadataList => {
            let list = PartialObjectMetadataList::new(&objects, page.metadata(), scope.accepted.version);
            serde_json::to_value(list).map_err(ApiError::internal)?
        }
        Shape::Table => scope.table(&objects, page.metadata(), true)?,
    };
    Ok(document_answer(scope, 200, &document))
}

/// A list of objects in memory.
pub(crate) fn whole_list(scope: &Scope, metadata: Value, mut objects: Vec<Value>) -> Value {
    if !scope.resource.is_custom() {
        for object in objects.iter_mut().filter_map(Value::as_object_mut) {
            object.remove("kind");
            object.remove("apiVersion");
        }
    }
    json!({
        "kind": &*scope.resource.list_kind, "apiVersion": scope.resource.api_version(),
        "metadata": metadata, "items": objects,
    })
}

fn joined(scope: &Scope, metadata: &Value, items: Vec<bytes::Bytes>) -> Joined {
    let mut head = super::codec::head(&scope.resource.list_kind, &scope.resource.api_version());
    head.extend_from_slice(b"\"metadata\":");
    answer::write_json(&mut head, metadata);
    head.extend_from_slice(b",\"items\":[");
    Joined::new(head, items, b"]}\n")
}

impl Page {
    fn metadata(&self) -> ListMeta {
        ListMeta {
            resource_version: self.revision.to_string(),
            continue_token: self.continue_token.clone(),
            remaining_item_count: self.remaining.and_then(|count| i64::try_from(count).ok()),
        }
    }
}

impl Scope {
    /// `PartialObjectMetadata` of an object.
    pub(crate) fn partial(&self, object: &Value) -> Result<Value, ApiError> {
        serde_json::to_value(PartialObjectMetadata::new(object, self.accepted.version))
            .map_err(ApiError::internal)
    }

    /// A `Table` of objects.
    pub(crate) fn table(
        &self,
        objects: &[Value],
        metadata: ListMeta,
        headings: bool,
    ) -> Result<Value, ApiError> {
        let include = IncludeObject::parse(self.query.get("includeObject").unwrap_or_default())?;
        let options = table::Options { version: self.accepted.version, include, no_headers: !headings };
        let now = self.server.clock.now();
        let (group, kind, version) = (&self.resource.group, &self.resource.kind, &self.resource.version);
        let document = match &self.resource.origin {
            Origin::BuiltIn(_) => {
                let table = Table::of_list(Printer::built_in(group, kind), objects, metadata, options, now);
                serde_json::to_value(table)
            }
            Origin::Custom(custom) => {
                let columns = custom.columns(version);
                let cells = |object: &Value, now| custom.cells(version, object, now);
                let printer = Printer::custom(columns, &cells);
                serde_json::to_value(Table::of_list(printer, objects, metadata, options, now))
            }
        };
        document.map_err(ApiError::internal)
    }
}
