//! Types for clients in TypeScript: one file a group and version, for use with any client of Kubernetes there is. Rust
//! needs none: the operator's own library has the types, and other languages make theirs of the JSON schemas.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::Value;

use super::{Version, header, versions};

pub(super) fn types(definitions: &[Value]) -> BTreeMap<String, String> {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for version in versions(definitions) {
        let path = format!("clients/typescript/{}_{}.ts", version.group(), version.name());
        let file = files
            .entry(path)
            .or_insert_with(|| format!("// {}\n{METADATA}", header("kubewright generate client")));
        *file += &interface(&version);
    }
    files
}

/// What every object has, as far as a client writes or shows it.
const METADATA: &str = "
export interface ObjectMeta {
  name?: string;
  generateName?: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  generation?: number;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  labels?: { [key: string]: string };
  annotations?: { [key: string]: string };
  finalizers?: string[];
}
";

fn interface(version: &Version<'_>) -> String {
    let (kind, schema) = (version.kind(), version.schema());
    let mut text = String::from("\n");
    comment(&mut text, schema, "");
    let _ = write!(
        text,
        "export interface {kind} {{\n  apiVersion: {:?};\n  kind: {kind:?};\n  metadata: ObjectMeta;\n",
        format!("{}/{}", version.group(), version.name()),
    );
    let is_metadata = |name: &str| ["apiVersion", "kind", "metadata"].contains(&name);
    fields(&mut text, schema, "  ", is_metadata);
    text + "}\n"
}

fn fields(text: &mut String, schema: &Value, indent: &str, is_left_out: impl Fn(&str) -> bool) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        if is_left_out(name) {
            continue;
        }
        let is_required =
            schema["required"].as_array().is_some_and(|names| names.iter().any(|one| one == name));
        let optional = if is_required { "" } else { "?" };
        comment(text, field, indent);
        let _ = writeln!(text, "{indent}{}{optional}: {};", key(name), type_of(field, indent));
    }
}

fn comment(text: &mut String, schema: &Value, indent: &str) {
    if let Some(description) = schema["description"].as_str() {
        let line = description.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = writeln!(text, "{indent}/** {} */", line.replace("*/", "*\\/"));
    }
}

fn type_of(schema: &Value, indent: &str) -> String {
    let kind = match schema["type"].as_str() {
        _ if schema["x-kubernetes-int-or-string"] == true => "number | string".to_owned(),
        _ if schema["enum"].is_array() => {
            let values = schema["enum"].as_array().into_iter().flatten().map(Value::to_string);
            values.collect::<Vec<_>>().join(" | ")
        }
        Some("string") => "string".to_owned(),
        Some("integer" | "number") => "number".to_owned(),
        Some("boolean") => "boolean".to_owned(),
        Some("array") => format!("Array<{}>", type_of(&schema["items"], indent)),
        Some("object") if schema["properties"].is_object() => {
            let deeper = format!("{indent}  ");
            let mut text = String::from("{\n");
            fields(&mut text, schema, &deeper, |_| false);
            if schema["x-kubernetes-preserve-unknown-fields"] == true {
                let _ = writeln!(text, "{deeper}[key: string]: unknown;");
            }
            text + indent + "}"
        }
        Some("object") if schema["additionalProperties"].is_object() => {
            format!("{{ [key: string]: {} }}", type_of(&schema["additionalProperties"], indent))
        }
        Some("object") => "{ [key: string]: unknown }".to_owned(),
        _ => "unknown".to_owned(),
    };
    if schema["nullable"] == true { format!("{kind} | null") } else { kind }
}

/// A name as a key: bare where it may be.
fn key(name: &str) -> String {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '$';
    let is_bare = name.chars().all(is_word) && !name.starts_with(|letter: char| letter.is_ascii_digit());
    if is_bare { name.to_owned() } else { format!("{name:?}") }
}
