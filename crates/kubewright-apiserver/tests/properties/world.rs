//! A cluster under test: it takes steps and checks, after each, what must hold.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kubewright_apiserver::ApiServer;
use serde_json::{Value, json};

use crate::{
    client::{self, Call, Reply},
    managed,
    operations::{self, KINDS, Kind, Step},
};

/// Objects of one kind by name.
type Objects = BTreeMap<String, Value>;

/// What was there at a revision.
struct Snapshot {
    revision: u64,
    objects: BTreeMap<Kind, Objects>,
}

/// A list that is being read in pages.
struct Reading {
    kind: Kind,
    limit: u8,
    revision: String,
    token: String,
    items: Vec<Value>,
}

pub struct World {
    server: ApiServer,
    /// Left behind by a fork, with what was in them.
    left: Vec<(ApiServer, u64, String)>,
    history: Vec<Snapshot>,
    /// The revisions that writes were answered with.
    answered: BTreeSet<u64>,
    reading: Option<Reading>,
    transcript: Vec<String>,
}

impl World {
    pub async fn new() -> Self {
        let server = client::start().await;
        let reply =
            client::send(&server, &Call::new("POST", operations::DEFINITION).json(&operations::definition()))
                .await;
        assert_eq!(reply.code, 201, "{}", reply.text());
        let mut world = Self {
            server,
            left: Vec::new(),
            history: Vec::new(),
            answered: BTreeSet::new(),
            reading: None,
            transcript: Vec::new(),
        };
        world.remember().await;
        world
    }

    pub fn transcript(self) -> Vec<String> {
        self.transcript
    }

    async fn send(&mut self, call: &Call) -> Reply {
        let reply = client::send(&self.server, call).await;
        self.transcript.push(format!(
            "{}\n{} {:?}\n{}",
            call.shown(),
            reply.code,
            reply.headers,
            reply.text()
        ));
        reply
    }

    async fn get(&self, path: &str) -> Option<Value> {
        let reply = client::send(&self.server, &Call::new("GET", path)).await;
        (reply.code == 200).then(|| reply.json())
    }

    async fn objects(&self, kind: Kind, query: &str) -> Result<Option<Objects>, String> {
        let path = format!("{}{query}", kind.collection());
        let reply = client::send(&self.server, &Call::new("GET", path)).await;
        match reply.code {
            200 => Ok(Some(by_name(reply.json()["items"].take()))),
            404 if kind == Kind::Widget => Ok(None),
            _ => Err(format!("a list fails: {}", reply.text())),
        }
    }

    /// Keeps what is there now, to compare with later.
    async fn remember(&mut self) {
        let revision = self.server.revision();
        if self.history.last().is_some_and(|last| last.revision == revision) {
            return;
        }
        let mut objects = BTreeMap::new();
        for kind in KINDS {
            if let Ok(Some(found)) = self.objects(kind, "").await {
                objects.insert(kind, found);
            }
        }
        self.history.push(Snapshot { revision, objects });
    }

