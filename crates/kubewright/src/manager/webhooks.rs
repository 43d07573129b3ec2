//! What the manager runs for webhooks: the desk that answers, and the keeper of its certificates.

use std::sync::Arc;

use kube::Client;
use tokio::time::{Instant, timeout_at};

use super::Manager;
use crate::{
    cache::Cache,
    conversion::CONVERT,
    error::{Error, Result},
    lookup::Lookup,
    manifests::{ManifestOptions, Part},
    serve::Tls,
    webhook::{self, Hook, Keeper, Lead},
};

impl Manager {
    /// What webhooks are served with; nothing if there are none.
    pub(super) fn webhook_tls(&self) -> Result<Option<Arc<Tls>>> {
        if self.operator.webhook_targets(&self.options.namespaces).is_empty() {
            return Ok(None);
        }
        let metrics = self.metrics.clone();
        Ok(Some(Arc::new(match &self.options.webhook_certificate {
            Some(certificate) => Tls::new(certificate, metrics)?,
            None => Tls::awaiting(metrics),
        })))
    }

    /// Leads the API server here, if this is outside of its cluster.
    pub(super) async fn lead(&self, client: &Client) -> Result<Option<Lead>> {
        let Some(url) = &self.options.webhook_url else { return Ok(None) };
        let options = ManifestOptions {
            namespaces: self.options.namespaces.clone(),
            webhook_url: Some(url.clone()),
            only: [Part::Crds, Part::Webhooks].into(),
            ..ManifestOptions::default()
        };
        let targets = self.operator.webhook_targets(&options.namespaces);
        let documents = self.operator.manifests(&options);
        Lead::take(client, &self.operator.name, url, &targets, documents).await.map(Some)
    }

    /// Waits until the API server trusts what it was led to.
    pub(super) async fn trusted(&self, deadline: Instant) -> Result<()> {
        let mut trusted = self.trusted.subscribe();
        let is_trusted = timeout_at(deadline, trusted.wait_for(|is_trusted| *is_trusted)).await;
        let late = |_| {
            let within = self.options.sync_timeout;
            Error::new(format!("the API server was not told whom to trust with webhooks within {within:?}"))
        };
        is_trusted.map(|_| ()).map_err(late)
    }

    pub(super) fn keeper(&self, tls: Arc<Tls>, client: &Client, cache: &Cache) -> Keeper {
        Keeper {
            operator: self.operator.name.clone(),
            namespace: self.client.default_namespace().to_owned(),
            life: self.options.webhook_certificate_life,
            url: self.options.webhook_url.clone(),
            targets: self.operator.webhook_targets(&self.options.namespaces),
            tls,
            trusted: self.trusted.clone(),
            client: client.clone(),
            cache: cache.clone(),
            clock: self.options.clock,
        }
    }

    pub(super) fn webhook_desk(&self, tls: Arc<Tls>, cache: &Cache) -> webhook::Desk {
        let hook = |webhook: &webhook::Webhook| {
            let description = &webhook.description;
            self.metrics.add_webhook(&description.path());
            let hook = Hook::Admission {
                kind: description.kind.clone(),
                handle: webhook.handle.clone(),
                lookup: Lookup::new(description.views(cache)),
            };
            (description.path(), hook)
        };
        let conversions = &self.operator.conversions;
        let convert = (!conversions.hubs().is_empty()).then(|| {
            self.metrics.add_webhook(CONVERT);
            (CONVERT.to_owned(), Hook::Conversion(conversions.clone()))
        });
        let hooks = self.operator.webhooks.iter().map(hook).chain(convert).collect();
        webhook::Desk { tls, hooks, metrics: self.metrics.clone() }
    }
}
