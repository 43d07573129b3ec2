//! An answer, whole, with the questions tests ask of it.

use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;

use crate::harness::header;

/// What a server answered.
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Null where the body is no JSON.
    pub(crate) json: Value,
}

impl Reply {
    pub(crate) fn new(code: u16, headers: HeaderMap, body: Bytes) -> Self {
        let json = serde_json::from_slice(&body).unwrap_or_default();
        Self { code, headers, body, json }
    }

    /// The body as text.
    pub(crate) fn body(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is text")
    }

    /// Expects a code; gives the reply back.
    #[track_caller]
    pub(crate) fn code(self, code: u16) -> Self {
        assert_eq!(self.code, code, "{}", String::from_utf8_lossy(&self.body));
        self
    }

    /// Expects a `Status` with a code and a reason; gives the reply back.
    #[track_caller]
    pub(crate) fn refused(self, code: u16, reason: &str) -> Self {
        let body = String::from_utf8_lossy(&self.body);
        assert_eq!(self.code, code, "{body}");
        assert_eq!(self.json["kind"], "Status", "{body}");
        assert_eq!(self.json["apiVersion"], "v1", "{body}");
        assert_eq!(self.json["status"], "Failure", "{body}");
        assert_eq!(self.json["code"], code, "{body}");
        assert_eq!(self.json["reason"].as_str().unwrap_or_default(), reason, "{body}");
        self
    }

    /// Expects words in the message; gives the reply back.
    #[track_caller]
    pub(crate) fn saying(self, words: &str) -> Self {
        let message = self.json["message"].as_str().unwrap_or_default();
        assert!(message.contains(words), "{words:?} is not in {message:?}");
        self
    }

    /// Expects a cause with a reason and a field; gives the reply back.
    #[track_caller]
    pub(crate) fn because(self, reason: &str, field: &str) -> Self {
        let causes = self.causes();
        assert!(causes.contains(&(reason, field)), "{reason} of {field} is not among {causes:?}");
        self
    }

    /// Reason and field of each cause.
    pub(crate) fn causes(&self) -> Vec<(&str, &str)> {
        let causes = self.json.pointer("/details/causes").and_then(Value::as_array).into_iter().flatten();
        causes
            .map(|cause| (cause["reason"].as_str().unwrap_or(""), cause["field"].as_str().unwrap_or("")))
            .collect()
    }

    /// The value at a JSON pointer; null if there is none.
    pub(crate) fn at(&self, pointer: &str) -> &Value {
        self.json.pointer(pointer).unwrap_or(&Value::Null)
    }

    /// The text at a JSON pointer.
    #[track_caller]
    pub(crate) fn text(&self, pointer: &str) -> &str {
        match self.at(pointer) {
            Value::String(text) => text,
            other => panic!("no text at {pointer} but {other} in {}", self.json),
        }
    }

    pub(crate) fn revision(&self) -> &str {
        self.text("/metadata/resourceVersion")
    }

    pub(crate) fn uid(&self) -> &str {
        self.text("/metadata/uid")
    }

    /// The names of a list's items, in order.
    pub(crate) fn names(&self) -> Vec<&str> {
        let items = self.json["items"].as_array().into_iter().flatten();
        items.filter_map(|item| item["metadata"]["name"].as_str()).collect()
    }

    /// A condition in the status.
    pub(crate) fn condition(&self, kind: &str) -> Option<&Value> {
        self.at("/status/conditions").as_array()?.iter().find(|condition| condition["type"] == kind)
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        header(&self.headers, name).first().copied().unwrap_or_default()
    }

    /// The `Warning` headers, as they are.
    pub(crate) fn warnings(&self) -> Vec<&str> {
        header(&self.headers, "warning")
    }

    /// Who owns what: `manager/operation[/subresource]` and the owned fields, in the order of the entries.
    pub(crate) fn managers(&self) -> Vec<(String, Value)> {
        let entries = self.at("/metadata/managedFields").as_array().into_iter().flatten();
        let name = |entry: &Value| {
            let parts =
                ["manager", "operation", "subresource"].map(|part| entry[part].as_str().unwrap_or(""));
            parts.join("/").trim_end_matches('/').to_owned()
        };
        entries.map(|entry| (name(entry), entry["fieldsV1"].clone())).collect()
    }

    /// What one manager owns; null if it owns nothing.
    pub(crate) fn owned_by(&self, manager: &str) -> Value {
        self.managers()
            .into_iter()
            .find(|(name, _)| name == manager)
            .map_or(Value::Null, |(_, fields)| fields)
    }
}
