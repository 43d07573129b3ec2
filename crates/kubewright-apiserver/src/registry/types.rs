//! The types of the built-in kinds, read from the table `data/types.txt`.
//!
//! The table is generated from the Go types of Kubernetes and says what k8s-openapi's schemas leave out:
//! pointers, when a field is left out of the JSON, list types, merge keys. It is parsed once a process.

use std::{collections::BTreeMap, sync::LazyLock};

use crate::schema::{Field, ListType, Schema, SchemaRef, Type};

/// Name of the definition of `metadata`.
pub(crate) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// All built-in types.
pub(crate) struct Types {
    by_name: BTreeMap<&'static str, SchemaRef>,
    /// (group, version, kind) to definition name.
    kinds: BTreeMap<(&'static str, &'static str, &'static str), &'static str>,
}

impl Types {
    /// The table of this build.
    pub(crate) fn get() -> &'static Self {
        static TYPES: LazyLock<Types> = LazyLock::new(|| Types::parse(include_str!("../../data/types.txt")));
        &TYPES
    }

    /// A definition by its name.
    pub(crate) fn definition(&self, name: &str) -> SchemaRef {
        self.by_name.get(name).cloned().unwrap_or_default()
    }

    /// The schema of a kind.
    pub(crate) fn kind(&self, group: &str, version: &str, kind: &str) -> Option<SchemaRef> {
        let name = self.kinds.iter().find(|((g, v, k), _)| *g == group && *v == version && *k == kind)?.1;
        self.by_name.get(name).cloned()
    }

    /// Group, version and kind of a definition, if it is a kind.
    pub(crate) fn kind_of(&self, definition: &str) -> Option<(&'static str, &'static str, &'static str)> {
        self.kinds.iter().find(|(_, name)| **name == definition).map(|(gvk, _)| *gvk)
    }

    fn parse(table: &'static str) -> Self {
        let mut types = Self { by_name: BTreeMap::new(), kinds: BTreeMap::new() };
        let mut open: Option<(SchemaRef, Schema)> = None;
        for line in table.lines().filter(|line| !line.starts_with('#')) {
            if let Some(field) = line.strip_prefix("  ") {
                if let Some((_, schema)) = &mut open {
                    types.field(schema, field);
                }
                continue;
            }
            if let Some((reference, schema)) = open.take() {
                reference.complete(schema);
            }
            open = types.head(line);
        }
        if let Some((reference, schema)) = open {
            reference.complete(schema);
        }
        types
    }

    /// `NAME [kind GROUP/VERSION KIND] [map=atomic]`
    fn head(&mut self, line: &'static str) -> Option<(SchemaRef, Schema)> {
        let mut words = line.split(' ');
        let name = words.next()?;
        let mut schema = Schema { name: Some(name), ty: Type::Object, ..Schema::default() };
        while let Some(word) = words.next() {
            match word {
                "kind" => {
                    let (group, version) = words.next()?.split_once('/')?;
                    self.kinds.insert((group, version, words.next()?), name);
                }
                "map=atomic" => schema.atomic = true,
                _ => {}
            }
        }
        Some((self.reference(name), schema))
    }

    fn reference(&mut self, name: &'static str) -> SchemaRef {
        self.by_name.entry(name).or_default().clone()
    }

    /// `NAME TYPE [FLAG...]`
    fn field(&mut self, parent: &mut Schema, line: &'static str) {
        let mut words = line.split(' ');
        let (Some(name), Some(text)) = (words.next(), words.next()) else { return };
        let (pointer, text) = match text.strip_prefix('*') {
            Some(inner) => (true, inner),
            None => (false, text),
        };
        let is_struct = text.starts_with('@')
            || matches!(text, "time" | "microtime" | "quantity" | "duration" | "intorstring" | "any");
        let mut field = Field { pointer, ..Field::default() };
        let mut own = self.parse_type(text);
        let (mut omit_empty, mut omit_zero, mut zero) = (false, false, false);
        let (mut keys, mut list_map) = (Vec::new(), false);
        for flag in words {
            if let Some(path) = flag.strip_prefix('#') {
                field.numbers = path.split('.').filter_map(|number| number.parse().ok()).collect();
                continue;
            }
            match flag.split_once('=').unwrap_or((flag, "")) {
                ("omitempty", _) => omit_empty = true,
                ("omitzero", _) => omit_zero = true,
                ("required", _) => {
                    parent.required.push(name.to_owned());
                    zero = !pointer;
                }
                ("list", "set") => own.edit().list = ListType::Set,
                ("list", "map") => list_map = true,
                ("keys", names) => keys = names.split(',').map(str::to_owned).collect(),
                ("map", kind) => own.edit().atomic = kind == "atomic",
                ("patch", strategies) => {
                    field.merge.merge = strategies.split(',').any(|one| one == "merge");
                    field.merge.retain_keys = strategies.split(',').any(|one| one == "retainKeys");
                }
                ("mergekey", key) => field.merge.key = Some(key.to_owned()),
                ("default", value) => own.edit().default = serde_json::from_str(value).ok(),
                ("enum", values) => {
                    own.edit().one_of_values = serde_json::from_str(values).unwrap_or_default();
                }
                _ => {}
            }
        }
        if list_map {
            own.edit().list = ListType::Map(keys);
        }
        // A field that is always there is zero where nobody has set it.
        if zero
            && let Node::Own(schema) = &mut own
            && schema.default.is_none()
        {
            schema.default = match schema.ty {
                Type::String if schema.format.is_none() => Some("".into()),
                Type::Integer => Some(0.into()),
                Type::Boolean => Some(false.into()),
                _ => None,
            };
        }
        // Go leaves an empty struct out only with `omitzero`, or when it is a nil pointer.
        field.omit_empty = if is_struct && !pointer { omit_zero } else { omit_empty || omit_zero };
        field.pointer |= omit_zero;
        field.schema = own.finish();
        parent.properties.insert(name.to_owned(), field);
    }

