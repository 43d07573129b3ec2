//! Documents as YAML, for clients that ask for it and for the kubeconfig.

use serde_json::Value;

/// A document in block style, keys in order.
pub(crate) fn print(document: &Value) -> String {
    let mut out = String::new();
    match document {
        Value::Object(map) if !map.is_empty() => block(&mut out, document, 0),
        Value::Array(list) if !list.is_empty() => block(&mut out, document, 0),
        scalar => {
            inline(&mut out, scalar);
            out.push('\n');
        }
    }
    out
}

fn block(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(map) => {
            for (index, (key, value)) in map.iter().enumerate() {
                if index > 0 || !out.ends_with("- ") {
                    indent(out, depth);
                }
                string(out, key);
                out.push(':');
                nested(out, value, depth);
            }
        }
        Value::Array(list) => {
            for value in list {
                indent(out, depth);
                out.push_str("- ");
                match value {
                    Value::Object(map) if !map.is_empty() => block(out, value, depth + 1),
                    Value::Array(list) if !list.is_empty() => {
                        out.push('\n');
                        block(out, value, depth + 1);
                    }
                    scalar => {
                        inline(out, scalar);
                        out.push('\n');
                    }
                }
            }
        }
        scalar => inline(out, scalar),
    }
}

fn nested(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            block(out, value, depth + 1);
        }
        Value::Array(list) if !list.is_empty() => {
            out.push('\n');
            block(out, value, depth);
        }
        scalar => {
            out.push(' ');
            inline(out, scalar);
            out.push('\n');
        }
    }
}

fn indent(out: &mut String, depth: usize) {
    (0..depth).for_each(|_| out.push_str("  "));
}

fn inline(out: &mut String, value: &Value) {
    match value {
        Value::String(text) => string(out, text),
        other => out.push_str(&other.to_string()),
    }
}

/// A string as it is where no reader of YAML, old or new, could take it for something else; quoted otherwise.
fn string(out: &mut String, text: &str) {
    let starts_well =
        text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/') || text == ".";
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./+=@: ".contains(c);
    let is_like_a_key = text.contains(": ") || text.ends_with(':');
    let word = text.to_ascii_lowercase();
    let reserved =
        ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "~"].contains(&word.as_str());
    if starts_well && text.chars().all(plain) && !is_like_a_key && !text.ends_with(' ') && !reserved {
        out.push_str(text);
    } else {
        out.push_str(&Value::from(text).to_string());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_printed_reads_back_the_same() {
        let document = json!({
            "a": {"b": [], "c": {}, "list": [1, {"x": "y", "z": [true, null]}, [2, [3]], "no", "1e3", " lead", "multi\nline"]},
            "apiVersion": "v1", "empty": "", "key: odd": "v # not a comment", "on": "0777", "n": -1.5,
            "f:key": {".": {}, ".5": "host:port", "end:": "10:20", ".inf": "at:", "a:b: c": "."},
        });
        let text = print(&document);
        let read = crate::decode::yaml::parse(text.as_bytes()).unwrap_or_else(|why| panic!("{why}:\n{text}"));
        assert_eq!(read.value, document, "{text}");
    }
}
