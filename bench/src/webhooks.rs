//! What asking an operator costs: a call of a webhook inside the process and over a socket, and the move of stored objects
//! to another version.

use std::{net::SocketAddr, time::Duration};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::{
    api::{
        admissionregistration::v1::ValidatingWebhookConfiguration,
        core::v1::{ConfigMap, Namespace},
        rbac::v1::ClusterRoleBinding,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use kubewright::{ManifestOptions, Options, Part, Running, install_crds, prelude::*};
use kubewright_cluster::Cluster;
use serde_json::{Value, json};
use tokio::{
    runtime::Builder,
    time::{Instant, sleep},
};

use crate::{Result, measure::Measure, progress};

const CALLS: usize = 2_000;
const OBJECTS: usize = 20_000;
const PATIENCE: Duration = Duration::from_secs(300);
const OPERATOR: &str = "measured-operator";
const NAMESPACE: &str = "measured-operator-system";

pub(crate) fn run(rounds: u32) -> Result<Vec<Measure>> {
    let (mut within, mut over_tls, mut moved) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        progress(&format!("webhooks: calls, round {}", round + 1));
        within.push(calls(None)?);
        over_tls.push(calls(Some(SocketAddr::from(([127, 0, 0, 1], 0))))?);
    }
    for round in 0..rounds.min(3) {
        progress(&format!("webhooks: {OBJECTS} objects move to another version, round {}", round + 1));
        moved.push(migration()?);
    }
    let measure = |name: &str, unit, target, samples| {
        Measure::less_is_better(name, unit).reaching(target).with(samples, Vec::new())
    };
    Ok(vec![
        measure("webhooks: a call inside the process", "µs", 150.0, within),
        measure("webhooks: a call over TLS and a socket", "µs", 600.0, over_tls),
        measure(&format!("webhooks: {OBJECTS} stored objects are migrated"), "s", 30.0, moved),
    ])
}

/// What a validating webhook adds to an update: the difference of the medians with it and without it.
fn calls(address: Option<SocketAddr>) -> Result<f64> {
    Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(async {
        let cluster = Cluster::start().await?;
        let api: Api<ConfigMap> = Api::default_namespaced(cluster.client());
        let map = json!({"metadata": {"name": "map"}});
        api.create(&PostParams::default(), &serde_json::from_value(map)?).await?;
        let without = update(&api).await?;
        let check = |_: &ConfigMap, _: &Admission<ConfigMap>| ();
        let operator = Operator::new(OPERATOR).validates::<ConfigMap>(check);
        let running = start(&cluster, operator, address).await?;
        let with = update(&api).await?;
        let counted = running.metrics();
        if !counted.contains(&format!("code=\"200\"}} {CALLS}")) {
            return Err("the webhook was not called for each update".into());
        }
        running.stop().await.map_err(|why| why.to_string())?;
        Result::Ok((with - without) * 1e6)
    })
}

/// The median time of an update, in seconds.
async fn update(api: &Api<ConfigMap>) -> Result<f64> {
    let mut times = Vec::new();
    for number in 1..=CALLS {
        let begun = Instant::now();
        api.patch("map", &PatchParams::default(), &change(number)).await?;
        times.push(begun.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

fn change(number: usize) -> Patch<Value> {
    Patch::Merge(json!({"data": {"number": number.to_string()}}))
}

/// Installs an operator and runs it, with webhooks on a socket or within the process.
async fn start(cluster: &Cluster, operator: Operator, address: Option<SocketAddr>) -> Result<Running> {
    install_crds(&cluster.client(), &operator).await.map_err(|why| why.to_string())?;
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    namespaces.patch(NAMESPACE, &PatchParams::apply("bench"), &Patch::Apply(namespace)).await?;
    let binding = json!({
        "metadata": {"name": OPERATOR},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": OPERATOR, "namespace": NAMESPACE}],
    });
    let bindings: Api<ClusterRoleBinding> = Api::all(cluster.client());
    bindings.create(&PostParams::default(), &serde_json::from_value(binding)?).await?;
    let only = [Part::Webhooks].into();
    let manifests = operator.manifests(&ManifestOptions { only, ..ManifestOptions::default() });
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(cluster.client());
    for manifest in manifests.into_iter().filter(|one| one["kind"] == "ValidatingWebhookConfiguration") {
        configurations.create(&PostParams::default(), &serde_json::from_value(manifest)?).await?;
    }
    let service = operator.webhook_service();
    // Its namespace is that of the account.
    let client = cluster.server().client_of_service_account(NAMESPACE, OPERATOR);
    let options = Options { webhook_address: address, ..Options::default() };
    let mut running = operator.start(client, options);
    match running.addresses().await.webhooks {
        Some(address) => cluster.lead_service(NAMESPACE, &service, address),
        None => cluster.lead_service(NAMESPACE, &service, running.webhooks()),
    }
    running.working().await.map_err(|why| why.to_string())?;
    running.trusted().await;
    Ok(running)
}

mod v1 {
    use kubewright::prelude::*;

    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
    #[kube(group = "bench.kubewright.dev", version = "v1", kind = "Jar", namespaced)]
    pub(super) struct JarSpec {
        pub(super) size: i64,
    }
}

mod v2 {
    use kubewright::prelude::*;

    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
    #[kube(group = "bench.kubewright.dev", version = "v2", kind = "Jar", namespaced)]
    pub(super) struct JarSpec {
        pub(super) litres: i64,
    }
}

impl From<v1::Jar> for v2::Jar {
    fn from(jar: v1::Jar) -> Self {
        Self { metadata: jar.metadata, spec: v2::JarSpec { litres: jar.spec.size } }
    }
}

impl From<v2::Jar> for v1::Jar {
    fn from(jar: v2::Jar) -> Self {
        Self { metadata: jar.metadata, spec: v1::JarSpec { size: jar.spec.litres } }
    }
}

/// How long it takes until all objects of an old version are stored in the new one, over a socket and TLS.
fn migration() -> Result<f64> {
    Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let cluster = Cluster::start().await?;
        let before = Operator::new(OPERATOR).defines::<v1::Jar>();
        install_crds(&cluster.client(), &before).await.map_err(|why| why.to_string())?;
        let jars: Api<v1::Jar> = Api::default_namespaced(cluster.client());
        let parameters = PostParams::default();
        stream::iter(0..OBJECTS)
            .map(|number| {
                let jar = v1::Jar::new(&format!("jar-{number}"), v1::JarSpec { size: number as i64 });
                let (jars, parameters) = (&jars, &parameters);
                async move { jars.create(parameters, &jar).await }
            })
            .buffer_unordered(16)
            .try_collect::<Vec<_>>()
            .await?;
        let begun = Instant::now();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let operator = Operator::new(OPERATOR).converts::<v1::Jar, v2::Jar>();
        let running = start(&cluster, operator, Some(address)).await?;
        let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client());
        loop {
            let definition = definitions.get("jars.bench.kubewright.dev").await?;
            let stored = definition.status.and_then(|status| status.stored_versions).unwrap_or_default();
            if stored == ["v2"] {
                break;
            }
            if begun.elapsed() > PATIENCE {
                return Err("the objects are not migrated".into());
            }
            sleep(Duration::from_millis(100)).await;
        }
        let seconds = begun.elapsed().as_secs_f64();
        running.stop().await.map_err(|why| why.to_string())?;
        Result::Ok(seconds)
    })
}
