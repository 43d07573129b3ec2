//! The few constructs of Go templates that a generated chart has, so that it can be tested where there is no Helm.

use serde_json::Value;

/// A piece of a template, behind which white space may be cut off.
enum Piece {
    Text(String),
    Action(String),
}

pub struct Template(Vec<Piece>);

/// Whether what comes is shown, whether it was before, and what the dot stands for.
struct Scope<'a> {
    is_shown: bool,
    was_shown: bool,
    dot: &'a Value,
}

impl Template {
    pub fn parse(text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(start) = rest.find("{{") {
            let (before, action) = rest.split_at(start);
            let end = action.find("}}").expect("every action ends");
            let inner = &action[2..end];
            let before = if inner.starts_with('-') { before.trim_end() } else { before };
            pieces.push(Piece::Text(before.to_owned()));
            rest = &action[end + 2..];
            if inner.ends_with('-') {
                rest = rest.trim_start();
            }
            pieces.push(Piece::Action(inner.trim_matches('-').trim().to_owned()));
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Self(pieces)
    }

    pub fn render(&self, top: &Value) -> String {
        let mut scopes = vec![Scope { is_shown: true, was_shown: true, dot: top }];
        let mut text = String::new();
        for piece in &self.0 {
            let is_shown = scopes.iter().all(|scope| scope.is_shown);
            let dot = scopes.last().expect("as many ends as beginnings").dot;
            let action = match piece {
                Piece::Text(piece) if is_shown => {
                    text += piece;
                    continue;
                }
                Piece::Text(_) => continue,
                Piece::Action(action) => action.as_str(),
            };
            let (verb, rest) = action.split_once(' ').unwrap_or((action, ""));
            match verb {
                "if" => {
                    let holds = holds(rest, top);
                    scopes.push(Scope { is_shown: holds, was_shown: holds, dot });
                }
                "with" => {
                    let value = find(rest, top, dot);
                    let holds = is_truth(value);
                    scopes.push(Scope { is_shown: holds, was_shown: holds, dot: value });
                }
                "else" => {
                    let scope = scopes.last_mut().expect("an else is within something");
                    scope.is_shown = !scope.was_shown;
                }
                "end" => drop(scopes.pop()),
                comment if comment.starts_with("/*") => {}
                _ if is_shown => text += &value(action, top, dot),
                _ => {}
            }
        }
        assert_eq!(scopes.len(), 1, "as many ends as beginnings");
        text
    }
}

fn holds(condition: &str, top: &Value) -> bool {
    let words: Vec<&str> = condition.split(' ').collect();
    match words.as_slice() {
        ["not", path] => !is_truth(find(path, top, top)),
        ["and", paths @ ..] => paths.iter().all(|path| is_truth(find(path, top, top))),
        [path] => is_truth(find(path, top, top)),
        _ => panic!("unknown condition {condition:?}"),
    }
}

fn is_truth(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(truth) => *truth,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

fn find<'a>(path: &str, top: &'a Value, dot: &'a Value) -> &'a Value {
    if path == "." {
        return dot;
    }
    let names = path.strip_prefix('.').unwrap_or_else(|| panic!("{path:?} is no path")).split('.');
    names.fold(top, |value, name| value.get(name).unwrap_or_else(|| panic!("there is no {path}")))
}

/// What an action gives: a literal, a path with a default, or YAML with an indent.
fn value(action: &str, top: &Value, dot: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    if let Some(literal) = action.strip_prefix('"') {
        return literal.trim_end_matches('"').to_owned();
    }
    if let Some((path, indent)) =
        action.strip_prefix("toYaml ").and_then(|rest| rest.split_once(" | nindent "))
    {
        let yaml = kubewright::to_yaml(&[find(path, top, dot).clone()]).expect("YAML");
        let space = " ".repeat(indent.parse().expect("a number"));
        return yaml.trim_end().lines().map(|line| format!("\n{space}{line}")).collect();
    }
    match action.split_once(" | default ") {
        Some((path, other)) => match find(path, top, dot) {
            value if is_truth(value) => text(value),
            _ => text(find(other, top, dot)),
        },
        None => text(find(action, top, dot)),
    }
}
