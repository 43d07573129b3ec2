//! Bodies: valid objects bent a little, or a lot, along their schema and against it.

use serde_json::{Map, Value, json};

use super::choices::Choices;

const WORDS: &[&str] = &[
    "a",
    "b",
    "c",
    "x",
    "v1",
    "n",
    "",
    "default",
    "Always",
    "Never",
    "In",
    "Exists",
    "TCP",
    "UDP",
    "http",
    "100%",
    "50%",
    "-1",
    "0",
    "1",
    "10Gi",
    "1e3",
    "1.5",
    "100m",
    "0x10",
    "12345678901234567890",
    "1e999999999",
    "-0",
    "1Ki1",
    "10.0.0.1",
    "10.0.0.0/8",
    "::1",
    "fe80::1%eth0",
    "a.example.com",
    "A_b",
    "metadata.name",
    "spec.nodeName",
    "2026-01-01T00:00:00Z",
    "2026-01-01T00:00:00.123456789+14:00",
    "9999-12-31T23:59:60Z",
    "-1h",
    "1h2m3.4s",
    "9e9h",
    "P1D",
    "@every 1h",
    "* * * * *",
    "0-59/61 * * * *",
    "*/0 * * * *",
    "TZ=UTC * * * * *",
    "a=b,c in (d)",
    "!a",
    "a b",
    "é",
    "日本語",
    "\u{0}",
    "\u{202e}",
    "💥",
    "..",
    ".",
    "/",
    "a/b",
    "a/b/c",
    "~0~1",
    "$(A)",
    "$$(A)",
    "{{",
    "^(a+)+$",
    "[",
    "(?i)x",
    "\\p{L}",
    "(a{1000}){1000}",
    "AAEC",
    "AA=C",
    "====",
    "default/a",
    "system:masters",
    "kubernetes.io/x",
    "xn--a",
    "null",
    "true",
    "y",
    "example.com/x",
    "a.b.c.d.e.f",
    "uid",
    "00000000-0000-0000-0000-000000000000",
    ".spec.list[?(@.k==\"a\")].v",
    ".spec.list[*]",
    ".spec['a.b']",
    "{.a}",
    ".spec.list[-1:]",
    ".spec..x",
    "..",
    ".[",
    ".spec.list[9223372036854775807]",
];

const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "80",
    "65535",
    "65536",
    "100",
    "2147483647",
    "2147483648",
    "-2147483648",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "1e400",
    "1e308",
    "-1e308",
    "1e-400",
    "0.1",
    "1.0",
    "-0",
    "-0.0",
    "1e2",
    "123456789012345678901234567890",
    "3600",
    "30",
];

const FRAGMENTS: &[&str] = &[
    "self",
    "oldSelf",
    "self.spec",
    "object",
    "self.text",
    "self.list",
    "self.map",
    "1",
    "-1",
    "9223372036854775807",
    "1u",
    "1.5",
    "1e400",
    "'a'",
    "\"\\u00e9\"",
    "b'\\xff'",
    "r'\\d'",
    "true",
    "null",
    "[1, 2]",
    "[]",
    "{}",
    "{'a': 1}",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ".",
    ",",
    "+",
    "-",
    "*",
    "/",
    "%",
    "!",
    "&&",
    "||",
    "==",
    "!=",
    "<",
    ">=",
    " in ",
    "?",
    ":",
    "has(self.text)",
    ".all(x, x > 0)",
    ".exists_one(x, x)",
    ".map(x, x * 2)",
    ".filter(x, x == x)",
    ".size()",
    ".matches('(a+)+$')",
    ".contains('a')",
    ".split('')",
    ".join(',')",
    "size(self)",
    "int('x')",
    "string(1.5)",
    "duration('1h')",
    "timestamp('2026-01-01T00:00:00Z')",
    "double('NaN')",
    "type(1)",
    "dyn(1)",
    "quantity('1Gi')",
    "ip('::1')",
    "cidr('10.0.0.0/8')",
    "url('https://a:99999/')",
    "format.dns1123Label().validate('a')",
    "'%d %s %.3f'.format([1, 'a', 2.0])",
    "semver('1.2.3')",
    "optional.of(1)",
    ".orValue(2)",
    "[?self.text]",
    "self.?text",
    "cel.bind(x, 1, x)",
    "Object{spec: Object.spec{}}",
    "JSONPatch{op: 'add', path: '/a', value: 1}",
    "authorizer.group('').resource('pods').check('get').allowed()",
    "variables.r",
    "params.x",
    "request.name",
    "namespaceObject.metadata.name",
    "a.b.c",
    "self[0]",
    "self['a']",
    "// comment\n",
    "\n",
    " ",
    ";",
    "@",
    "\u{1F4A5}",
    "`a.b`",
    "__namespace__",
    "lists.range(100000)",
    "sets.contains([1],[1])",
];

