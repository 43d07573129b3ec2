//! What an empty cluster begins with. It is worked out once a process, object by object, in a server of its own;
//! every other cluster gets the same text, with its own uids and times in the gaps.

use std::sync::Arc;

use tokio::sync::OnceCell;

use crate::{
    auth::rbac::Rules,
    clock::Clock,
    credentials::Credentials,
    entropy::Entropy,
    error::ApiError,
    http::answer::write_json,
    kinds::access,
    rest::codec,
    server::Server,
    services::Allocations,
    store::{Attributes, Change, Expect, Options, ResourceId, Store, Stored, Write},
};

/// Stand for what differs from cluster to cluster; no object has these characters.
const UID: char = '\u{e000}';
const TIME: char = '\u{e001}';
const REVISION: char = '\u{e002}';

/// The first objects, and what follows from them in memory.
pub(super) struct First {
    objects: Vec<Template>,
    pub(super) rules: Rules,
    pub(super) services: Allocations,
}

/// An object as it is stored, but for some gaps.
struct Template {
    resource: ResourceId,
    key: Arc<str>,
    labels: Attributes,
    fields: Attributes,
    /// Text, each with the gap that follows it.
    text: Vec<(String, char)>,
    end: String,
}

impl First {
    /// The same for all servers of the process.
    pub(super) async fn get() -> Result<&'static Self, ApiError> {
        static FIRST: OnceCell<First> = OnceCell::const_new();
        FIRST.get_or_try_init(Self::work_out).await
    }

    async fn work_out() -> Result<Self, ApiError> {
        let clock = Clock::system();
        let credentials = Credentials::open(None, None, clock.now()).map_err(ApiError::internal)?;
        let store = Store::in_memory(Options::default());
        let entropy = Entropy::seeded(0);
        let server = Server::new(store, clock, entropy, credentials, None, Vec::new(), None);
        let server = Arc::new(server);
        server.complete().await?;
        let snapshot = server.store.snapshot();
        let mut stored: Vec<(&ResourceId, Arc<Stored>)> = Vec::new();
        for resource in snapshot.resources() {
            stored.extend(snapshot.collection(resource).range("", "").map(|one| (resource, one.clone())));
        }
        stored.sort_by_key(|(_, one)| one.revision);
        let objects = stored.iter().map(|(resource, one)| Template::of(resource, one));
        Ok(Self {
            objects: objects.collect::<Result<_, _>>()?,
            rules: server.rules(),
            services: server.services.lock().clone(),
        })
    }

    /// The writes that put all of it into an empty store.
    pub(super) fn writes(&'static self, entropy: &Entropy, now: &str) -> Vec<Write> {
        let now: Arc<str> = now.into();
        self.objects.iter().map(|object| object.write(entropy.uid(), now.clone())).collect()
    }
}

impl Template {
    fn of(resource: &ResourceId, stored: &Stored) -> Result<Self, ApiError> {
        let mut object = codec::parse(&stored.bytes)?;
        for (field, gap) in [("uid", UID), ("creationTimestamp", TIME), ("resourceVersion", REVISION)] {
            access::set(&mut object, &["metadata", field], gap.to_string());
        }
        for (list, field) in
            [(["metadata", "managedFields"], "time"), (["status", "conditions"], "lastTransitionTime")]
        {
            for item in access::items_mut(&mut object, &list) {
                access::set(item, &[field], TIME.to_string());
            }
        }
        let mut bytes = Vec::new();
        write_json(&mut bytes, &object);
        let whole = String::from_utf8(bytes).map_err(ApiError::internal)?;
        let (mut text, mut end) = (Vec::new(), whole.as_str());
        while let Some((before, after)) = end.split_once([UID, TIME, REVISION]) {
            let gap = end[before.len()..].chars().next().unwrap_or(UID);
            text.push((before.to_owned(), gap));
            end = after;
        }
        Ok(Self {
            resource: resource.clone(),
            key: stored.key.clone(),
            labels: stored.labels.clone(),
            fields: stored.fields.clone(),
            end: end.to_owned(),
            text,
        })
    }

    fn write(&'static self, uid: String, now: Arc<str>) -> Write {
        let encode = move |revision: u64, out: &mut Vec<u8>| {
            let revision = revision.to_string();
            for (text, gap) in &self.text {
                out.extend_from_slice(text.as_bytes());
                out.extend_from_slice(match *gap {
                    UID => uid.as_bytes(),
                    TIME => now.as_bytes(),
                    _ => revision.as_bytes(),
                });
            }
            out.extend_from_slice(self.end.as_bytes());
        };
        Write {
            resource: self.resource.clone(),
            key: self.key.clone(),
            expect: Expect::Absent,
            change: Change::put(self.labels.clone(), self.fields.clone(), encode),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    fn empty(clock: Clock) -> Arc<Server> {
        let credentials = Credentials::open(None, None, clock.now()).unwrap();
        let store = Store::in_memory(Options::default());
        let entropy = Entropy::seeded(7);
        Arc::new(Server::new(store, clock, entropy, credentials, None, Vec::new(), None))
    }

    /// All objects of a server, without what no two have in common.
    fn content(server: &Server) -> Vec<(String, Arc<str>, Value, Attributes, Attributes)> {
        let snapshot = server.store.snapshot();
        let (mut all, mut uids) = (Vec::new(), BTreeSet::new());
        for resource in snapshot.resources() {
            for stored in snapshot.collection(resource).range("", "") {
                let mut object = codec::parse(&stored.bytes).unwrap();
                let revision = access::remove(&mut object, &["metadata", "resourceVersion"]);
                assert_eq!(revision, Some(stored.revision.to_string().into()));
                assert!(uids.insert(access::remove(&mut object, &["metadata", "uid"]).unwrap().to_string()));
                let (labels, fields) = (stored.labels.clone(), stored.fields.clone());
                all.push((resource.as_str().to_owned(), stored.key.clone(), object, labels, fields));
            }
        }
        all
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_begins_as_if_its_objects_were_created_one_after_another() {
        let clock = Clock::starting_at("2031-02-03T04:05:06Z".parse().unwrap());
        let (quick, slow) = (empty(clock), empty(clock));
        quick.bootstrap().await.unwrap();
        slow.complete().await.unwrap();
        assert_eq!(content(&quick), content(&slow));
        assert_eq!(format!("{:?}", quick.rules()), format!("{:?}", slow.rules()));
        assert_eq!(*quick.services.lock(), *slow.services.lock());
    }
}
