//! Keeps what the API server must know of an operator's webhooks: certificates in a Secret, renewed in time, and the
//! authorities behind them in every configuration that names the operator. Every replica does so: whoever is first writes,
//! the others see it and follow. Leading is not needed, and must not be: before the first certificate nothing can be
//! converted, and before everything was seen nobody leads.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    ByteString,
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        core::v1::Secret,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::Client;
use serde_json::{Value, json};
use tokio::{
    sync::{Notify, watch},
    time::sleep,
};

use super::{
    certificates::{Keyring, Purpose},
    lead::{BORROWED, leads_to},
};
use crate::{
    cache::{Cache, Subscription, View, Watch},
    clock::Clock,
    context::request,
    error::{Error, Result},
    kind::{Key, Kind},
    reach,
    serve::Tls,
};

/// How often is looked whether something is due.
const LOOK: Duration = Duration::from_secs(60 * 60);
/// How long is waited after a failure.
const PAUSE: Duration = Duration::from_secs(5);

/// What names the operator's webhooks, and so has to carry their authorities.
#[derive(Debug, Clone, Default)]
pub(crate) struct Targets {
    pub(crate) mutating: Option<String>,
    pub(crate) validating: Option<String>,
    pub(crate) definitions: Vec<String>,
}

impl Targets {
    pub(crate) fn is_empty(&self) -> bool {
        self.mutating.is_none() && self.validating.is_none() && self.definitions.is_empty()
    }
}

/// Looks after certificates, and after those who must trust them.
pub(crate) struct Keeper {
    pub(crate) operator: Arc<str>,
    /// The one of the operator's pods.
    pub(crate) namespace: String,
    /// Where it is found, if it is outside of the cluster. Certificates are for this address then, and kept nowhere.
    pub(crate) url: Option<String>,
    /// How long certificates last.
    pub(crate) life: Duration,
    pub(crate) targets: Targets,
    pub(crate) tls: Arc<Tls>,
    /// Told once everybody trusts what is shown.
    pub(crate) trusted: watch::Sender<bool>,
    pub(crate) client: Client,
    pub(crate) cache: Cache,
    pub(crate) clock: Clock,
}

impl Keeper {
    /// Never ends: what fails is told, and tried again.
    pub(crate) async fn run(self) {
        let changed = Arc::new(Notify::new());
        let mut kept = self.kept(&changed);
        let mutating = self.trusting::<MutatingWebhookConfiguration>(self.targets.mutating.iter(), &changed);
        let validating =
            self.trusting::<ValidatingWebhookConfiguration>(self.targets.validating.iter(), &changed);
        let definitions =
            self.trusting::<CustomResourceDefinition>(self.targets.definitions.iter(), &changed);
        let mut shown = None;
        loop {
            let looked = async {
                // What can't be used is made anew.
                let stored = self.stored(&kept).await?.filter(|ring| self.show(ring, &mut shown));
                let mut is_trusted = true;
                if let Some(ring) = &stored {
                    for one in &mutating {
                        is_trusted &= self.trust(one, ring).await?;
                    }
                    for one in &validating {
                        is_trusted &= self.trust(one, ring).await?;
                    }
                    for one in &definitions {
                        is_trusted &= self.trust(one, ring).await?;
                    }
                }
                if let Some(ring) = self.renewed(stored.as_ref(), is_trusted)? {
                    self.keep(&mut kept, ring).await?;
                    // It is shown and made known next.
                    changed.notify_one();
                }
                if stored.is_some() && is_trusted {
                    self.trusted.send_replace(true);
                }
                Ok::<_, Error>(())
            };
            let pause = match looked.await {
                Ok(()) => LOOK,
                Err(error) => {
                    tracing::warn!(%error, "webhooks may not be trusted: tried again soon");
                    PAUSE
                }
            };
            tokio::select! {
                biased;
                () = changed.notified() => {}
                () = sleep(pause) => {}
            }
        }
    }