/// A made-up CEL expression.
pub fn expression(choices: &mut Choices<'_>) -> String {
    if choices.one_in(40) {
        let depth = 1 + choices.below(4) * 600;
        let (open, close) = *choices.pick(&[
            ("(", ")"),
            ("[", "]"),
            ("-", ""),
            ("!", ""),
            ("{'a':", "}"),
            ("size(", ")"),
            ("1+", "1"),
            ("true?1:", "2"),
            ("a.", "b"),
            ("a[", "]"),
        ]);
        return format!("{}1{}", open.repeat(depth), close.repeat(depth));
    }
    if choices.one_in(3) {
        let atoms = [
            "self",
            "self.text",
            "self.number",
            "self.list",
            "self.map",
            "object.spec.replicas",
            "1",
            "'a'",
            "[1,2,3]",
            "x",
        ];
        let mut text = (*choices.pick(&atoms)).to_owned();
        for _ in 0..choices.below(5) {
            let other = *choices.pick(&atoms);
            text = match choices.below(8) {
                0 => format!("{text} + {other}"),
                1 => format!("({text}).all(x, x == {other})"),
                2 => format!("{text} == {other}"),
                3 => format!("has({text}.x) || {text} < {other}"),
                4 => format!("size({text}) > {other}"),
                5 => format!("{text} in {other}"),
                6 => format!("[{text}, {other}].map(x, [x].map(y, {text}))"),
                _ => format!("{text} ? {other} : !{text}"),
            };
        }
        return text;
    }
    (0..=choices.below(12)).map(|_| *choices.pick(FRAGMENTS)).collect()
}

fn word(choices: &mut Choices<'_>) -> String {
    match choices.below(24) {
        0 => "a".repeat(1 << choices.below(14)),
        1 => String::from_utf8_lossy(choices.raw(12)).into_owned(),
        2 => expression(choices),
        3 => format!("{}{}", choices.pick(WORDS), choices.pick(WORDS)),
        _ => (*choices.pick(WORDS)).to_owned(),
    }
}

fn number(choices: &mut Choices<'_>) -> Value {
    serde_json::from_str(choices.pick::<&str>(NUMBERS)).unwrap_or_else(|_| json!(f64::MAX))
}

fn nested(choices: &mut Choices<'_>) -> Value {
    let depth = *choices.pick(&[3, 20, 60, 100, 119, 124, 126]);
    (0..depth).fold(json!(1), |value, _| match choices.below(3) {
        0 => json!([value]),
        1 => json!({"a": value}),
        _ => json!({"k": "a", "name": "c", "items": [value], "properties": 1}),
    })
}

/// Anything at all.
fn odd(choices: &mut Choices<'_>) -> Value {
    match choices.below(14) {
        0 => Value::Null,
        1 => json!({}),
        2 => json!([]),
        3 => json!([[]]),
        4 => json!(choices.one_in(2)),
        5..7 => number(choices),
        7 => nested(choices),
        8 => json!([word(choices), null, {}, word(choices)]),
        9 => json!({word(choices): word(choices), "name": word(choices)}),
        10 => Value::Array(vec![json!({"name": "a", "k": "a", "type": "a"}); choices.below(4) * 40]),
        _ => json!(word(choices)),
    }
}

/// The schemas of a group and version, as its OpenAPI document has them.
pub struct Shape<'a> {
    pub schemas: &'a Map<String, Value>,
    pub at: &'a Value,
}