    pub async fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Fork => self.fork().await,
            Step::Wait => tokio::time::sleep(Duration::from_secs(7)).await,
            Step::Pages { kind, limit } => {
                self.reading.get_or_insert_with(|| Reading {
                    kind: *kind,
                    limit: *limit,
                    revision: String::new(),
                    token: String::new(),
                    items: Vec::new(),
                });
            }
            _ => self.write(step).await?,
        }
        self.read_page().await?;
        self.remember().await;
        self.left_behind_is_as_it_was().await
    }

    async fn write(&mut self, step: &Step) -> Result<(), String> {
        let path = step.target().map(|(kind, name)| kind.path(name));
        let old = match &path {
            Some(path) => self.get(path).await,
            None => None,
        };
        let current = old.clone().unwrap_or_default();
        let Some(call) = step.call(&current) else { return Ok(()) };
        let before = self.server.revision();
        let reply = self.send(&call).await;
        let after = self.server.revision();
        let new = match &path {
            Some(path) => self.get(path).await,
            None => None,
        };
        if reply.code >= 500 {
            return Err(format!("fails: {}", reply.text()));
        }
        if after < before {
            return Err("the revision went back".into());
        }
        if (reply.code >= 400 || step.is_dry_run()) && after != before {
            return Err(format!("refused or dry, and yet something changed: {}", reply.text()));
        }
        if matches!(step, Step::PutBack { .. }) && old.is_some() && after != before {
            return Err(format!(
                "an object written back as it was changed:\n{}\n{}",
                call.shown(),
                reply.text()
            ));
        }
        if let Some((kind, _)) = step.target() {
            self.check_versions(&reply, old.as_ref(), new.as_ref(), before, after)?;
            if let (Some(old), Some(new)) = (&old, &new) {
                check_generation(kind, old, new)?;
            }
            if let Some(new) = &new {
                managed::check(new)?;
            }
        }
        if reply.code < 300 && is_apply(&call) && new.is_some() {
            self.repeat(&call).await?;
        }
        Ok(())
    }

    /// The revision in an answer is the one of the write, and no other write had it.
    fn check_versions(
        &mut self,
        reply: &Reply,
        old: Option<&Value>,
        new: Option<&Value>,
        before: u64,
        after: u64,
    ) -> Result<(), String> {
        let (old_version, new_version) = (old.and_then(version), new.and_then(version));
        if after == before {
            return if old == new { Ok(()) } else { Err("an object changed without a new revision".into()) };
        }
        if let Some(new_version) = new_version.filter(|_| new_version != old_version) {
            if new_version <= before || new_version > after {
                return Err(format!("revision {new_version} of a write between {before} and {after}"));
            }
            if !self.answered.insert(new_version) {
                return Err(format!("revision {new_version} was given twice"));
            }
        }
        let answered = reply.json();
        if reply.code < 300
            && answered["kind"] != "Status"
            && new.is_some()
            && version(&answered) != new_version
        {
            return Err(format!("the answer shows another revision than the object has: {}", reply.text()));
        }
        Ok(())
    }

    /// The same apply once more changes nothing.
    async fn repeat(&mut self, call: &Call) -> Result<(), String> {
        let before = self.server.revision();
        let again = self.send(call).await;
        if again.code >= 300 || self.server.revision() != before {
            return Err(format!("the same apply again is not the same: {}", again.text()));
        }
        Ok(())
    }

    async fn fork(&mut self) {
        let ahead = self.server.fork();
        let left = std::mem::replace(&mut self.server, ahead);
        let content = everything(&left).await;
        self.left.push((left.clone(), left.revision(), content));
        // And the other way: what happens in the one left behind is not seen here.
        let elsewhere = left.fork();
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "elsewhere", "labels": {"tier": "0"}}});
        let reply =
            client::send(&elsewhere, &Call::new("POST", Kind::ConfigMap.collection()).json(&map)).await;
        assert_eq!(reply.code, 201, "{}", reply.text());
        let gone = client::send(&elsewhere, &Call::new("DELETE", Kind::Deployment.collection())).await;
        assert_eq!(gone.code, 200, "{}", gone.text());
    }

    async fn left_behind_is_as_it_was(&self) -> Result<(), String> {
        for (server, revision, content) in &self.left {
            if server.revision() != *revision || everything(server).await != *content {
                return Err("a fork changed what it was forked from".into());
            }
        }
        if self.get(&format!("{}/elsewhere", Kind::ConfigMap.collection())).await.is_some() {
            return Err("a write to one fork shows in another".into());
        }
        Ok(())
    }

    /// Reads one more page. A list read in pages is the list of the revision at which it began.
    async fn read_page(&mut self) -> Result<(), String> {
        let Some(mut reading) = self.reading.take() else { return Ok(()) };
        let mut path = format!("{}?limit={}", reading.kind.collection(), reading.limit);
        if !reading.token.is_empty() {
            path = format!("{path}&continue={}", reading.token);
        }
        let reply = self.send(&Call::new("GET", path)).await;
        if reply.code == 404 && reading.kind == Kind::Widget {
            return Ok(());
        }
        if reply.code != 200 {
            return Err(format!("a page fails: {}", reply.text()));
        }
        let mut page = reply.json();
        let revision = page["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        if reading.revision.is_empty() {
            reading.revision.clone_from(&revision);
        }
        if revision != reading.revision {
            return Err(format!("a page of revision {revision} in a list of {}", reading.revision));
        }
        let token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        let Value::Array(items) = page["items"].take() else { return Err("a page without items".into()) };
        if items.len() > usize::from(reading.limit) || (items.is_empty() && !reading.items.is_empty()) {
            return Err(format!("a page of {} items", items.len()));
        }
        reading.items.extend(items);
        if !token.is_empty() {
            reading.token = token;
            self.reading = Some(reading);
            return Ok(());
        }
        let exact = format!("?resourceVersion={revision}&resourceVersionMatch=Exact");
        let Some(whole) = self.objects(reading.kind, &exact).await? else { return Ok(()) };
        if by_name(Value::Array(reading.items)) != whole {
            return Err(format!("the pages are not the list of revision {revision}"));
        }
        Ok(())
    }

    /// A watch from any revision that was seen, applied to what was there, gives what is there.
    pub async fn watches_lead_here(self) -> Result<(), String> {
        for kind in KINDS {
            for query in [
                "",
                "&labelSelector=tier%3D1",
                "&labelSelector=tier%21%3D1",
                "&fieldSelector=metadata.name%3Do1",
            ] {
                let Some(present) = self.objects(kind, &query.replacen('&', "?", 1)).await? else { continue };
                for snapshot in &self.history {
                    let Some(then) = snapshot.objects.get(&kind) else { continue };
                    let mut seen: Objects = then
                        .iter()
                        .filter(|(_, object)| selects(query, object))
                        .map(|(name, object)| (name.clone(), object.clone()))
                        .collect();
                    let uri = format!(
                        "{}?watch=1&timeoutSeconds=1&resourceVersion={}{query}",
                        kind.collection(),
                        snapshot.revision
                    );
                    let reply = client::send(&self.server, &Call::new("GET", uri.as_str())).await;
                    follow(&mut seen, snapshot.revision, &reply).map_err(|why| format!("{uri}: {why}"))?;
                    if seen != present {
                        return Err(format!(
                            "{uri} does not lead to the present:\n{seen:?}\n{present:?}\n{}",
                            reply.text()
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

fn selects(query: &str, object: &Value) -> bool {
    let tier = &object["metadata"]["labels"]["tier"];
    match query {
        "&labelSelector=tier%3D1" => tier == "1",
        "&labelSelector=tier%21%3D1" => tier != "1",
        "&fieldSelector=metadata.name%3Do1" => object["metadata"]["name"] == "o1",
        _ => true,
    }
}

fn follow(seen: &mut Objects, from: u64, reply: &Reply) -> Result<(), String> {
    let mut last = from;
    for mut event in reply.lines() {
        let object = bare(event["object"].take());
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let at = version(&object).ok_or_else(|| format!("an event without a revision: {event} {object}"))?;
        if at <= last {
            return Err(format!("an event of revision {at} after one of {last}"));
        }
        last = at;
        let known = seen.contains_key(&name);
        match event["type"].as_str() {
            Some("ADDED") if !known => drop(seen.insert(name, object)),
            Some("MODIFIED") if known => {
                if seen
                    .insert(name, object.clone())
                    .is_some_and(|before| without_version(before) == without_version(object))
                {
                    return Err("an event that changes nothing".into());
                }
            }
            Some("DELETED") if known => drop(seen.remove(&name)),
            kind => return Err(format!("{kind:?} of {name}, which is known: {known}")),
        }
    }
    Ok(())
}

/// A list leaves kind and version out, an event does not.
fn bare(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    object
}

fn by_name(items: Value) -> Objects {
    let Value::Array(items) = items else { return Objects::new() };
    items
        .into_iter()
        .map(|item| (item["metadata"]["name"].as_str().unwrap_or_default().to_owned(), bare(item)))
        .collect()
}

fn without_version(mut object: Value) -> Value {
    object["metadata"]["resourceVersion"] = Value::Null;
    object
}

fn version(object: &Value) -> Option<u64> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

fn is_apply(call: &Call) -> bool {
    call.headers.iter().any(|(_, value)| value == "application/apply-patch+yaml")
}

async fn everything(server: &ApiServer) -> String {
    let mut content = String::new();
    for kind in KINDS {
        content += &client::send(server, &Call::new("GET", kind.collection())).await.text();
    }
    content + &client::send(server, &Call::new("GET", operations::DEFINITION)).await.text()
}

/// The generation rises by one with the desired state, and with the first deletion, and never otherwise.
fn check_generation(kind: Kind, old: &Value, new: &Value) -> Result<(), String> {
    if old["metadata"]["uid"] != new["metadata"]["uid"] || kind == Kind::ConfigMap {
        return Ok(());
    }
    let annotations =
        kind == Kind::Deployment && old["metadata"]["annotations"] != new["metadata"]["annotations"];
    let desired = old["spec"] != new["spec"] || annotations;
    let deleted =
        old["metadata"]["deletionTimestamp"].is_null() && !new["metadata"]["deletionTimestamp"].is_null();
    let expected =
        old["metadata"]["generation"].as_i64().unwrap_or(0) + i64::from(desired) + i64::from(deleted);
    if new["metadata"]["generation"].as_i64().unwrap_or(0) == expected {
        return Ok(());
    }
    Err(format!("generation should be {expected}:\n{old}\n{new}"))
}
