//! Answers: status, headers and a body that is whole, put together while it is sent, or a stream.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_core::Stream;
use http_body::{Frame, SizeHint};
use serde_json::Value;

use crate::error::ApiError;

/// The chunks of an answer that has no known end, such as a watch.
pub(crate) type Chunks = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// The body of an answer.
pub struct Body(Inner);

enum Inner {
    Whole(Bytes),
    Joined(Joined),
    Stream(Chunks),
}

/// A list, put together a chunk at a time as it is sent: however long it is, it takes little memory, and the
/// client reads its beginning while the server is still at its end.
pub(crate) struct Joined {
    /// What comes before the next item.
    before: Bytes,
    items: std::vec::IntoIter<Bytes>,
    after: Bytes,
    /// How much of it is still to be sent.
    left: usize,
}

impl Joined {
    const CHUNK: usize = 64 << 10;

    /// `head`, the items with commas in between, and `tail`.
    pub(crate) fn new(head: Vec<u8>, items: Vec<Bytes>, tail: &'static [u8]) -> Self {
        let commas = items.len().saturating_sub(1);
        let left = head.len() + items.iter().map(Bytes::len).sum::<usize>() + commas + tail.len();
        Self { before: head.into(), items: items.into_iter(), after: Bytes::from_static(tail), left }
    }

    pub(crate) fn len(&self) -> usize {
        self.left
    }

    /// The next part, of about the size of `limit`; empty at the end.
    fn next(&mut self, limit: usize) -> Bytes {
        let mut chunk = Vec::with_capacity(self.left.min(limit + limit / 4));
        while chunk.len() < limit {
            let Some(item) = self.items.next() else {
                // Without any item there is still what comes before the first.
                if !self.before.starts_with(b",") {
                    chunk.extend_from_slice(&self.before);
                }
                chunk.extend_from_slice(&std::mem::take(&mut self.after));
                self.before = Bytes::from_static(b",");
                break;
            };
            chunk.extend_from_slice(&std::mem::replace(&mut self.before, Bytes::from_static(b",")));
            chunk.extend_from_slice(&item);
        }
        self.left -= chunk.len();
        chunk.into()
    }

    /// All of it.
    pub(crate) fn whole(mut self) -> Bytes {
        self.next(usize::MAX / 2)
    }
}

impl Body {
    /// The bytes of a whole body; `None` for a stream and for a long list.
    pub fn whole(&self) -> Option<&Bytes> {
        match &self.0 {
            Inner::Whole(bytes) => Some(bytes),
            Inner::Joined(_) | Inner::Stream(_) => None,
        }
    }

    /// The same with everything that has an end in one piece.
    pub(crate) fn gathered(self) -> Self {
        match self.0 {
            Inner::Joined(list) => list.whole().into(),
            _ => self,
        }
    }

    pub(crate) fn stream(chunks: Chunks) -> Self {
        Self(Inner::Stream(chunks))
    }
}

