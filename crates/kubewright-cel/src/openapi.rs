//! Declared shapes from OpenAPI v3 schemas, as a CustomResourceDefinition holds them.

use serde_json::{Map, Value};

use crate::schema::{DeclType, ListIdentity, Property};

impl DeclType {
    /// The shape that a structural schema declares; nothing where it declares none, such as for fields
    /// that are only preserved. At the root of a resource, `apiVersion`, `kind` and `metadata` with its
    /// `name` and `generateName` are always there.
    pub fn from_openapi(schema: &Map<String, Value>, is_resource_root: bool) -> Option<Self> {
        let shape = Self::from_schema(schema, is_resource_root)?;
        let nullable = schema.get("nullable").and_then(Value::as_bool).unwrap_or(false);
        Some(if nullable { shape.nullable() } else { shape })
    }

    fn from_schema(schema: &Map<String, Value>, is_resource_root: bool) -> Option<Self> {
        let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or(false);
        let text = |name: &str| schema.get(name).and_then(Value::as_str).unwrap_or_default();
        // A negative limit allows nothing.
        let limit = |name: &str| {
            let limit = schema.get(name).filter(|limit| limit.is_number())?;
            Some(limit.as_u64().unwrap_or(0))
        };
        if flag("x-kubernetes-int-or-string") {
            return Some(Self::int_or_string(limit("maxLength")));
        }
        Some(match text("type") {
            "array" => {
                let items = nested(schema.get("items")?)?;
                Self::list(items, limit("maxItems"), list_identity(schema))
            }
            "object" => {
                if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object())
                    && !is_resource_root
                {
                    return Some(Self::map(nested(values)?, limit("maxProperties")));
                }
                let empty = Map::new();
                let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
                let names = schema.get("required").and_then(Value::as_array);
                let is_required = |name: &str| names.is_some_and(|names| names.iter().any(|it| it == name));
                let completed = is_resource_root && !declares_type_and_names(properties);
                let mut declared: Vec<Property> = properties
                    .iter()
                    .filter(|(name, _)| {
                        !completed || !matches!(name.as_str(), "apiVersion" | "kind" | "metadata")
                    })
                    .filter_map(|(name, schema)| {
                        Some(Property {
                            name: name.clone(),
                            ty: nested(schema)?,
                            always_given: is_required(name) && schema.get("default").is_none(),
                        })
                    })
                    .collect();
                if completed {
                    declared.extend(
                        type_and_names().map(|property| Property {
                            always_given: is_required(&property.name),
                            ..property
                        }),
                    );
                }
                Self::object(declared)
            }
            "string" => match text("format") {
                "byte" => Self::bytes(limit("maxLength")),
                "duration" => Self::duration(),
                "date" => Self::date(),
                "date-time" => Self::date_time(),
                _ => Self::string(limit("maxLength"), longest_allowed(schema)),
            },
            "boolean" => Self::bool(),
            "number" => Self::double(),
            "integer" => Self::int(),
            _ => return None,
        })
    }
}

fn nested(schema: &Value) -> Option<DeclType> {
    let schema = schema.as_object()?;
    let embedded = schema.get("x-kubernetes-embedded-resource").and_then(Value::as_bool).unwrap_or(false);
    DeclType::from_openapi(schema, embedded)
}

/// Whether a resource declares by itself what every resource has; otherwise what it says of these fields
/// does not count.
fn declares_type_and_names(properties: &Map<String, Value>) -> bool {
    let has_type = |properties: &Map<String, Value>, name: &str, ty: &str| {
        properties.get(name).is_some_and(|schema| schema.get("type").is_some_and(|it| it == ty))
    };
    has_type(properties, "apiVersion", "string")
        && has_type(properties, "kind", "string")
        && has_type(properties, "metadata", "object")
        && properties["metadata"].get("properties").and_then(Value::as_object).is_some_and(|metadata| {
            has_type(metadata, "name", "string") && has_type(metadata, "generateName", "string")
        })
}

fn type_and_names() -> [Property; 3] {
    let text = || DeclType::string(None, None);
    let metadata = DeclType::object([Property::new("name", text()), Property::new("generateName", text())]);
    [Property::new("apiVersion", text()), Property::new("kind", text()), Property::new("metadata", metadata)]
}

fn list_identity(schema: &Map<String, Value>) -> ListIdentity {
    match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => ListIdentity::Set,
        Some("map") => {
            let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            ListIdentity::Map(
                keys.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect(),
            )
        }
        _ => ListIdentity::Atomic,
    }
}

fn longest_allowed(schema: &Map<String, Value>) -> Option<u64> {
    let allowed = schema.get("enum")?.as_array().filter(|allowed| !allowed.is_empty())?;
    Some(allowed.iter().filter_map(Value::as_str).map(|text| text.len() as u64).max().unwrap_or(0))
}