impl<'a> Shape<'a> {
    fn resolved(&self) -> &'a Value {
        let reference =
            self.at.get("$ref").or_else(|| self.at.pointer("/allOf/0/$ref")).and_then(Value::as_str);
        let name = reference.and_then(|text| text.rsplit('/').next());
        name.and_then(|name| self.schemas.get(name)).unwrap_or(self.at)
    }

    fn child(&self, at: &'a Value) -> Self {
        Shape { schemas: self.schemas, at }
    }

    fn field(&self, name: &str) -> Self {
        let schema = self.resolved();
        let found = schema
            .get("properties")
            .and_then(|all| all.get(name))
            .or_else(|| schema.get("additionalProperties"));
        self.child(found.unwrap_or(&Value::Null))
    }

    fn items(&self) -> Self {
        self.child(self.resolved().get("items").unwrap_or(&Value::Null))
    }

    /// A value the schema would have.
    fn value(&self, choices: &mut Choices<'_>, depth: usize) -> Value {
        let schema = self.resolved();
        if let Some(values) = schema.get("enum").and_then(Value::as_array).filter(|values| !values.is_empty())
        {
            return choices.pick(values).clone();
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("string") => json!(word(choices)),
            Some("integer" | "number") => number(choices),
            Some("boolean") => json!(choices.one_in(2)),
            Some("array") if depth < 6 => {
                (0..choices.below(3)).map(|_| self.items().value(choices, depth + 1)).collect()
            }
            Some("object") if depth < 6 => match schema.get("properties").and_then(Value::as_object) {
                Some(properties) if !properties.is_empty() => {
                    let names: Vec<&String> = properties.keys().collect();
                    let mut object = Map::new();
                    for _ in 0..choices.below(4) {
                        let name = choices.pick(&names).as_str();
                        object.insert(name.to_owned(), self.field(name).value(choices, depth + 1));
                    }
                    for name in schema
                        .get("required")
                        .and_then(Value::as_array)
                        .into_iter()
                        .flatten()
                        .filter_map(Value::as_str)
                    {
                        if !object.contains_key(name) {
                            object.insert(name.to_owned(), self.field(name).value(choices, depth + 1));
                        }
                    }
                    Value::Object(object)
                }
                _ => json!({word(choices): self.field("x").value(choices, depth + 1)}),
            },
            _ => odd(choices),
        }
    }
}

/// Bends `value` at one place.
pub fn bend(value: &mut Value, shape: &Shape<'_>, choices: &mut Choices<'_>) {
    let stop = choices.one_in(6);
    match value {
        Value::Object(fields) if !stop => {
            let declared = shape.resolved().get("properties").and_then(Value::as_object);
            let name = match (declared, choices.below(10)) {
                (Some(declared), 0..4) if !declared.is_empty() => {
                    let names: Vec<&String> = declared.keys().collect();
                    choices.pick(&names).to_string()
                }
                (_, 9) => word(choices),
                _ if !fields.is_empty() => {
                    let names: Vec<&String> = fields.keys().collect();
                    choices.pick(&names).to_string()
                }
                _ => word(choices),
            };
            if choices.one_in(12) {
                fields.remove(&name);
                return;
            }
            let below = shape.field(&name);
            match fields.get_mut(&name) {
                Some(inner) => bend(inner, &below, choices),
                None => {
                    let new = if choices.one_in(8) { odd(choices) } else { below.value(choices, 0) };
                    fields.insert(name, new);
                }
            }
        }
        Value::Array(items) if !stop => match choices.below(8) {
            0 => items.push(shape.items().value(choices, 0)),
            1 => {
                items.pop();
            }
            2 if !items.is_empty() => {
                let again = choices.pick(items).clone();
                items.push(again);
            }
            _ if !items.is_empty() => {
                let index = choices.below(items.len());
                bend(&mut items[index], &shape.items(), choices);
            }
            _ => items.push(odd(choices)),
        },
        _ => *value = if choices.one_in(4) { odd(choices) } else { shape.value(choices, 0) },
    }
}

/// All JSON pointers into a value.
pub fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                pointers(inner, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                pointers(inner, &format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
}

/// A JSON patch that is about `object`.
pub fn json_patch(object: &Value, choices: &mut Choices<'_>) -> Value {
    let mut paths = Vec::new();
    pointers(object, "", &mut paths);
    let path = |choices: &mut Choices<'_>| match choices.below(8) {
        0 => format!("{}/-", choices.pick(&paths)),
        1 => format!("{}/{}", choices.pick(&paths), choices.pick(WORDS)),
        2 => word(choices),
        _ => choices.pick(&paths).clone(),
    };
    (0..choices.below(6))
        .map(|_| {
            let op = choices.pick(&["add", "replace", "remove", "copy", "move", "test", "ADD", ""]);
            let mut step =
                json!({"op": op, "path": path(choices), "value": odd(choices), "from": path(choices)});
            if choices.one_in(20) {
                step = odd(choices);
            }
            step
        })
        .collect()
}

