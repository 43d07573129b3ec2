//! Rust types from the schema of a definition, for kinds of others. The types say what a field can hold; what else the
//! server asks of it, such as limits and patterns, stays with the server.
//!
//! kopium does the same as a program. As a library it would bring an older kube, a second set of the built-in types, and
//! a YAML parser that nobody keeps up.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use heck::{ToSnakeCase as _, ToUpperCamelCase as _};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::json;

use crate::names;

/// How wide a line of a description is.
const WIDTH: usize = 90;
/// What every object has, and its type with it.
const COMMON: [&str; 3] = ["apiVersion", "kind", "metadata"];
/// The fields of the conditions that most kinds share.
const CONDITION: [&str; 5] = ["lastTransitionTime", "message", "reason", "status", "type"];

/// The types of one version of a kind, as the text of a module.
pub(super) fn types(definition: &CustomResourceDefinition, version: &str) -> Result<String, String> {
    let spec = &definition.spec;
    let kind = &spec.names.kind;
    let found = spec.versions.iter().find(|one| one.name == version);
    let schema = found.and_then(|one| one.schema.as_ref()?.open_api_v3_schema.as_ref());
    let schema = schema.ok_or_else(|| format!("{kind} has no schema in {version}"))?;
    let mut properties = schema.properties.clone().unwrap_or_default();
    properties.retain(|name, _| !COMMON.contains(&name.as_str()));
    let status = properties.remove("status");

    let mut writer = Writer::default();
    writer.names.extend([kind.clone(), format!("{kind}Spec"), format!("{kind}Status")]);
    // Whatever is there besides spec and status can only be told by fields of the object itself.
    let (is_flat, wanted) = match properties.remove("spec") {
        Some(spec) if properties.is_empty() => (false, spec),
        found => {
            properties.extend(found.map(|spec| ("spec".to_owned(), spec)));
            let required = schema.required.clone();
            (true, JSONSchemaProps { properties: Some(properties), required, ..schema.clone() })
        }
    };
    let mut attributes = vec![
        format!("group = {:?}", spec.group),
        format!("version = {version:?}"),
        format!("kind = {kind:?}"),
        format!("plural = {:?}", spec.names.plural),
    ];
    attributes.extend((spec.scope == "Namespaced").then(|| "namespaced".to_owned()));
    attributes.extend(is_flat.then(|| "no_spec".to_owned()));
    attributes.push("schema = \"disabled\"".to_owned());
    if let Some(text) = schema.description.as_ref().map(|text| folded(text)) {
        attributes.push(format!("doc = {}", json!(text)));
    }
    let is_told = status.as_ref().is_some_and(|status| !is_open(status));
    attributes.extend(status.as_ref().map(|_| match is_told {
        true => format!("status = \"{kind}Status\""),
        false => "status = \"serde_json::Value\"".to_owned(),
    }));
    let attributes = format!("#[kube({})]\n", attributes.join(", "));
    writer.structure(&format!("{kind}Spec"), kind, &wanted, "CustomResource, ", &attributes);
    if let Some(status) = status.filter(|_| is_told) {
        let name = format!("{kind}Status");
        writer.structure(&name, &name, &status, "", "");
    }
    Ok(writer.module(kind, &spec.group, version))
}

#[derive(Default)]
struct Writer {
    items: Vec<String>,
    /// The names of types that are taken.
    names: BTreeSet<String>,
    imports: BTreeSet<&'static str>,
}

/// A type as fields name it.
struct Named {
    rust: String,
    has_default: bool,
}

impl Named {
    fn of(rust: impl Into<String>) -> Self {
        Self { rust: rust.into(), has_default: true }
    }
}

impl Writer {
    fn module(self, kind: &str, group: &str, version: &str) -> String {
        let imports: String = self.imports.iter().map(|path| format!("use {path};\n")).collect();
        format!(
            "//! The kind `{kind}` of `{group}/{version}`, from its definition.\n\n\
             #![allow(rustdoc::all, reason = \"the descriptions are those of the definition\")]\n\n\
             {imports}use kube::CustomResource;\nuse serde::{{Deserialize, Serialize}};\n\n{}",
            self.items.join("\n")
        )
    }

