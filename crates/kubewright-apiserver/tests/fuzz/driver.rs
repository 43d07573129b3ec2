//! Sends made-up requests and minds what no answer may do: panic, hang, fail without a known reason, say
//! something other than a `Status`, or change anything after a refusal.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use kubewright_apiserver::ApiServer;
use serde_json::{Value, json};

use super::{
    choices::Choices,
    client::{self, Call, Reply},
    requests::Grammar,
    watchdog::Watchdog,
};

/// How failures with 500 may begin or what they may contain: the real server gives the same.
const KNOWN_FAILURES: &[&str] = &[
    "resourceVersion should not be set on objects to be created",
    "resourceVersion: Invalid value:",
    "failed to create typed patch object",
    "failed to create manager",
    "does not contain declared merge key",
    ".metadata.managedFields",
    "the spec replicas field",
    "failed to prune fields",
    "unable to find api field",
    "expected value for list",
    "failed calling webhook",
    "unknown patch type:",
    "expected a []interface {}, but received a",
    "expected a map[string]interface {}, but received a",
    "expected slice or array type, but got:",
    "merging lists cannot yet be specified in the patch",
    "doesn't match $setElementOrder list",
    "list element types are not identical",
];

/// A server with some objects in it, and what to send to it.
pub struct Driver {
    grammar: Grammar,
    server: ApiServer,
    watchdog: Watchdog,
}

impl Driver {
    pub async fn new() -> Self {
        let server = client::start().await;
        for name in ["n", "m"] {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            created(&server, &Call::new("POST", "/api/v1/namespaces").json(&namespace)).await;
        }
        let definition =
            super::objects::samples().into_iter().find(|sample| sample.plural == "customresourcedefinitions");
        let definition = definition.expect("there is a definition among the samples");
        created(&server, &Call::new("POST", definition.collection("")).json(&definition.object)).await;
        let grammar =
            Grammar::new(async |path: String| client::send(&server, &Call::new("GET", path)).await.json())
                .await;
        for sample in grammar.samples().iter().filter(|sample| sample.plural != "customresourcedefinitions") {
            created(&server, &Call::new("POST", sample.collection("n")).json(&sample.object)).await;
        }
        Self { grammar, server, watchdog: Watchdog::start() }
    }

    /// Sends the requests that `bytes` decide on to a server of their own. Each is shown to `seen` with its answer.
    pub async fn run(&self, bytes: &[u8], seen: &mut impl FnMut(&Call, &Reply)) {
        let server = self.server.fork();
        let mut choices = Choices::new(bytes);
        while !choices.is_empty() {
            let call = self.grammar.request(&mut choices);
            if let Some(reply) = self.check(&server, &call).await {
                seen(&call, &reply);
            }
        }
        self.is_usable(&server).await;
    }

    /// Sends one request to a server of its own.
    #[allow(dead_code, reason = "of use to the targets in `fuzz/`")]
    pub async fn alone(&self, call: &Call) {
        self.check(&self.server.fork(), call).await;
    }

    /// Sends one request and looks at the answer. `None` if HTTP has no such request.
    pub async fn check(&self, server: &ApiServer, call: &Call) -> Option<Reply> {
        self.watchdog.next(call.shown());
        let before = server.revision();
        let sent = AssertUnwindSafe(client::try_send(server, call)).catch_unwind().await;
        let reply = sent.unwrap_or_else(|_| panic!("the server panics or hangs at\n{}", call.shown()))?;
        if let Err(why) = judge(call, &reply, before, server.revision()) {
            panic!("{why}\n{}\n{} {:?}\n{}", call.shown(), reply.code, reply.headers, reply.text());
        }
        Some(reply)
    }

