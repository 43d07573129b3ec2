//! Leads the API server to an operator outside of its cluster for as long as that runs: webhook configurations, and
//! definitions whose versions are converted, name its address meanwhile. What they had before is noted on them, so that
//! the next one puts it back if this one can't.

use k8s_openapi::{
    api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, PostParams, Preconditions},
};
use serde_json::{Value, json};

use super::Targets;
use crate::error::{Error, Result};

/// The annotation of webhook configurations and definitions that lead to an operator outside of the cluster while it runs:
/// what they had before, as JSON, or `null` if they were not there at all.
pub const BORROWED: &str = "kubewright.dev/found";
/// How often somebody else may be faster.
const ATTEMPTS: u32 = 10;

/// Whether a `clientConfig` leads to an address.
pub(super) fn leads_to(client_config: &Value, url: &str) -> bool {
    let found = client_config["url"].as_str().and_then(|found| found.strip_prefix(url.trim_end_matches('/')));
    found.is_some_and(|path| path.starts_with('/'))
}

/// Everything that leads to an operator at an address.
pub(crate) struct Lead {
    url: String,
    operator: String,
    signs: Vec<Sign>,
}

/// One object that leads there.
struct Sign {
    api: Api<DynamicObject>,
    /// As the manifests have it for that address.
    wanted: DynamicObject,
    is_definition: bool,
}

impl Lead {
    /// Takes over what `targets` names, as the documents have it.
    pub(crate) async fn take(
        client: &Client,
        operator: &str,
        url: &str,
        targets: &Targets,
        documents: Vec<Value>,
    ) -> Result<Self> {
        let mut lead = Self { url: url.to_owned(), operator: operator.to_owned(), signs: Vec::new() };
        for document in documents {
            let wanted: DynamicObject = serde_json::from_value(document)?;
            let resource = match wanted.types.as_ref().map_or("", |types| &types.kind) {
                "MutatingWebhookConfiguration" => ApiResource::erase::<MutatingWebhookConfiguration>(&()),
                "ValidatingWebhookConfiguration" => ApiResource::erase::<ValidatingWebhookConfiguration>(&()),
                "CustomResourceDefinition" if targets.definitions.contains(&wanted.name_any()) => {
                    ApiResource::erase::<CustomResourceDefinition>(&())
                }
                _ => continue,
            };
            let is_definition = resource.kind == "CustomResourceDefinition";
            let sign = Sign { api: Api::all_with(client.clone(), &resource), wanted, is_definition };
            let turned = lead.again_if_overtaken(|| sign.turn(&lead)).await;
            let called = sign.called();
            lead.signs.push(sign);
            if let Err(why) = turned {
                lead.put_back().await;
                return Err(Error::new(format!("{called} can't be led to {url}: {why}")));
            }
        }
        Ok(lead)
    }

    /// Lets everything be as it was found.
    pub(crate) async fn put_back(self) {
        for sign in &self.signs {
            if let Err(error) = self.again_if_overtaken(|| sign.put_back(&self)).await {
                let what = sign.called();
                tracing::error!(%error, what, url = self.url, "it still leads here: remove it, or run this again");
            }
        }
    }

    async fn again_if_overtaken<F: Future<Output = kube::Result<()>>>(
        &self,
        write: impl Fn() -> F,
    ) -> kube::Result<()> {
        let mut attempts = 1..ATTEMPTS;
        loop {
            match write().await {
                Err(kube::Error::Api(status)) if status.code == 409 && attempts.next().is_some() => {}
                outcome => return outcome,
            }
        }
    }

    fn parameters(&self) -> PostParams {
        PostParams { dry_run: false, field_manager: Some(self.operator.clone()) }
    }
}

impl Sign {
    fn called(&self) -> String {
        let kind = self.wanted.types.as_ref().map_or("", |types| &types.kind);
        format!("{kind} {}", self.wanted.name_any())
    }

    /// The part of an object that says where webhooks are.
    fn way<'a>(&self, object: &'a mut DynamicObject) -> &'a mut Value {
        match self.is_definition {
            true => &mut object.data["spec"]["conversion"],
            false => &mut object.data["webhooks"],
        }
    }

    async fn turn(&self, lead: &Lead) -> kube::Result<()> {
        let name = self.wanted.name_any();
        let mut wanted = self.wanted.clone();
        let Some(mut present) = self.api.get_opt(&name).await? else {
            // Without a definition there is nothing to convert.
            if !self.is_definition {
                wanted.annotations_mut().insert(BORROWED.to_owned(), Value::Null.to_string());
                self.api.create(&lead.parameters(), &wanted).await?;
            }
            return Ok(());
        };
        let found = match self.way(&mut present).take() {
            Value::Null => json!([]),
            found => found,
        };
        *self.way(&mut present) = self.way(&mut wanted).take();
        present.annotations_mut().entry(BORROWED.to_owned()).or_insert_with(|| found.to_string());
        self.api.replace(&name, &lead.parameters(), &present).await.map(|_| ())
    }

    async fn put_back(&self, lead: &Lead) -> kube::Result<()> {
        let name = self.wanted.name_any();
        let Some(mut present) = self.api.get_opt(&name).await? else { return Ok(()) };
        let Some(found) = present.annotations_mut().remove(BORROWED) else { return Ok(()) };
        let way = self.way(&mut present);
        let mut ways = way.as_array().into_iter().flatten().chain(way.get("webhook"));
        // Whoever leads it elsewhere meanwhile means it.
        if ways.any(|one| leads_to(&one["clientConfig"], &lead.url)) {
            match serde_json::from_str(&found).unwrap_or_default() {
                Value::Null => return self.delete(&present).await,
                found => *way = found,
            }
        }
        self.api.replace(&name, &lead.parameters(), &present).await.map(|_| ())
    }

    async fn delete(&self, present: &DynamicObject) -> kube::Result<()> {
        let preconditions =
            Preconditions { uid: present.uid(), resource_version: present.resource_version() };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match self.api.delete(&present.name_any(), &parameters).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            deleted => deleted.map(|_| ()),
        }
    }
}
