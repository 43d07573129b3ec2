//! Stored objects, written anew in the version that is stored now, so that older versions can go one day.
//!
//! A definition tells in `status.storedVersions` in which versions objects may be stored. If there are others than the
//! one that is stored now, each object gets an empty patch: the server stores it anew if it was stored otherwise, and does
//! nothing if it was not. Then the others go from the list. How far it is stands in an annotation of the definition: who
//! comes next goes on from there. If the definition changes meanwhile, it begins anew, as nobody knows what was stored.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    error::{Error, Result},
    kind::{Key, KindName},
    operator::Operator,
    rights::{Rights, Verb},
    task::TaskContext,
};

/// How many objects are asked for at once, and how many are done again at most after a crash.
const PAGE: u32 = 500;
/// How many objects are written at the same time.
const TOGETHER: usize = 16;
/// How often it is told how far it is.
const TOLD: Duration = Duration::from_secs(5);
/// How often it is looked whether there is something to do: the definition may change while the operator runs.
const LOOKED: Duration = Duration::from_secs(10 * 60);
/// The pause after the first failure; it doubles until it is as long as that between two looks.
const PAUSE: Duration = Duration::from_secs(1);

const GROUP: &str = "apiextensions.k8s.io";
const DEFINITIONS: &str = "customresourcedefinitions";
const MARK: &str = "kubewright.dev/migration";

/// How far a migration is.
#[derive(Debug, Serialize, Deserialize)]
struct Mark {
    /// The version that is stored.
    to: String,
    /// Of the definition, when it began.
    generation: Option<i64>,
    /// The last one that is done, with all before it, as `namespace/name`.
    after: String,
    done: usize,
}

impl Operator {
    /// Leaves stored objects in the version in which they are, though [`converts`](Self::converts) names others: somebody
    /// else migrates them.
    #[must_use]
    pub fn without_migration(mut self) -> Self {
        self.migrates = false;
        self
    }

    /// The kinds whose stored objects its leader brings to the version that is stored.
    pub(crate) fn migrated(&self) -> Vec<&KindName> {
        if self.migrates { self.conversions.hubs() } else { Vec::new() }
    }
}

/// What it takes to migrate a kind.
pub(crate) fn rights(kind: &KindName) -> Rights {
    let mut rights = Rights::default();
    rights.add(kind.group.clone(), kind.plural.clone(), kind.is_namespaced, &[Verb::List, Verb::Patch]);
    rights.named(GROUP, DEFINITIONS, false, &kind.to_string(), &[Verb::Get, Verb::Patch]);
    rights.named(GROUP, &format!("{DEFINITIONS}/status"), false, &kind.to_string(), &[Verb::Patch]);
    rights
}

/// Migrates a kind whenever there is something to migrate. What fails is told, and tried again.
pub(crate) async fn run(cx: TaskContext, operator: Arc<str>, kind: KindName) -> Result<()> {
    let migration = Migration {
        definitions: Api::all(cx.client.clone()),
        client: cx.client,
        manager: PatchParams { field_manager: Some(operator.to_string()), ..PatchParams::default() },
        kind,
    };
    tokio::select! {
        biased;
        () = cx.shutdown.requested() => Ok(()),
        never = migration.look_again_and_again() => never,
    }
}

struct Migration {
    client: Client,
    definitions: Api<CustomResourceDefinition>,
    manager: PatchParams,
    kind: KindName,
}

impl Migration {
    async fn look_again_and_again(&self) -> Result<()> {
        let mut pause = PAUSE;
        loop {
            match self.migrate().await {
                Ok(()) => {
                    pause = PAUSE;
                    sleep(LOOKED).await;
                }
                Err(error) => {
                    tracing::warn!(kind = %self.kind, %error, again_in = ?pause, "stored objects are not migrated");
                    sleep(pause).await;
                    pause = (pause * 2).min(LOOKED);
                }
            }
        }
    }

    /// Migrates everything, if there is something to migrate.
    async fn migrate(&self) -> Result<()> {
        let Some(definition) = self.definitions.get_opt(&self.kind.to_string()).await? else { return Ok(()) };
        let Some(stored) = definition.spec.versions.iter().find(|version| version.storage) else {
            return Ok(());
        };
        let status = definition.status.as_ref().and_then(|status| status.stored_versions.as_ref());
        let others = status.into_iter().flatten().filter(|version| **version != stored.name);
        let others: Vec<&str> = others.map(String::as_str).collect();
        let left = definition.annotations().get(MARK);
        if others.is_empty() {
            return if left.is_some() { self.mark(None).await.map(|_| ()) } else { Ok(()) };
        }
        let begin = Mark {
            to: stored.name.clone(),
            generation: definition.metadata.generation,
            after: String::new(),
            done: 0,
        };
        let mut mark = left
            .and_then(|text| serde_json::from_str(text).ok())
            .filter(|left: &Mark| left.to == begin.to && left.generation == begin.generation)
            .unwrap_or(begin);
        tracing::info!(
            kind = %self.kind, from = others.join(", "), to = mark.to, done = mark.done, "stored objects are migrated"
        );
        self.rewrite(&mut mark).await?;
        self.trim(&mark).await?;
        tracing::info!(kind = %self.kind, to = mark.to, done = mark.done, "all stored objects are migrated");
        Ok(())
    }