    fn parse_type(&mut self, text: &'static str) -> Node {
        let text = text.strip_prefix('*').unwrap_or(text);
        let with_format = |ty, format: &str| Schema { format: Some(format.to_owned()), ..Schema::scalar(ty) };
        Node::Own(Box::new(match text {
            "string" => Schema::scalar(Type::String),
            "bool" => Schema::scalar(Type::Boolean),
            "int32" | "int64" => with_format(Type::Integer, text),
            "double" => with_format(Type::Number, text),
            "bytes" => with_format(Type::String, "byte"),
            "time" => with_format(Type::String, "date-time"),
            "microtime" => with_format(Type::String, "micro-time"),
            "duration" | "quantity" => with_format(Type::String, text),
            "intorstring" => Schema::scalar(Type::IntOrString),
            _ => {
                if let Some(item) = text.strip_prefix("[]") {
                    let items = Some(self.parse_type(item).finish());
                    Schema { ty: Type::Array, items, ..Schema::default() }
                } else if let Some(value) = text.strip_prefix("{}") {
                    let values = Some(self.parse_type(value).finish());
                    Schema { ty: Type::Object, values, ..Schema::default() }
                } else if let Some(name) = text.strip_prefix('@') {
                    return Node::Shared(self.reference(name));
                } else {
                    Schema { atomic: true, ..Schema::any() }
                }
            }
        }))
    }
}

/// A field's node while its flags are read: shared with other fields until a flag makes it differ.
enum Node {
    Shared(SchemaRef),
    Own(Box<Schema>),
}

impl Node {
    fn edit(&mut self) -> &mut Schema {
        loop {
            match self {
                Self::Own(schema) => return schema,
                Self::Shared(reference) => *self = Self::Own(Box::new((**reference).clone())),
            }
        }
    }

    fn finish(self) -> SchemaRef {
        match self {
            Self::Shared(reference) => reference,
            Self::Own(schema) => SchemaRef::new(*schema),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Merge;

    #[test]
    fn a_container_port_is_told_apart_by_port_and_protocol() {
        let container = Types::get().definition("io.k8s.api.core.v1.Container");
        let ports = &container.properties["ports"];
        assert_eq!(ports.schema.list, ListType::Map(vec!["containerPort".into(), "protocol".into()]));
        assert_eq!(ports.merge, Merge { merge: true, key: Some("containerPort".into()), retain_keys: false });
        let port = ports.schema.items.clone().expect("a list has items");
        assert_eq!(port.properties["protocol"].schema.default, Some("TCP".into()));
    }

    #[test]
    fn zero_replicas_are_kept_and_zero_seconds_are_not() {
        let spec = Types::get().definition("io.k8s.api.apps.v1.DeploymentSpec");
        assert!(spec.properties["replicas"].pointer);
        assert!(!spec.properties["minReadySeconds"].pointer && spec.properties["minReadySeconds"].omit_empty);
        let deployment = Types::get().kind("apps", "v1", "Deployment").expect("apps/v1 has Deployment");
        assert!(!deployment.properties["status"].omit_empty, "an empty status is still shown");
    }

    #[test]
    fn a_type_that_contains_itself_is_read() {
        let props = Types::get()
            .definition("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps");
        let inner = props.properties["properties"].schema.values.clone().expect("a map has values");
        assert_eq!(inner.name, props.name);
    }
}
