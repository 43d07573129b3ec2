//! A moment of a run, in one number: two that have the same one go on in the same way.
//!
//! Everything that is stored counts, down to who owns which field; but not what differs from run to run without meaning
//! anything: UIDs, revisions, times, addresses and generated parts of names. What is told apart here in vain costs a run
//! that could have been spared; what is not told apart may hide something. So when in doubt, it is.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    net::Ipv4Addr,
    sync::Arc,
};

use kubewright_apiserver::store::{ResourceId, Snapshot, Stored};
use serde::Deserialize;

use crate::trace::digest;

/// What nobody acts on, or what only says that somebody is alive.
const LEFT_OUT: [&str; 4] =
    ["events", "events.events.k8s.io", "leases.coordination.k8s.io", "ipaddresses.networking.k8s.io"];
/// What has addresses that are handed out in turn.
const ADDRESSED: [&str; 4] = ["pods", "services", "endpoints", "endpointslices.discovery.k8s.io"];
/// What has generations that nobody asks for.
const UNOBSERVED: &str = "endpointslices.discovery.k8s.io";
const MANAGED: &[u8] = br#""managedFields":["#;
const UID: usize = 36;

/// Reads moments, and remembers what it has read.
#[derive(Default)]
pub(crate) struct Moments {
    resources: BTreeMap<ResourceId, Resource>,
    objects: BTreeMap<ResourceId, BTreeMap<Box<str>, Arc<Object>>>,
    /// Names that were generated, and what from.
    generated: BTreeMap<Box<[u8]>, Box<[u8]>>,
    /// Who is there, and what stands for them.
    uids: BTreeMap<Uid, u64>,
}

type Uid = [u8; UID];

/// The objects of a resource after its change at some revision.
struct Resource {
    revision: u64,
    objects: Vec<Arc<Object>>,
}

/// An object at some revision.
struct Object {
    revision: u64,
    uid: Option<Uid>,
    /// What stands for its name, and for all of it but for whom it names.
    name: u64,
    content: u64,
    /// Whom it names by UID, in order.
    named: Vec<Uid>,
}

/// What of an object says who it is.
#[derive(Deserialize)]
struct Identified<'o> {
    #[serde(borrow, default)]
    metadata: Identity<'o>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Identity<'o> {
    #[serde(borrow)]
    uid: Cow<'o, str>,
    #[serde(borrow)]
    generate_name: Option<Cow<'o, str>>,
}

impl Moments {
    /// What stands for everything that is stored.
    pub(crate) fn read(&mut self, snapshot: &Snapshot) -> u64 {
        for resource in snapshot.resources().filter(|resource| !LEFT_OUT.contains(&resource.as_str())) {
            let revision = snapshot.changed(resource);
            let before = self.resources.get(resource);
            if before.is_some_and(|before| before.revision == revision) {
                continue;
            }
            for uid in before.into_iter().flat_map(|before| &before.objects).filter_map(|object| object.uid) {
                self.uids.remove(&uid);
            }
            let objects = snapshot.collection(resource);
            let objects: Vec<_> = objects.range("", "").map(|stored| self.object(resource, stored)).collect();
            self.uids.extend(objects.iter().filter_map(|object| Some((object.uid?, object.name))));
            self.resources.insert(resource.clone(), Resource { revision, objects });
        }
        // In whichever order: the names of some are generated.
        let all = self.resources.values().flat_map(|resource| &resource.objects);
        all.map(|object| self.whole(object)).fold(0, u64::wrapping_add)
    }

    /// What stands for an object and for whom it names: somebody who is there, or who is not any more.
    fn whole(&self, object: &Object) -> u64 {
        self.with_named(object.content, &object.named)
    }

    fn with_named(&self, content: u64, named: &[Uid]) -> u64 {
        if named.is_empty() {
            return content;
        }
        let mut hasher = DefaultHasher::new();
        content.hash(&mut hasher);
        named.iter().for_each(|uid| self.uids.get(uid).hash(&mut hasher));
        hasher.finish()
    }

    /// What stands for an event of a resource that somebody has still to be told.
    pub(crate) fn event(&self, resource: &str, line: &[u8]) -> u64 {
        let mut scan = self.scan(resource);
        scan.object(line);
        self.with_named(scan.hasher.finish(), &scan.named)
    }