    fn trusting<'a, C: Trusting>(
        &self,
        names: impl Iterator<Item = &'a String>,
        changed: &Arc<Notify>,
    ) -> Vec<Target<C>> {
        names
            .map(|name| {
                let watch = Watch::<C>::new().fields(format!("metadata.name={name}"));
                let (view, subscription) = subscribe(&self.cache, &watch, changed);
                Target { name: name.clone(), view, _subscription: subscription }
            })
            .collect()
    }

    /// Uses a certificate from now on, if it can be used.
    fn show(&self, ring: &Keyring, shown: &mut Option<Keyring>) -> bool {
        let is_shown = |shown: &Keyring| shown.certificate == ring.certificate && shown.key == ring.key;
        if shown.as_ref().is_some_and(is_shown) {
            return true;
        }
        match self.tls.load(ring.certificate.as_bytes(), ring.key.as_bytes()) {
            Ok(()) => *shown = Some(ring.clone()),
            Err(error) => {
                tracing::warn!(error, "the certificate for webhooks can't be used");
                return false;
            }
        }
        true
    }

    /// Tells a configuration which authorities to trust. Answers whether it had been told before.
    async fn trust<C: Trusting>(&self, target: &Target<C>, ring: &Keyring) -> Result<bool> {
        target.view.ready().await?;
        // Where there is none, nobody calls.
        let Some(present) = target.view.get(&Key::cluster(&target.name)) else { return Ok(true) };
        // One that runs elsewhere has borrowed it.
        if self.url.is_none() && present.meta().annotations.iter().flatten().any(|(name, _)| name == BORROWED)
        {
            return Ok(true);
        }
        let bundle = json!(ByteString(ring.authorities.as_bytes().to_vec()));
        let is_own = |config: &Value| self.is_own(config);
        let operations = C::trust(&json!(*present), &bundle, &is_own);
        if operations.is_empty() {
            return Ok(true);
        }
        let key = Key::cluster(&target.name);
        let told = request::steps::<C>(&self.client, &key, None, &json!(operations), &self.operator).await?;
        self.cache.wrote(&told);
        Ok(false)
    }

    /// Whether this is the way to this operator: by its Service, or to an address. Another one that is installed under the
    /// same name elsewhere looks after itself.
    fn is_own(&self, client_config: &Value) -> bool {
        match (&self.url, client_config.get("service")) {
            (Some(url), _) => leads_to(client_config, url),
            (None, Some(service)) => {
                service["namespace"] == self.namespace && service["name"] == service_name(&self.operator)
            }
            (None, None) => true,
        }
    }

    fn kept(&self, changed: &Arc<Notify>) -> Kept {
        if self.url.is_some() {
            return Kept::Here(None);
        }
        let watch = Watch::<Secret>::new()
            .namespaces([self.namespace.clone()])
            .fields(format!("metadata.name={}", secret_name(&self.operator)));
        let (view, subscription) = subscribe(&self.cache, &watch, changed);
        Kept::Secret { view, _subscription: subscription }
    }

    async fn stored(&self, kept: &Kept) -> Result<Option<Keyring>> {
        match kept {
            Kept::Here(ring) => Ok(ring.clone()),
            Kept::Secret { view, .. } => {
                view.ready().await?;
                let secret = view.get(&Key::new(&self.namespace, &secret_name(&self.operator)));
                Ok(secret.and_then(|secret| Keyring::read(secret.data.as_ref()?)))
            }
        }
    }

    fn renewed(&self, stored: Option<&Keyring>, is_trusted: bool) -> Result<Option<Keyring>> {
        let (purpose, now) = (self.purpose(), self.clock.now());
        match stored.map(|ring| ring.renewed(&purpose, now, is_trusted)) {
            Some(Ok(renewed)) => Ok(renewed),
            // An authority whose key can't be used signs nothing any more.
            Some(Err(_)) | None => Keyring::new(&purpose, now).map(Some),
        }
    }

    async fn keep(&self, kept: &mut Kept, ring: Keyring) -> Result<()> {
        if let Kept::Here(kept) = kept {
            *kept = Some(ring);
            return Ok(());
        }
        let name = secret_name(&self.operator);
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "labels": {"app.kubernetes.io/name": &*self.operator}},
            "data": ring.data(),
        });
        let key = Key::new(&self.namespace, &name);
        let told = request::apply::<Secret>(&self.client, &key, None, &secret, &self.operator, true).await?;
        // Seen at once, so that nothing is made twice.
        self.cache.wrote(&told);
        tracing::info!(secret = name, "there are new certificates for webhooks");
        Ok(())
    }

    /// In a cluster it is known by its Service, on one's own machine as `localhost`; outside of it, by its address.
    fn purpose(&self) -> Purpose {
        let names = match &self.url {
            Some(url) => vec![reach::host_of(url)],
            None => {
                let service = format!("{}.{}.svc", service_name(&self.operator), self.namespace);
                let in_full = format!("{service}.cluster.local");
                let local = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
                [service, in_full].into_iter().chain(local).collect()
            }
        };
        Purpose { operator: self.operator.clone(), names, life: self.life }
    }
}

