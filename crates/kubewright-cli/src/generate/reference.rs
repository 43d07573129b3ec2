//! `docs/api.md`: every field of every kind in every version, for those who write resources.

use std::fmt::Write as _;

use serde_json::Value;

use super::{Version, header, versions};

/// Limits of a schema, and how they are told.
const LIMITS: [(&str, &str); 10] = [
    ("minimum", "at least"),
    ("maximum", "at most"),
    ("multipleOf", "a multiple of"),
    ("minLength", "length at least"),
    ("maxLength", "length at most"),
    ("minItems", "items at least"),
    ("maxItems", "items at most"),
    ("minProperties", "entries at least"),
    ("maxProperties", "entries at most"),
    ("pattern", "matches"),
];

/// The reference of all kinds that are defined.
pub(super) fn reference(definitions: &[Value]) -> String {
    let mut page = format!("<!-- {} -->\n# API reference\n", header("kubewright generate docs"));
    page += "\n| kind | apiVersion | scope | |\n|---|---|---|---|\n";
    for version in versions(definitions) {
        let (group, name) = (version.group(), version.name());
        let _ = writeln!(
            page,
            "| [{kind}](#{anchor}) | `{group}/{name}` | {scope} | {remark} |",
            kind = version.kind(),
            anchor = format!("{}-{name}", version.kind()).to_lowercase(),
            scope = version.spec["scope"].as_str().unwrap_or_default(),
            remark = remark(version.version),
        );
    }
    for version in versions(definitions) {
        describe(&mut page, &version);
    }
    page
}

fn remark(version: &Value) -> String {
    let remarks = [
        (version["storage"] == true, "stored".to_owned()),
        (version["served"] == false, "not served".to_owned()),
        (
            version["deprecated"] == true,
            version["deprecationWarning"].as_str().map_or("deprecated".to_owned(), cell),
        ),
    ];
    remarks.into_iter().filter(|(holds, _)| *holds).map(|(_, text)| text).collect::<Vec<_>>().join(", ")
}

fn describe(page: &mut String, version: &Version<'_>) {
    let schema = version.schema();
    let _ = writeln!(page, "\n## {} {}\n", version.kind(), version.name());
    if let Some(text) = schema["description"].as_str() {
        let _ = writeln!(page, "{}\n", text.trim());
    }
    let names = &version.spec["names"];
    let short = names["shortNames"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let names: Vec<String> = names["plural"]
        .as_str()
        .into_iter()
        .chain(short)
        .map(|name| format!("`kubectl get {name}`"))
        .collect();
    let _ = writeln!(page, "{}\n", names.join(", "));
    *page += "| field | type | default | validation | description |\n|---|---|---|---|---|\n";
    fields(page, schema, "");
}

/// A row for each field of an object, and for those within it.
fn fields(page: &mut String, schema: &Value, path: &str) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let is_metadata = path.is_empty() && ["apiVersion", "kind", "metadata"].contains(&name.as_str());
        if is_metadata {
            continue;
        }
        let path = format!("{path}.{name}");
        let is_required =
            schema["required"].as_array().is_some_and(|names| names.iter().any(|one| one == name));
        let mut rules: Vec<String> = is_required.then(|| "required".to_owned()).into_iter().collect();
        rules.extend(validation(field));
        let _ = writeln!(
            page,
            "| `{path}` | {kind} | {default} | {rules} | {text} |",
            path = path.trim_start_matches('.'),
            kind = cell(&kind_of(field)),
            default = field.get("default").map(code).unwrap_or_default(),
            rules = rules.join("; "),
            text = cell(field["description"].as_str().unwrap_or_default()),
        );
        within(page, field, &path);
    }
}

/// The fields of what a field holds, through lists and maps.
fn within(page: &mut String, field: &Value, path: &str) {
    fields(page, field, path);
    for (elements, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
        if field[elements].is_object() {
            within(page, &field[elements], &format!("{path}{suffix}"));
        }
    }
}

/// What a field holds, as in `[]string`.
fn kind_of(field: &Value) -> String {
    if field["x-kubernetes-int-or-string"] == true {
        return "integer or string".to_owned();
    }
    let nullable = if field["nullable"] == true { " or null" } else { "" };
    let kind = match field["type"].as_str() {
        Some("array") => format!("[]{}", kind_of(&field["items"])),
        Some("object") if field["additionalProperties"].is_object() => {
            format!("map[string]{}", kind_of(&field["additionalProperties"]))
        }
        Some(kind) => match field["format"].as_str() {
            Some(format) => format!("{kind} ({format})"),
            None => kind.to_owned(),
        },
        None => "anything".to_owned(),
    };
    kind + nullable
}

/// What a value has to fulfil, a phrase each.
fn validation(field: &Value) -> Vec<String> {
    let mut rules = Vec::new();
    if let Some(values) = field["enum"].as_array() {
        rules.push(format!("one of {}", values.iter().map(code).collect::<Vec<_>>().join(", ")));
    }
    for (limit, words) in LIMITS {
        let is_open = match limit {
            "minimum" => field["exclusiveMinimum"] == true,
            "maximum" => field["exclusiveMaximum"] == true,
            _ => false,
        };
        if let Some(value) = field.get(limit) {
            let words = match (is_open, limit) {
                (true, "minimum") => "more than",
                (true, _) => "less than",
                (false, _) => words,
            };
            rules.push(format!("{words} {}", code(value)));
        }
    }
    if let Some(keys) = field["x-kubernetes-list-map-keys"].as_array() {
        rules.push(format!("no two with the same {}", keys.iter().map(code).collect::<Vec<_>>().join(", ")));
    }
    if field["x-kubernetes-list-type"] == "set" || field["uniqueItems"] == true {
        rules.push("no two alike".to_owned());
    }
    if field["x-kubernetes-preserve-unknown-fields"] == true {
        rules.push("further fields are kept".to_owned());
    }
    for rule in field["x-kubernetes-validations"].as_array().into_iter().flatten() {
        let expression = code(&rule["rule"]);
        rules.push(match rule["message"].as_str() {
            Some(message) => format!("{} ({expression})", cell(message)),
            None => expression,
        });
    }
    let elements =
        [&field["items"], &field["additionalProperties"]].into_iter().filter(|schema| schema.is_object());
    rules.extend(elements.flat_map(validation).map(|rule| format!("each {rule}")));
    rules
}

/// A value as code within a cell. Strings are bare; a back-tick in them needs a longer fence.
fn code(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    let text = text.replace('|', "\\|").replace('\n', " ");
    match (text.is_empty(), text.contains('`')) {
        (true, _) => "`\"\"`".to_owned(),
        (false, true) => format!("`` {text} ``"),
        (false, false) => format!("`{text}`"),
    }
}

/// Text within a cell of a table: one line, no column of its own, and no markup of HTML.
fn cell(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace('|', "\\|").replace('<', "&lt;")
}