/// A strategic merge patch: a bent object with directives strewn over it.
pub fn directives(value: &mut Value, choices: &mut Choices<'_>, depth: usize) {
    if depth > 12 {
        return;
    }
    match value {
        Value::Object(fields) => {
            let names: Vec<String> = fields.keys().cloned().collect();
            for name in &names {
                if choices.one_in(4) {
                    fields.remove(name);
                } else if let Some(inner) = fields.get_mut(name) {
                    directives(inner, choices, depth + 1);
                }
            }
            if choices.one_in(8) {
                let patch = choices.pick(&["replace", "delete", "merge", "", "x"]);
                fields.insert("$patch".to_owned(), json!(patch));
            }
            if choices.one_in(12) {
                let kept: Vec<&String> = names.iter().take(choices.below(3)).collect();
                fields.insert(
                    "$retainKeys".to_owned(),
                    if choices.one_in(5) { odd(choices) } else { json!(kept) },
                );
            }
            if let Some(name) = names.first().filter(|_| choices.one_in(8)) {
                let list =
                    if choices.one_in(3) { odd(choices) } else { json!([word(choices), {"name": "c"}]) };
                let prefix = choices.pick(&["$setElementOrder", "$deleteFromPrimitiveList", "$x"]);
                fields.insert(format!("{prefix}/{name}"), list);
            }
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| directives(item, choices, depth + 1));
            if choices.one_in(12) {
                items.push(json!({"$patch": choices.pick(&["replace", "delete"]), "name": word(choices)}));
            }
        }
        _ => {}
    }
}

/// A value in block style, with YAML's own oddities now and then.
pub fn yaml(value: &Value, indent: usize, choices: &mut Choices<'_>, out: &mut String) {
    let scalars = [
        "~",
        "yes",
        "0o17",
        "017",
        "0x1F",
        "1_000",
        ".inf",
        "-.NaN",
        "1:30",
        "2026-01-01",
        "!!str 1",
        "!!binary AAEC",
        "&x a",
        "*x",
        "<<",
        "|-\n    text",
        ">\n  folded",
        "\"\\x41\\u0041\"",
        "'it''s'",
        "? a",
    ];
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, inner) in fields {
                if out.ends_with('\n') || out.is_empty() {
                    out.push_str(&" ".repeat(indent));
                }
                if choices.one_in(40) {
                    out.push_str("<<: *x\n");
                    out.push_str(&" ".repeat(indent));
                }
                let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric()) && !name.is_empty();
                if plain {
                    out.push_str(name)
                } else {
                    out.push_str(&json!(name).to_string())
                }
                out.push(':');
                if choices.one_in(30) {
                    out.push_str(choices.pick::<&str>(&[" &x", " !!map", " !t", " # c"]));
                }
                match inner {
                    Value::Object(below) if !below.is_empty() => {
                        out.push('\n');
                        yaml(inner, indent + 2, choices, out);
                    }
                    Value::Array(below) if !below.is_empty() => {
                        out.push('\n');
                        yaml(inner, indent, choices, out);
                    }
                    _ => {
                        out.push(' ');
                        yaml(inner, indent, choices, out);
                    }
                }
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                out.push_str(&" ".repeat(indent));
                out.push_str("- ");
                if item.is_object() && choices.one_in(2) {
                    out.push_str(&item.to_string());
                    out.push('\n');
                } else {
                    yaml(item, indent + 2, choices, out);
                }
            }
        }
        _ if choices.one_in(25) => {
            out.push_str(choices.pick::<&str>(&scalars));
            out.push('\n');
        }
        other => {
            out.push_str(&other.to_string());
            out.push('\n');
        }
    }
}

/// Breaks the text itself.
pub fn damage(text: &mut Vec<u8>, choices: &mut Choices<'_>) {
    for _ in 0..=choices.below(3) {
        let at = choices.below(text.len() + 1);
        match choices.below(7) {
            0 => text.truncate(at),
            1 => text.splice(at..at, choices.raw(6).to_vec()).for_each(drop),
            2 => text.splice(at..at, *b"\xff\xfe").for_each(drop),
            3 => text.splice(at..at, *b"\\ud800").for_each(drop),
            4 => text.splice(at..at, b"[".repeat(1 << choices.below(16))).for_each(drop),
            5 => text.splice(at..at, b"{\"a\":".repeat(1 << choices.below(12))).for_each(drop),
            _ => {
                let end = (at + choices.below(40)).min(text.len());
                let again = text[at..end].to_vec();
                text.splice(at..at, again).for_each(drop);
            }
        }
    }
}