    /// Writes a struct, and says whether it has a default. Types within it are named after `prefix` and their fields.
    fn structure(
        &mut self,
        name: &str,
        prefix: &str,
        schema: &JSONSchemaProps,
        derives: &str,
        attributes: &str,
    ) -> bool {
        // Before what it is made of, as a reader wants it.
        let place = self.items.len();
        self.items.push(String::new());
        let (mut fields, mut taken) = (String::new(), BTreeSet::new());
        let (mut has_default, mut renames_all) = (true, false);
        for (property, of) in schema.properties.iter().flatten() {
            let is_required = schema.required.iter().flatten().any(|required| required == property);
            let field = unique(&mut taken, field_name(property));
            let named = self.type_of(of, format!("{prefix}{}", property.to_upper_camel_case()));
            fields += &doc(of.description.as_deref(), "    ");
            if camel_case(&field) != *property {
                let _ = writeln!(fields, "    #[serde(rename = {})]", json!(property));
            } else {
                renames_all |= field != *property;
            }
            if is_required && of.nullable != Some(true) {
                has_default &= named.has_default;
                let _ = writeln!(fields, "    pub {field}: {},", named.rust);
                continue;
            }
            if !is_required {
                fields += "    #[serde(default, skip_serializing_if = \"Option::is_none\")]\n";
            }
            let _ = writeln!(fields, "    pub {field}: Option<{}>,", named.rust);
        }
        if is_open(schema) {
            let field = unique(&mut taken, "other".to_owned());
            let map = self.map("serde_json::Value");
            let _ = writeln!(
                fields,
                "    /// Whatever else is said.\n    #[serde(flatten)]\n    pub {field}: {map},"
            );
        }
        let default = if has_default { ", Default" } else { "" };
        let renames = if renames_all { "#[serde(rename_all = \"camelCase\")]\n" } else { "" };
        self.items[place] = format!(
            "{}#[derive({derives}Serialize, Deserialize, Clone, Debug{default}, PartialEq)]\n{attributes}{renames}pub \
             struct {name} {{\n{fields}}}\n",
            doc(schema.description.as_deref(), ""),
        );
        has_default
    }

    /// The type of what a schema takes; one that has to be written is called `name` if it can be.
    fn type_of(&mut self, schema: &JSONSchemaProps, name: String) -> Named {
        if schema.x_kubernetes_int_or_string == Some(true) {
            self.imports.insert("k8s_openapi::apimachinery::pkg::util::intstr::IntOrString");
            return Named::of("IntOrString");
        }
        if schema.x_kubernetes_embedded_resource == Some(true) {
            return Named::of("serde_json::Value");
        }
        match schema.type_.as_deref() {
            Some("string") => self.text(schema, name),
            Some("integer") if schema.format.as_deref() == Some("int32") => Named::of("i32"),
            Some("integer") => Named::of("i64"),
            Some("number") => Named::of("f64"),
            Some("boolean") => Named::of("bool"),
            Some("array") => match &schema.items {
                Some(JSONSchemaPropsOrArray::Schema(item)) => {
                    let item = self.item(item, name);
                    Named::of(format!("Vec<{item}>"))
                }
                _ => Named::of("Vec<serde_json::Value>"),
            },
            Some("object") => self.object(schema, name),
            _ => Named::of("serde_json::Value"),
        }
    }

    /// The type of what a list or a map is made of.
    fn item(&mut self, schema: &JSONSchemaProps, name: String) -> String {
        let named = self.type_of(schema, name);
        if schema.nullable == Some(true) { format!("Option<{}>", named.rust) } else { named.rust }
    }

    fn map(&mut self, value: &str) -> String {
        self.imports.insert("std::collections::BTreeMap");
        format!("BTreeMap<String, {value}>")
    }

    fn object(&mut self, schema: &JSONSchemaProps, name: String) -> Named {
        if is_condition(schema) {
            self.imports.insert("k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition");
            return Named { rust: "Condition".to_owned(), has_default: false };
        }
        if schema.properties.as_ref().is_some_and(|properties| !properties.is_empty()) {
            let name = unique(&mut self.names, name);
            let has_default = self.structure(&name, &name, schema, "", "");
            return Named { rust: name, has_default };
        }
        let value = match &schema.additional_properties {
            Some(JSONSchemaPropsOrBool::Schema(value)) => self.item(value, name),
            _ => "serde_json::Value".to_owned(),
        };
        Named::of(self.map(&value))
    }