impl From<Joined> for Body {
    fn from(list: Joined) -> Self {
        const LONG: usize = 256 << 10;
        if list.len() > LONG { Self(Inner::Joined(list)) } else { list.whole().into() }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self(Inner::Whole(bytes))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Inner::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Inner::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Inner::Joined(list) => {
                let chunk = list.next(Joined::CHUNK);
                Poll::Ready((!chunk.is_empty()).then(|| Ok(Frame::data(chunk))))
            }
            Inner::Stream(chunks) => {
                chunks.as_mut().poll_next(context).map(|chunk| chunk.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Inner::Whole(bytes) => bytes.is_empty(),
            Inner::Joined(list) => list.len() == 0,
            Inner::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Inner::Joined(list) => SizeHint::with_exact(list.len() as u64),
            Inner::Stream(_) => SizeHint::default(),
        }
    }
}

/// An answer of the API server.
pub(crate) type Answer = ::http::Response<Body>;

/// An answer of `content_type` with these bytes.
pub(crate) fn bytes(code: u16, content_type: &str, body: impl Into<Bytes>) -> Answer {
    of(code, content_type, Body::from(body.into()))
}

/// An answer of `content_type` with this body.
pub(crate) fn of(code: u16, content_type: &str, body: Body) -> Answer {
    let mut answer = Answer::new(body);
    *answer.status_mut() =
        ::http::StatusCode::from_u16(code).unwrap_or(::http::StatusCode::INTERNAL_SERVER_ERROR);
    header(&mut answer, "content-type", content_type);
    answer
}

/// Sets a header; a value that can't be one is left out.
pub(crate) fn header(answer: &mut Answer, name: &'static str, value: &str) {
    if let Ok(value) = ::http::HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
}

/// A JSON document.
pub(crate) fn json(code: u16, document: &Value) -> Answer {
    bytes(code, "application/json", line(document))
}

/// Plain text.
pub(crate) fn text(code: u16, text: impl Into<String>) -> Answer {
    let mut answer = bytes(code, "text/plain; charset=utf-8", text.into());
    header(&mut answer, "x-content-type-options", "nosniff");
    answer
}

/// What Go's mux answers for a path nobody serves.
pub(crate) fn page_not_found() -> Answer {
    text(404, "404 page not found\n")
}

impl From<ApiError> for Answer {
    fn from(error: ApiError) -> Self {
        let mut answer = json(error.code, &error.to_status());
        if let Some(seconds) = error.details.as_ref().and_then(|details| details.retry_after_seconds) {
            header(&mut answer, "retry-after", &seconds.to_string());
        }
        answer
    }
}

/// A JSON document whose keys are all in order, as custom resources have them.
pub(crate) fn ordered_json(code: u16, document: &Value) -> Answer {
    let mut out = Vec::with_capacity(512);
    write_json(&mut out, document);
    out.push(b'\n');
    bytes(code, "application/json", out)
}

/// A document as compact JSON, `kind` and `apiVersion` first, with the line end clients expect.
pub(crate) fn line(document: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    write_object(&mut out, document);
    out.push(b'\n');
    out
}

/// Appends a document as compact JSON, `kind` and `apiVersion` first.
pub(crate) fn write_object(out: &mut Vec<u8>, document: &Value) {
    let Value::Object(fields) = document else {
        write_json(out, document);
        return;
    };
    out.push(b'{');
    let heads = ["kind", "apiVersion"];
    let head = heads.iter().filter_map(|name| fields.get_key_value(*name));
    let rest = fields.iter().filter(|(name, _)| !heads.contains(&name.as_str()));
    for (index, (name, value)) in head.chain(rest).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_json(out, name);
        out.push(b':');
        write_json(out, value);
    }
    out.push(b'}');
}

/// Appends any value as compact JSON.
pub(crate) fn write_json(out: &mut Vec<u8>, value: &(impl serde::Serialize + ?Sized)) {
    serde_json::to_writer(out, value).expect("JSON values with string keys always serialise into memory");
}

/// The same JSON, indented by two spaces as people read it; order and numbers stay as they are.
pub(crate) fn pretty(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    let newline = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        out.resize(out.len() + depth * 2, b' ');
    };
    let mut bytes = json.trim_ascii_end().iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if in_string {
            out.push(byte);
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'"' => {
                in_string = true;
                out.push(byte);
            }
            b'{' | b'[' => {
                out.push(byte);
                let close = if byte == b'{' { b'}' } else { b']' };
                if bytes.next_if_eq(&close).is_some() {
                    out.push(close);
                } else {
                    depth += 1;
                    newline(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                newline(&mut out, depth);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                newline(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            _ => out.push(byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_is_the_same_in_chunks_and_in_one_piece() {
        for count in [0, 1, 2, 1000] {
            let items: Vec<Bytes> =
                (0..count).map(|index| Bytes::from(format!("{{\"a\":{index}}}"))).collect();
            let list = || Joined::new(b"[".to_vec(), items.clone(), b"]");
            let whole = list().whole();
            let value: Value = serde_json::from_slice(&whole).expect("JSON");
            assert_eq!(value.as_array().map(Vec::len), Some(count));
            let (mut parts, length) = (list(), list().len());
            assert_eq!(length, whole.len());
            let mut sent = Vec::new();
            while parts.len() > 0 {
                sent.extend_from_slice(&parts.next(100));
            }
            assert_eq!(sent, whole);
            assert!(parts.next(100).is_empty());
        }
    }

    #[test]
    fn kind_and_api_version_come_first() {
        let text = line(&json!({"apiVersion": "v1", "data": {"a": "1"}, "kind": "ConfigMap"}));
        assert_eq!(
            String::from_utf8_lossy(&text),
            "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"data\":{\"a\":\"1\"}}\n"
        );
    }

    #[test]
    fn pretty_keeps_order_strings_and_empty_containers() {
        let compact = br#"{"b":[1,{"c":"x, \"{y}\""}],"a":{},"n":[]}"#;
        let text = String::from_utf8(pretty(compact)).expect("stays text");
        assert_eq!(
            text,
            "{\n  \"b\": [\n    1,\n    {\n      \"c\": \"x, \\\"{y}\\\"\"\n    }\n  ],\n  \"a\": {},\n  \"n\": []\n}"
        );
    }
}
