//! JSON patch (RFC 6902): a list of operations on places in an object.
//!
//! Behaves as the library of the real server does, which is more lenient than the standard: `replace` adds
//! a missing field, an index may count from the end, and a `null` is the same as nothing for `test`.

use serde_json::{Map, Value};

use super::unprocessable;
use crate::{
    decode::{self, go},
    error::ApiError,
};

const MAX_OPERATIONS: usize = 10_000;
/// How deep an object may be nested; a body can't be nested deeper, so neither may moves make it so.
const MAX_DEPTH: usize = 128;
/// How much all `copy` operations of one patch may add.
const MAX_COPIED_BYTES: usize = 3 << 20;

/// The operations of a patch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JsonPatch(Vec<Map<String, Value>>);

/// Why an operation does not apply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PatchFailure(String);

impl From<PatchFailure> for ApiError {
    /// 422. The reason is not part of the answer.
    fn from(_: PatchFailure) -> Self {
        unprocessable()
    }
}

impl JsonPatch {
    /// Reads a patch from a body; next to it the strict problems of its operations.
    pub(crate) fn read(body: &[u8]) -> Result<(Self, Vec<String>), ApiError> {
        let parsed = decode::json::parse(body).map_err(undecodable)?;
        let mut problems: Vec<String> =
            parsed.problems.iter().map(|problem| format!("json patch {problem}")).collect();
        let operations = match parsed.value {
            Value::Array(operations) => operations,
            Value::Null => Vec::new(),
            other => return Err(undecodable(wrong_type(&other, "value of type []handlers.jsonPatchOp"))),
        };
        let mut patch = Vec::with_capacity(operations.len());
        for (index, operation) in operations.into_iter().enumerate() {
            let operation = match operation {
                Value::Object(operation) => operation,
                Value::Null => Map::new(),
                other => return Err(undecodable(wrong_type(&other, "value of type handlers.jsonPatchOp"))),
            };
            for (field, value) in &operation {
                match field.as_str() {
                    "op" | "path" | "from" if !matches!(value, Value::String(_) | Value::Null) => {
                        let place = format!("struct field jsonPatchOp.{field} of type string");
                        return Err(undecodable(wrong_type(value, &place)));
                    }
                    "op" | "path" | "from" | "value" => {}
                    unknown => {
                        let path = format!("[{index}].{unknown}");
                        problems.push(format!("json patch {}", decode::Problem::Unknown(path)));
                    }
                }
            }
            patch.push(operation);
        }
        if patch.len() > MAX_OPERATIONS {
            return Err(ApiError::new(
                413,
                "RequestEntityTooLarge",
                format!(
                    "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                    patch.len()
                ),
            ));
        }
        Ok((Self(patch), problems))
    }

    /// Reads the patch that a webhook answers with; the error is in the words of Go.
    pub(crate) fn of_operations(bytes: &[u8]) -> Result<Self, String> {
        let place = |of: &str| format!("value of type {of}");
        let operations = match decode::json::parse(bytes)?.value {
            Value::Array(operations) => operations,
            Value::Null => Vec::new(),
            other => return Err(wrong_type(&other, &place("jsonpatch.Patch"))),
        };
        let read = |operation| match operation {
            Value::Object(operation) => Ok(operation),
            Value::Null => Ok(Map::new()),
            other => Err(wrong_type(&other, &place("jsonpatch.Operation"))),
        };
        operations.into_iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// Whether it has no operation.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Changes `object` by one operation after the other, up to the first that fails.
    pub(crate) fn apply(&self, object: &mut Value) -> Result<(), PatchFailure> {
        let mut copied = 0;
        for operation in &self.0 {
            Operation(operation).apply(object, &mut copied).map_err(PatchFailure)?;
        }
        Ok(())
    }
}

fn undecodable(why: String) -> ApiError {
    ApiError::bad_request(format!("error decoding patch: {why}"))
}

fn wrong_type(value: &Value, place: &str) -> String {
    format!("json: cannot unmarshal {} into Go {place}", go::json_kind(value))
}

struct Operation<'a>(&'a Map<String, Value>);

const MISSING: &str = "missing value";