    /// Has every object written anew that comes after the mark.
    async fn rewrite(&self, mark: &mut Mark) -> Result<()> {
        let resource = self.resource(&mark.to);
        let all: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let mut page = ListParams::default().limit(PAGE);
        let mut told = Instant::now();
        let mut failed: Vec<Failed> = Vec::new();
        loop {
            let list = match all.list_metadata(&page).await {
                // The list has become too old to go on with. In a new one, what is done comes first again.
                Err(kube::Error::Api(status)) if status.code == 410 => {
                    page.continue_token = None;
                    continue;
                }
                list => list?,
            };
            let keys: Vec<String> = list
                .items
                .iter()
                .map(|object| position(&Key::of(object)))
                .filter(|key| *key > mark.after)
                .collect();
            let writes: Vec<_> = keys.iter().map(|key| self.touch(&resource, key)).collect();
            let outcomes: Vec<_> = stream::iter(writes).buffer_unordered(TOGETHER).collect().await;
            let failures: Vec<Failed> = outcomes.into_iter().filter_map(Result::err).collect();
            mark.done += keys.len() - failures.len();
            // If none of them can be written, it is not for what is in them.
            let is_hopeless = !keys.is_empty() && failures.len() == keys.len();
            failed.extend(failures);
            if is_hopeless {
                break;
            }
            if let (true, Some(last)) = (failed.is_empty(), keys.last()) {
                mark.after.clone_from(last);
                self.mark(Some(mark)).await?;
            }
            if told.elapsed() >= TOLD {
                tracing::info!(kind = %self.kind, done = mark.done, after = mark.after, "stored objects are migrated");
                told = Instant::now();
            }
            page.continue_token = list.metadata.continue_.filter(|token| !token.is_empty());
            if page.continue_token.is_none() {
                break;
            }
        }
        match failed.first() {
            None => Ok(()),
            Some(Failed { key, why }) => {
                Err(Error::new(format!("{} can't be written, {key} for example: {why}", failed.len())))
            }
        }
    }

    /// Has one object written anew. If it is gone or was just changed, that is as good.
    async fn touch(&self, resource: &ApiResource, key: &str) -> Result<(), Failed> {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let api: Api<DynamicObject> = match namespace {
            "" => Api::all_with(self.client.clone(), resource),
            namespace => Api::namespaced_with(self.client.clone(), namespace, resource),
        };
        match api.patch_metadata(name, &self.manager, &Patch::Merge(json!({}))).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            Err(why) => Err(Failed { key: key.to_owned(), why: why.into() }),
            Ok(_) => Ok(()),
        }
    }

    /// Takes all other versions out of the list, if the definition is the one it was when everything began.
    async fn trim(&self, mark: &Mark) -> Result<()> {
        let name = self.kind.to_string();
        let definition = self.definitions.get(&name).await?;
        mark.check(definition.metadata.generation)?;
        let trimmed = json!({
            "metadata": {"resourceVersion": definition.metadata.resource_version},
            "status": {"storedVersions": [mark.to]},
        });
        self.definitions.patch_status(&name, &self.manager, &Patch::Merge(trimmed)).await?;
        self.mark(None).await
    }

    /// Writes down how far it is, or that it is done.
    async fn mark(&self, mark: Option<&Mark>) -> Result<()> {
        let text = mark.map(serde_json::to_string).transpose()?;
        let change = Patch::Merge(json!({"metadata": {"annotations": {MARK: text}}}));
        let definition =
            self.definitions.patch_metadata(&self.kind.to_string(), &self.manager, &change).await?;
        mark.map_or(Ok(()), |mark| mark.check(definition.metadata.generation))
    }

    fn resource(&self, version: &str) -> ApiResource {
        let kind = KindName { version: version.to_owned(), ..self.kind.clone() };
        ApiResource {
            api_version: kind.api_version(),
            group: kind.group,
            version: kind.version,
            kind: kind.kind,
            plural: kind.plural,
        }
    }
}

impl Mark {
    fn check(&self, generation: Option<i64>) -> Result<()> {
        match generation == self.generation {
            true => Ok(()),
            false => Err(Error::new("the definition has changed meanwhile")),
        }
    }
}

/// An object that was not written.
struct Failed {
    key: String,
    why: Error,
}

/// Where an object is in a list: the server sorts by this text.
fn position(key: &Key) -> String {
    format!("{}/{}", key.namespace().unwrap_or_default(), key.name())
}
