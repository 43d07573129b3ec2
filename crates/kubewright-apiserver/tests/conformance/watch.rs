//! A watch: the lines of its body, one event each.

use bytes::BytesMut;
use http::HeaderMap;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;
use tokio::time::timeout;

use crate::harness::PATIENCE;

/// An open watch.
pub(crate) struct Watch {
    pub(crate) headers: HeaderMap,
    body: Body,
    read: BytesMut,
}

impl Watch {
    pub(crate) fn new(headers: HeaderMap, body: Body) -> Self {
        Self { headers, body, read: BytesMut::new() }
    }

    /// The next event, or nothing once the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line = self.read.split_to(end + 1);
                return Some(serde_json::from_slice(&line).expect("a line is one JSON object"));
            }
            match timeout(PATIENCE, self.body.frame()).await.expect("an event in time") {
                Some(frame) => {
                    if let Ok(data) = frame.expect("the stream is whole").into_data() {
                        self.read.extend_from_slice(&data);
                    }
                }
                None => {
                    assert!(self.read.is_empty(), "the stream ends with a whole line");
                    return None;
                }
            }
        }
    }

    /// The next event as type and object.
    pub(crate) async fn event(&mut self) -> (String, Value) {
        let event = self.next().await.expect("the watch goes on");
        (event["type"].as_str().expect("an event has a type").to_owned(), event["object"].clone())
    }

    /// The next `count` events as type and name.
    pub(crate) async fn events(&mut self, count: usize) -> Vec<(String, String)> {
        let mut events = Vec::new();
        for _ in 0..count {
            let (kind, object) = self.event().await;
            events.push((kind, object["metadata"]["name"].as_str().unwrap_or_default().to_owned()));
        }
        events
    }
}

/// Events as they are written in a test: `"ADDED a"`.
#[track_caller]
pub(crate) fn assert_events(events: &[(String, String)], expected: &[&str]) {
    let events: Vec<String> = events.iter().map(|(kind, name)| format!("{kind} {name}")).collect();
    assert_eq!(events, expected);
}