impl Operation<'_> {
    fn text(&self, field: &str) -> Option<&str> {
        self.0.get(field).and_then(Value::as_str)
    }

    fn value(&self) -> Value {
        self.0.get("value").cloned().unwrap_or_default()
    }

    fn apply(&self, object: &mut Value, copied: &mut usize) -> Result<(), String> {
        let kind = self.text("op").unwrap_or("unknown");
        match kind {
            "add" | "remove" | "replace" | "test" => {
                let path = self.text("path").ok_or_else(|| {
                    let why =
                        if matches!(kind, "add" | "remove") { "" } else { "operation missing path field: " };
                    format!("{kind} operation failed to decode path: {why}{MISSING}")
                })?;
                match kind {
                    "add" => self.add(object, path),
                    "remove" => remove(object, path),
                    "replace" => self.replace(object, path),
                    _ => self.test(object, path),
                }
            }
            "move" => self.relocate(object),
            "copy" => self.copy(object, copied),
            other => Err(format!("Unexpected kind: {other}")),
        }
    }

    fn add(&self, object: &mut Value, path: &str) -> Result<(), String> {
        let (container, key) = find(object, path).ok_or_else(|| {
            format!("add operation does not apply: doc is missing path: \"{path}\": {MISSING}")
        })?;
        let value = self.value();
        require_depth(path, &value)?;
        insert(container, &key, value).map_err(|why| format!("error in add for path: '{path}': {why}"))
    }

    fn replace(&self, object: &mut Value, path: &str) -> Result<(), String> {
        if path.is_empty() {
            let value = self.value();
            if !value.is_object() && !value.is_array() {
                return Err("replace operation value must be object or array: %!w(<nil>)".to_owned());
            }
            *object = value;
            return Ok(());
        }
        let (container, key) = find(object, path).ok_or_else(|| {
            format!("replace operation does not apply: doc is missing path: {path}: {MISSING}")
        })?;
        match container {
            Value::Array(items) => {
                let at = position(&key, items.len()).map_err(|_| {
                    format!("replace operation does not apply: doc is missing key: {path}: {MISSING}")
                })?;
                items[at] = self.value();
            }
            other => {
                if let Value::Object(map) = other {
                    map.insert(key, self.value());
                }
            }
        }
        Ok(())
    }

    fn test(&self, object: &mut Value, path: &str) -> Result<(), String> {
        let failed = || format!("testing value {path} failed: test failed");
        if path.is_empty() {
            return if *object == self.value() { Ok(()) } else { Err(failed()) };
        }
        let (container, key) = find(object, path)
            .ok_or_else(|| format!("test operation does not apply: is missing path: {path}: {MISSING}"))?;
        let found = get(container, &key).map_err(|why| format!("error in test for path: '{path}': {why}"))?;
        let same = match self.0.get("value") {
            None | Some(Value::Null) => found.is_none_or(Value::is_null),
            Some(expected) => found == Some(expected),
        };
        if same { Ok(()) } else { Err(failed()) }
    }

    fn relocate(&self, object: &mut Value) -> Result<(), String> {
        let from = self.text("from").ok_or_else(|| {
            format!("move operation failed to decode from: operation, missing from field: {MISSING}")
        })?;
        let (container, key) = find(object, from).ok_or_else(|| {
            format!("move operation does not apply: doc is missing from path: {from}: {MISSING}")
        })?;
        let value = take(container, &key).map_err(|why| format!("error in move for path: '{key}': {why}"))?;
        let path = self.text("path").ok_or_else(|| {
            format!("move operation failed to decode path: operation missing path field: {MISSING}")
        })?;
        let (container, key) = find(object, path).ok_or_else(|| {
            format!("move operation does not apply: doc is missing destination path: {path}: {MISSING}")
        })?;
        require_depth(path, &value)?;
        insert(container, &key, value).map_err(|why| format!("error in move for path: '{path}': {why}"))
    }

    fn copy(&self, object: &mut Value, copied: &mut usize) -> Result<(), String> {
        let from = self.text("from").ok_or_else(|| {
            format!("copy operation failed to decode from: operation, missing from field: {MISSING}")
        })?;
        let (container, key) = find(object, from).ok_or_else(|| {
            format!("copy operation does not apply: doc is missing from path: {from}: {MISSING}")
        })?;
        let value = get(container, &key)
            .map_err(|why| format!("error in copy for from: '{from}': {why}"))?
            .cloned()
            .unwrap_or_default();
        let path =
            self.text("path").ok_or_else(|| format!("copy operation failed to decode path: {MISSING}"))?;
        let (container, key) = find(object, path).ok_or_else(|| {
            format!("copy operation does not apply: doc is missing destination path: {path}: {MISSING}")
        })?;
        *copied += if value.is_null() { 0 } else { value.to_string().len() };
        if *copied > MAX_COPIED_BYTES {
            return Err(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit {MAX_COPIED_BYTES}"
            ));
        }
        require_depth(path, &value)?;
        insert(container, &key, value).map_err(|why| format!("error while adding value during copy: {why}"))
    }
}