    fn scan(&self, resource: &str) -> Scan<'_> {
        Scan {
            generated: &self.generated,
            has_addresses: ADDRESSED.contains(&resource),
            is_unobserved: resource == UNOBSERVED,
            hasher: DefaultHasher::new(),
            named: Vec::new(),
        }
    }

    fn object(&mut self, resource: &ResourceId, stored: &Arc<Stored>) -> Arc<Object> {
        let known = self.objects.get(resource).and_then(|known| known.get(&*stored.key));
        if let Some(known) = known.filter(|known| known.revision == stored.revision) {
            return known.clone();
        }
        let identity = serde_json::from_slice::<Identified<'_>>(&stored.bytes);
        let Identity { uid, generate_name } = identity.map(|one| one.metadata).unwrap_or_default();
        let uid: Option<Uid> = uid.as_bytes().try_into().ok();
        let name = generate_name.as_deref().unwrap_or_else(|| stored.name());
        if generate_name.is_some() {
            self.generated.insert(stored.name().as_bytes().into(), name.as_bytes().into());
        }
        let name = digest(&[resource.as_str().as_bytes(), stored.namespace().as_bytes(), name.as_bytes()]);
        let mut scan = self.scan(resource.as_str());
        name.hash(&mut scan.hasher);
        scan.object(&stored.bytes);
        let Scan { hasher, mut named, .. } = scan;
        named.retain(|one| Some(*one) != uid);
        let object = Object { revision: stored.revision, uid, name, content: hasher.finish(), named };
        let object = Arc::new(object);
        self.objects.entry(resource.clone()).or_default().insert((*stored.key).into(), object.clone());
        object
    }
}

/// Hashes JSON without what does not matter.
struct Scan<'m> {
    generated: &'m BTreeMap<Box<[u8]>, Box<[u8]>>,
    has_addresses: bool,
    is_unobserved: bool,
    hasher: DefaultHasher,
    named: Vec<Uid>,
}

impl Scan<'_> {
    /// An object. Who manages its fields is listed by when they last did, which means nothing.
    fn object(&mut self, json: &[u8]) {
        let Some(begin) = beginning_of(MANAGED, json) else {
            return self.json(json);
        };
        let (before, rest) = json.split_at(begin + MANAGED.len());
        let (mut entries, after) = items(rest);
        entries.sort_unstable();
        self.json(before);
        entries.into_iter().for_each(|entry| self.json(entry));
        self.json(after);
    }

    fn json(&mut self, json: &[u8]) {
        let (mut at, mut begin, mut last): (_, _, &[u8]) = (0, 0, b"");
        while let Some(open) = find(json, at) {
            let end = end_of_text(json, open + 1);
            let text = &json[open + 1..end];
            let is_idle =
                last == b"resourceVersion" || is_time(text) || self.has_addresses && is_address(text);
            let stand_in = match is_idle {
                true => Some(&b""[..]),
                false => self.generated.get(text).map(|prefix| &**prefix),
            };
            if stand_in.is_some() || text.len() >= UID {
                self.hasher.write(&json[begin..=open]);
                match stand_in {
                    Some(stand_in) => self.hasher.write(stand_in),
                    None => self.text(text),
                }
                begin = end;
            }
            (at, last) = (end + 1, text);
            if self.is_unobserved && text == b"generation" {
                self.hasher.write(&json[begin..at]);
                begin = at + json[at..].iter().take_while(|byte| !matches!(byte, b',' | b'}')).count();
            }
        }
        self.hasher.write(&json[begin..]);
    }

    /// A text in which UIDs may be.
    fn text(&mut self, text: &[u8]) {
        let (mut begin, mut at) = (0, 0);
        while let Some(part) = text.get(at..).and_then(|rest| rest.first_chunk::<UID>()) {
            if is_uid(part) {
                self.hasher.write(&text[begin..at]);
                self.named.push(*part);
                at += UID;
                begin = at;
            } else {
                at += 1;
            }
        }
        self.hasher.write(&text[begin..]);
    }
}