    /// A string, or an enum if it is one of a few.
    fn text(&mut self, schema: &JSONSchemaProps, name: String) -> Named {
        let values: Vec<&str> = schema.enum_.iter().flatten().filter_map(|one| one.0.as_str()).collect();
        if values.is_empty() {
            return Named::of("String");
        }
        let name = unique(&mut self.names, name);
        let (mut variants, mut taken) = (String::new(), BTreeSet::new());
        for value in values {
            let variant = unique(&mut taken, variant_name(value));
            if variant != value {
                let _ = writeln!(variants, "    #[serde(rename = {})]", json!(value));
            }
            let _ = writeln!(variants, "    {variant},");
        }
        self.items.push(format!(
            "{}#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]\npub enum {name} {{\n{variants}}}\n",
            doc(schema.description.as_deref(), ""),
        ));
        Named { rust: name, has_default: false }
    }
}

/// Whether a struct must take fields that the schema does not name.
fn is_open(schema: &JSONSchemaProps) -> bool {
    let is_empty = schema.properties.as_ref().is_none_or(BTreeMap::is_empty);
    is_empty || schema.x_kubernetes_preserve_unknown_fields == Some(true)
}

/// Whether it is the condition of Kubernetes itself.
fn is_condition(schema: &JSONSchemaProps) -> bool {
    let required = schema.required.as_deref().unwrap_or_default();
    let is_common = |name: &String| CONDITION.contains(&name.as_str()) || name == "observedGeneration";
    CONDITION.iter().all(|name| required.iter().any(|required| required == name))
        && schema.properties.iter().flatten().all(|(name, _)| is_common(name))
}

/// A name that is not taken yet, and is from now on.
fn unique(taken: &mut BTreeSet<String>, name: String) -> String {
    let mut candidate = name.clone();
    for number in 2.. {
        if taken.insert(candidate.clone()) {
            break;
        }
        candidate = format!("{name}{number}");
    }
    candidate
}

fn field_name(property: &str) -> String {
    let mut name = property.to_snake_case();
    name.retain(|one| one == '_' || one.is_ascii_alphanumeric());
    if name.is_empty() {
        name.push_str("field");
    }
    names::identifier(if name.starts_with(|first: char| first.is_ascii_digit()) {
        format!("_{name}")
    } else {
        name
    })
}

/// What serde makes of a field in `camelCase`.
fn camel_case(field: &str) -> String {
    let mut words = field.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let mut letters = word.chars();
        let capital = letters.next().map(|letter| letter.to_ascii_uppercase());
        name + &capital.into_iter().chain(letters).collect::<String>()
    })
}

fn variant_name(value: &str) -> String {
    let mut name = value.to_upper_camel_case();
    name.retain(|one| one.is_ascii_alphanumeric());
    match name.as_str() {
        "" => "Empty".to_owned(),
        "Self" => "SelfValue".to_owned(),
        _ if name.starts_with(|first: char| first.is_ascii_digit()) => format!("N{name}"),
        _ => name,
    }
}

/// A description as a comment.
fn doc(description: Option<&str>, indent: &str) -> String {
    let mut lines = Vec::new();
    for paragraph in paragraphs(description.unwrap_or_default()) {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend(wrapped(&paragraph));
    }
    lines.iter().map(|line| format!("{indent}/// {line}").trim_end().to_owned() + "\n").collect()
}

/// A description in one line.
fn folded(description: &str) -> String {
    paragraphs(description).join(" ")
}

/// The paragraphs of a description, each in one line. What Markdown would take for code or a list is plain text: code
/// would be compiled, and lists are rarely written as it wants them.
fn paragraphs(description: &str) -> Vec<String> {
    let plain = description.replace("```", "`");
    let lines: Vec<&str> = plain.lines().map(str::trim).collect();
    let paragraphs = lines.split(|line| line.is_empty()).map(|lines| lines.join(" "));
    paragraphs
        .map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|text| !text.is_empty())
        .collect()
}

/// A paragraph in lines, none of which begins as a list or a heading would.
fn wrapped(paragraph: &str) -> Vec<String> {
    let is_mark = |word: &str| {
        let number = word.trim_end_matches(['.', ')']);
        word.starts_with(['-', '*', '+', '#', '>', '=', '|', '~', '`'])
            || (number.len() < word.len() && number.chars().all(|one| one.is_ascii_digit()))
    };
    let mut lines: Vec<String> = Vec::new();
    for word in paragraph.split(' ') {
        match lines.last_mut() {
            Some(line) if is_mark(word) || line.len() + 1 + word.len() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            None if is_mark(word) && !word.starts_with('`') => lines.push(format!("\\{word}")),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