fn require_depth(path: &str, value: &Value) -> Result<(), String> {
    fn depth(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
            Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
            _ => 0,
        }
    }
    let steps = path.matches('/').count();
    if steps + depth(value) > MAX_DEPTH { Err("exceeded max depth".to_owned()) } else { Ok(()) }
}

fn remove(object: &mut Value, path: &str) -> Result<(), String> {
    let (container, key) = find(object, path).ok_or_else(|| {
        format!("remove operation does not apply: doc is missing path: \"{path}\": {MISSING}")
    })?;
    take(container, &key).map(drop).map_err(|why| format!("error in remove for path: '{path}': {why}"))
}

/// The object or list that the last step of `path` is in, and that step.
fn find<'v>(object: &'v mut Value, path: &str) -> Option<(&'v mut Value, String)> {
    let decoded = |step: &str| step.replace("~1", "/").replace("~0", "~");
    let mut steps = path.split('/').skip(1).peekable();
    let mut container = object;
    while let Some(step) = steps.next() {
        let key = decoded(step);
        if steps.peek().is_none() {
            return Some((container, key));
        }
        container = match container {
            Value::Object(map) => map.get_mut(&key)?,
            Value::Array(items) => {
                let at = position(&key, items.len()).ok()?;
                &mut items[at]
            }
            _ => return None,
        };
        if !container.is_object() && !container.is_array() {
            return None;
        }
    }
    None
}

fn index(key: &str) -> Result<i64, String> {
    let why =
        if key.bytes().any(|byte| !byte.is_ascii_digit()) { "invalid syntax" } else { "value out of range" };
    key.parse().map_err(|_| format!("strconv.Atoi: parsing {}: {why}", go::quote(key)))
}

/// Where in a list of `length` a key points to; a negative one counts from the end.
fn position(key: &str, length: usize) -> Result<usize, String> {
    let index = index(key)?;
    let size = i64::try_from(length).unwrap_or(i64::MAX);
    let at = if index < 0 { index.saturating_add(size) } else { index };
    usize::try_from(at)
        .ok()
        .filter(|at| *at < length)
        .ok_or_else(|| format!("Unable to access invalid index: {index}: invalid index referenced"))
}

fn get<'v>(container: &'v Value, key: &str) -> Result<Option<&'v Value>, String> {
    match container {
        Value::Array(items) => Ok(items.get(position(key, items.len())?)),
        other => Ok(other.get(key)),
    }
}

fn take(container: &mut Value, key: &str) -> Result<Value, String> {
    match container {
        Value::Array(items) => {
            let at = position(key, items.len())?;
            Ok(items.remove(at))
        }
        other => {
            let removed = other.as_object_mut().and_then(|map| map.remove(key));
            removed.ok_or_else(|| format!("Unable to remove nonexistent key: {key}: {MISSING}"))
        }
    }
}