/// The items of a list after its opening bracket, and what comes after them.
fn items(json: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let (mut items, mut begin, mut at, mut depth) = (Vec::new(), 0, 0, 0_usize);
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => at = end_of_text(json, at + 1),
            b'{' | b'[' => depth += 1,
            b'}' if depth == 1 => {
                depth = 0;
                items.push(&json[begin..=at]);
            }
            b',' if depth == 0 => begin = at + 1,
            b']' if depth == 0 => break,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    (items, &json[at.min(json.len())..])
}

/// Where a field begins, with its quote.
fn beginning_of(field: &[u8], json: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(quote) = find(json, at) {
        if json[quote..].starts_with(field) {
            return Some(quote);
        }
        at = quote + 1;
    }
    None
}

/// Where the next quote is.
fn find(json: &[u8], from: usize) -> Option<usize> {
    json.get(from..)?.iter().position(|byte| *byte == b'"').map(|at| from + at)
}

/// Where the text ends that begins here.
fn end_of_text(json: &[u8], begin: usize) -> usize {
    let mut at = begin;
    while let Some(quote) = find(json, at) {
        let escapes = json[begin..quote].iter().rev().take_while(|byte| **byte == b'\\').count();
        if escapes % 2 == 0 {
            return quote;
        }
        at = quote + 1;
    }
    json.len()
}

/// Whether a text is a time such as `2026-01-01T00:00:00Z`.
fn is_time(text: &[u8]) -> bool {
    text.len() >= 20
        && text[0].is_ascii_digit()
        && (text[4], text[7], text[10], text[text.len() - 1]) == (b'-', b'-', b'T', b'Z')
}

fn is_address(text: &[u8]) -> bool {
    text.first().is_some_and(u8::is_ascii_digit)
        && std::str::from_utf8(text).is_ok_and(|text| text.parse::<Ipv4Addr>().is_ok())
}

fn is_uid(part: &Uid) -> bool {
    [8, 13, 18, 23].into_iter().all(|at| part[at] == b'-')
        && part
            .iter()
            .enumerate()
            .all(|(at, byte)| matches!(at, 8 | 13 | 18 | 23) || byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What stands for an object of a resource.
    fn of(resource: &str, json: &str) -> u64 {
        Moments::default().event(resource, json.as_bytes())
    }

    #[test]
    fn what_means_nothing_is_the_same() {
        let same = [
            ("pods", r#"{"a":"2026-01-01T00:00:00Z"}"#, r#"{"a":"2026-02-01T00:00:09Z"}"#),
            ("pods", r#"{"resourceVersion":"1","b":"c"}"#, r#"{"resourceVersion":"23","b":"c"}"#),
            ("pods", r#"{"podIP":"10.0.0.1"}"#, r#"{"podIP":"10.0.0.23"}"#),
            (
                "pods",
                r#"{"managedFields":[{"f":{"f:]":{}},"m":"a,}"},{"m":"b"}],"x":1}"#,
                r#"{"managedFields":[{"m":"b"},{"f":{"f:]":{}},"m":"a,}"}],"x":1}"#,
            ),
            (
                UNOBSERVED,
                r#"{"metadata":{"generation":5,"name":"a"}}"#,
                r#"{"metadata":{"generation":12,"name":"a"}}"#,
            ),
        ];
        for (resource, one, other) in same {
            assert_eq!(of(resource, one), of(resource, other), "{one} and {other}");
        }
    }

    #[test]
    fn what_may_mean_something_is_not() {
        let other = [
            ("configmaps", r#"{"a":"10.0.0.1"}"#, r#"{"a":"10.0.0.2"}"#),
            ("deployments.apps", r#"{"generation":5}"#, r#"{"generation":12}"#),
            (UNOBSERVED, r#"{"generation":5,"name":"a"}"#, r#"{"generation":5,"name":"b"}"#),
            ("pods", r#"{"managedFields":[{"m":"a"}],"x":1}"#, r#"{"managedFields":[{"m":"b"}],"x":1}"#),
            ("pods", r#"{"managedFields":[{"m":"a"}],"x":1}"#, r#"{"managedFields":[{"m":"a"}],"x":2}"#),
            ("pods", r#"{"managedFields":[],"x":1}"#, r#"{"managedFields":[],"x":2}"#),
        ];
        for (resource, one, two) in other {
            assert_ne!(of(resource, one), of(resource, two), "{one} and {two}");
        }
    }
}