/// Where certificates are kept.
enum Kept {
    /// In a Secret that all replicas share.
    Secret { view: View<Secret>, _subscription: Subscription },
    /// Here, until the process ends.
    Here(Option<Keyring>),
}

/// The Secret with the certificates of an operator.
pub(crate) fn secret_name(operator: &str) -> String {
    format!("{operator}-webhook-certificates")
}

/// The configurations that name the webhooks of an operator. Those that watch some namespaces can be in one cluster
/// several times, so theirs are named after these, too.
pub(crate) fn configuration_name(operator: &str, namespaces: &[String]) -> String {
    let names = std::iter::once(operator).chain(namespaces.iter().map(String::as_str));
    names.collect::<Vec<_>>().join("-")
}

/// The Service that leads to the webhooks of an operator.
pub(crate) fn service_name(operator: &str) -> String {
    format!("{operator}-webhook")
}

struct Target<C> {
    name: String,
    view: View<C>,
    _subscription: Subscription,
}

fn subscribe<C: Kind>(cache: &Cache, watch: &Watch<C>, changed: &Arc<Notify>) -> (View<C>, Subscription) {
    let (view, changed) = (cache.view(watch), changed.clone());
    let subscription = view.subscribe(Arc::new(move |_| changed.notify_one()));
    (view, subscription)
}

/// Whether a `clientConfig` leads to this operator.
type IsOwn<'a> = &'a dyn Fn(&Value) -> bool;

/// A kind whose objects say whom the API server trusts.
trait Trusting: Kind {
    /// What has to be changed so that everything of it that leads to this operator trusts a bundle; nothing if it does.
    fn trust(object: &Value, bundle: &Value, is_own: IsOwn<'_>) -> Vec<Value>;
}

impl Trusting for MutatingWebhookConfiguration {
    fn trust(object: &Value, bundle: &Value, is_own: IsOwn<'_>) -> Vec<Value> {
        trust_webhooks(object, bundle, is_own)
    }
}

impl Trusting for ValidatingWebhookConfiguration {
    fn trust(object: &Value, bundle: &Value, is_own: IsOwn<'_>) -> Vec<Value> {
        trust_webhooks(object, bundle, is_own)
    }
}

impl Trusting for CustomResourceDefinition {
    fn trust(object: &Value, bundle: &Value, is_own: IsOwn<'_>) -> Vec<Value> {
        const PATH: &str = "/spec/conversion/webhook/clientConfig";
        match object.pointer(PATH) {
            Some(config) if config["caBundle"] != *bundle && is_own(config) => {
                vec![json!({"op": "add", "path": format!("{PATH}/caBundle"), "value": bundle})]
            }
            _ => Vec::new(),
        }
    }
}

/// Entries are found by their place; should they have moved meanwhile, nothing is changed.
fn trust_webhooks(object: &Value, bundle: &Value, is_own: IsOwn<'_>) -> Vec<Value> {
    let webhooks = object["webhooks"].as_array().into_iter().flatten().enumerate();
    let trusting = |(at, webhook): (usize, &Value)| {
        let path = format!("/webhooks/{at}");
        [
            json!({"op": "test", "path": format!("{path}/name"), "value": webhook["name"]}),
            json!({"op": "add", "path": format!("{path}/clientConfig/caBundle"), "value": bundle}),
        ]
    };
    let is_asked = |webhook: &Value| {
        let config = &webhook["clientConfig"];
        config["caBundle"] != *bundle && is_own(config)
    };
    webhooks.filter(|(_, webhook)| is_asked(webhook)).flat_map(trusting).collect()
}
