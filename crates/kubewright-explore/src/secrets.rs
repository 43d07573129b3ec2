//! Whether what is secret is told where everybody may read it.

use std::{collections::BTreeSet, fmt::Write as _};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kubewright_apiserver::store::Snapshot;
use serde_json::Value;

use crate::{
    logs::Logs,
    state::{resource_id, resource_name},
};

/// What is shorter may be anything.
const SHORTEST: usize = 8;

/// The first of some secrets that is told in a log, an event or a status, and where.
pub(crate) fn told(
    secrets: &BTreeSet<(String, String)>,
    snapshot: &Snapshot,
    since: u64,
    logs: &Logs,
) -> Option<String> {
    if secrets.is_empty() {
        return None;
    }
    if let Some((name, _)) = secrets.iter().find(|(_, text)| logs.contain(text)) {
        return Some(format!("what is in {name} is in the logs"));
    }
    for resource in snapshot.resources() {
        let called = resource_name(resource);
        let is_event = matches!(&*called, "events" | "events.events.k8s.io");
        for stored in snapshot.collection(resource).range("", "").filter(|stored| stored.revision > since) {
            let object: Value = serde_json::from_slice(&stored.bytes).unwrap_or_default();
            let public = if is_event { object.to_string() } else { object["status"].to_string() };
            if let Some((name, _)) = secrets.iter().find(|(_, text)| public.contains(text)) {
                let place = if is_event { "" } else { "the status of " };
                return Some(format!("what is in {name} is in {place}{called} {}", stored.key));
            }
        }
    }
    None
}

/// What Secrets hold that the operator, or whoever it asked, has made, each with the name of its place: as it is, as it is
/// stored, as Rust shows bytes, and as it is in an address.
pub(crate) fn of(snapshot: &Snapshot, since: u64) -> Vec<(String, String)> {
    let all = snapshot.collection(&resource_id("secrets"));
    let mut found = Vec::new();
    for stored in all.range("", "").filter(|stored| stored.revision > since) {
        let secret: Value = serde_json::from_slice(&stored.bytes).unwrap_or_default();
        for (field, value) in secret["data"].as_object().into_iter().flatten() {
            let bytes = value.as_str().and_then(|text| STANDARD.decode(text).ok()).unwrap_or_default();
            if bytes.len() < SHORTEST {
                continue;
            }
            let shown = format!("{bytes:?}").trim_matches(['[', ']']).to_owned();
            let in_address = in_address(&bytes);
            let texts = [
                String::from_utf8(bytes).ok(),
                value.as_str().map(str::to_owned),
                Some(shown),
                Some(in_address),
            ];
            let name = format!("{field} of Secret {}", stored.key);
            found.extend(texts.into_iter().flatten().map(|text| (name.clone(), text)));
        }
    }
    found
}

/// Bytes as they are in an address, with everything escaped that has to be.
fn in_address(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'-' | b'.' | b'_' | b'~' => text.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => text.push(char::from(*byte)),
            byte => {
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}