fn insert(container: &mut Value, key: &str, value: Value) -> Result<(), String> {
    match container {
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            index(key).map_err(|why| format!("value was not a proper array index: '{key}': {why}"))?;
            let at = position(key, items.len() + 1)?;
            items.insert(at, value);
        }
        other => {
            if let Value::Object(map) = other {
                map.insert(key.to_owned(), value);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(object: &Value, operations: &Value) -> Result<Value, String> {
        let (patch, _) = JsonPatch::read(operations.to_string().as_bytes()).map_err(|error| error.message)?;
        let mut object = object.clone();
        patch.apply(&mut object).map_err(|failure| failure.to_string())?;
        Ok(object)
    }

    #[test]
    fn operations_change_the_object() {
        let object = json!({"a": {"b": "1"}, "l": ["x", "y"], "n": null, "s/~": 1});
        for (operations, expected) in [
            (json!([{"op": "add", "path": "/a/c", "value": 2}]), json!({"a": {"b": "1", "c": 2}})),
            (json!([{"op": "add", "path": "/l/0", "value": "w"}]), json!({"l": ["w", "x", "y"]})),
            (json!([{"op": "add", "path": "/l/-", "value": "z"}]), json!({"l": ["x", "y", "z"]})),
            (json!([{"op": "add", "path": "/l/-1", "value": "z"}]), json!({"l": ["x", "y", "z"]})),
            (json!([{"op": "remove", "path": "/l/-1"}]), json!({"l": ["x"]})),
            (json!([{"op": "replace", "path": "/zz", "value": 1}]), json!({"zz": 1})),
            (json!([{"op": "replace", "path": "/l/1", "value": 1}]), json!({"l": ["x", 1]})),
            (json!([{"op": "move", "from": "/a/b", "path": "/m"}]), json!({"a": {}, "m": "1"})),
            (json!([{"op": "copy", "from": "/l", "path": "/a/b"}]), json!({"a": {"b": ["x", "y"]}})),
            (json!([{"op": "test", "path": "/nothing", "value": null}]), json!({})),
            (
                json!([{"op": "test", "path": "/n"}, {"op": "test", "path": "/a", "value": {"b": "1"}}]),
                json!({}),
            ),
            (json!([{"op": "test", "path": "/s~1~0", "value": 1}]), json!({})),
            (json!([{"op": "add", "path": "/new"}]), json!({"new": null})),
        ] {
            let mut whole = object.clone();
            whole.as_object_mut().unwrap().extend(expected.as_object().unwrap().clone());
            assert_eq!(run(&object, &operations).unwrap(), whole, "{operations}");
        }
        assert_eq!(run(&object, &json!([{"op": "replace", "path": "", "value": {}}])).unwrap(), json!({}));
    }

    #[test]
    fn a_failure_is_told_as_the_library_tells_it_and_answered_without_reason() {
        let object = json!({"a": {"b": "1"}, "l": ["x"]});
        for (operation, why) in [
            (json!({"op": "test", "path": "/a/b", "value": "2"}), "testing value /a/b failed: test failed"),
            (
                json!({"op": "remove", "path": "/a/none"}),
                "error in remove for path: '/a/none': Unable to remove nonexistent key: none: missing value",
            ),
            (
                json!({"op": "add", "path": "/x/y", "value": 1}),
                "add operation does not apply: doc is missing path: \"/x/y\": missing value",
            ),
            (
                json!({"op": "add", "path": "a"}),
                "add operation does not apply: doc is missing path: \"a\": missing value",
            ),
            (json!({"op": "add", "value": 1}), "add operation failed to decode path: missing value"),
            (
                json!({"op": "add", "path": "/l/5"}),
                "error in add for path: '/l/5': Unable to access invalid index: 5: invalid index referenced",
            ),
            (
                json!({"op": "add", "path": "/l/x"}),
                "error in add for path: '/l/x': value was not a proper array index: 'x': strconv.Atoi: parsing \"x\": invalid syntax",
            ),
            (
                json!({"op": "replace", "path": "/l/1", "value": 1}),
                "replace operation does not apply: doc is missing key: /l/1: missing value",
            ),
            (
                json!({"op": "test", "path": "/a/b/c", "value": 1}),
                "test operation does not apply: is missing path: /a/b/c: missing value",
            ),
            (json!({"op": "zork", "path": "/a"}), "Unexpected kind: zork"),
            (json!({"path": "/a"}), "Unexpected kind: unknown"),
            (
                json!({"op": "move", "path": "/a"}),
                "move operation failed to decode from: operation, missing from field: missing value",
            ),
        ] {
            assert_eq!(run(&object, &json!([operation])).unwrap_err(), why);
        }
        let error = ApiError::from(PatchFailure(String::new()));
        assert_eq!((error.code, error.reason), (422, "Invalid"));
    }

    #[test]
    fn what_is_no_patch_is_refused() {
        for (body, why) in [
            (
                json!({"a": 1}),
                "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
            ),
            (
                json!([1]),
                "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
            ),
            (
                json!([{"op": 1}]),
                "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
            ),
        ] {
            assert_eq!(JsonPatch::read(body.to_string().as_bytes()).unwrap_err().message, why);
        }
        let (_, problems) = JsonPatch::read(br#"[{"op":"add","op":"add","path":"/a","zork":1}]"#).unwrap();
        assert_eq!(
            problems,
            ["json patch duplicate field \"[0].op\"", "json patch unknown field \"[0].zork\""]
        );
        let many = json!(vec![json!({"op": "test", "path": "/a"}); 10_001]);
        assert_eq!(JsonPatch::read(many.to_string().as_bytes()).unwrap_err().code, 413);
    }

    #[test]
    fn moves_may_not_nest_without_bound() {
        let round = [
            json!({"op": "add", "path": "/b", "value": {}}),
            json!({"op": "move", "from": "/a", "path": "/b/x"}),
            json!({"op": "move", "from": "/b", "path": "/a"}),
        ];
        let operations: Vec<Value> = round.iter().cloned().cycle().take(3000).collect();
        assert_eq!(run(&json!({"a": {}}), &json!(operations)).unwrap_err(), "exceeded max depth");
    }

    #[test]
    fn copies_may_not_grow_without_bound() {
        let mut operations = vec![json!({"op": "copy", "from": "/a", "path": "/a/-"})];
        operations.extend(vec![operations[0].clone(); 40]);
        let why = run(&json!({"a": ["b"]}), &json!(operations)).unwrap_err();
        assert!(
            why.starts_with("Unable to complete the copy, the accumulated size increase of copy is "),
            "{why}"
        );
    }
}