    /// Whatever was sent: objects can still be listed, read back, sent back unchanged, and created.
    async fn is_usable(&self, server: &ApiServer) {
        for sample in self.grammar.samples() {
            let path = format!("{}/{}", super::objects::root(sample.group_version), sample.plural);
            let list = client::send(server, &Call::new("GET", path)).await;
            if matches!(list.code, 404 | 405) {
                continue; // its definition is gone, or it can't be listed
            }
            let list: Value = serde_json::from_slice(&list.body).unwrap_or_else(|error| {
                panic!("the list of {} is no JSON: {error}\n{}", sample.plural, list.text())
            });
            for item in list["items"].as_array().into_iter().flatten() {
                self.comes_back(server, sample.group_version, sample.plural, item).await;
            }
        }
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "usable-"}});
        created(server, &Call::new("POST", "/api/v1/namespaces/default/configmaps").json(&map)).await;
    }

    /// An object that was stored can be read, and written back as it is without a change.
    async fn comes_back(&self, server: &ApiServer, group_version: &str, plural: &str, item: &Value) {
        let text = |field: &str| item["metadata"][field].as_str().unwrap_or_default();
        let root = super::objects::root(group_version);
        let path = match text("namespace") {
            "" => format!("{root}/{plural}/{}", escaped(text("name"))),
            namespace => format!("{root}/namespaces/{namespace}/{plural}/{}", escaped(text("name"))),
        };
        let read = client::send(server, &Call::new("GET", path.as_str())).await;
        assert_eq!(read.code, 200, "GET {path}: {}", read.text());
        let object = read.json();
        assert!(object.is_object(), "GET {path} gives no JSON: {}", read.text());
        // A write to `/scale` can leave two entries of one manager, which the next write joins.
        let mut managers: Vec<String> = object["metadata"]["managedFields"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|entry| format!("{} {} {}", entry["manager"], entry["operation"], entry["subresource"]))
            .collect();
        let entries = managers.len();
        managers.sort();
        managers.dedup();
        let passing = managers.len() < entries || !object["metadata"]["deletionTimestamp"].is_null();
        if passing || plural == "events" {
            return;
        }
        let before = server.revision();
        let call = Call::new("PUT", path.as_str()).json(&object);
        let Some(reply) = self.check(server, &call).await else { return };
        assert_eq!(reply.code, 200, "an object can't be sent back: {}\n{}", call.shown(), reply.text());
        let revision = server.revision();
        assert_eq!(revision, before, "an object sent back changes: {}\n{}", call.shown(), reply.text());
    }
}

fn escaped(name: &str) -> String {
    name.bytes()
        .map(
            |byte| {
                if byte.is_ascii_alphanumeric() {
                    char::from(byte).to_string()
                } else {
                    format!("%{byte:02X}")
                }
            },
        )
        .collect()
}

async fn created(server: &ApiServer, call: &Call) {
    let reply = client::send(server, call).await;
    assert_eq!(reply.code, 201, "{}\n{}", call.shown(), reply.text());
}

fn judge(call: &Call, reply: &Reply, before: u64, after: u64) -> Result<(), String> {
    let refused = reply.code >= 400;
    let collection = call.method == "DELETE"; // of which some may have gone before one refused
    if after < before {
        return Err("the revision went back".into());
    }
    // The object of a write that can't be shown in the form asked for is stored nevertheless.
    let unshown = reply.code == 406;
    if refused && after != before && !collection && !unshown {
        return Err(format!("a refused request changed the store, from {before} to {after}"));
    }
    let reads = matches!(call.method.as_str(), "GET" | "HEAD" | "OPTIONS");
    if reads && after != before {
        return Err("a read changed the store".into());
    }
    if call.method == "HEAD" {
        return if reply.body.is_empty() { Ok(()) } else { Err("HEAD has no body".into()) };
    }
    let is_json = reply.header("content-type").starts_with("application/json")
        && reply.header("content-encoding").is_empty();
    if !refused {
        if is_json && reply.code != 304 {
            for line in reply
                .body
                .split(|byte| *byte == b'\n')
                .filter(|_| !call.uri.contains("pretty") && !reply.body.starts_with(b"{\n"))
            {
                if !line.is_empty() {
                    serde_json::from_slice::<Value>(line)
                        .map_err(|error| format!("the answer is no JSON: {error}"))?;
                }
            }
        }
        return Ok(());
    }
    if reply.code == 404 && reply.body.starts_with(b"404 page not found") {
        return Ok(());
    }
    if !is_json {
        return Ok(());
    }
    let status = reply.json();
    if status["kind"] != "Status"
        || status["status"] != "Failure"
        || status["code"] != reply.code
        || status["apiVersion"] != "v1"
    {
        return Err("the refusal is no Status".into());
    }
    let message = status["message"].as_str().ok_or("the refusal has no message")?;
    match reply.code {
        400..500 if status["reason"].as_str().is_none_or(str::is_empty) => {
            Err("the refusal has no reason".into())
        }
        400..500 => Ok(()),
        501 if message.contains("needs a running node") => Ok(()),
        504 if status["reason"] == "Timeout" => Ok(()),
        500 if KNOWN_FAILURES.iter().any(|known| message.contains(known)) => Ok(()),
        _ => Err("a failure that the real server does not have".into()),
    }
}
