//! What asking an operator costs: a call of a webhook inside the process and over a socket, and the move of stored objects
//! to another version.

use std::{net::SocketAddr, time::Duration};

use k8s_openapi::{
    api::core::v1::ConfigMap,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use kubewright::{Options, Part, Reach, ManifestOptions, install_crds, install_crds_at, prelude::*};
use kubewright_cluster::Cluster;
use serde_json::json;
use tokio::{
    runtime::Builder,
    time::{Instant, sleep, timeout},
};

use crate::{Result, measure::Measure, progress};

const CALLS: usize = 2_000;
const OBJECTS: usize = 20_000;
const PATIENCE: Duration = Duration::from_secs(300);
const OPERATOR: &str = "measured-operator";

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
    Ok(vec![
        Measure::less_is_better("webhooks: a call inside the process", "µs").reaching(150.0).with(within, Vec::new()),
        Measure::less_is_better("webhooks: a call over TLS", "µs").reaching(600.0).with(over_tls, Vec::new()),
        Measure::less_is_better(format!("webhooks: {OBJECTS} stored objects are migrated"), "s")
            .reaching(30.0)
            .with(moved, Vec::new()),
    ])
}

/// What a validating webhook adds to an update, in the median.
fn calls(address: Option<SocketAddr>) -> Result<f64> {
    Builder::new_current_thread().enable_all().build()?.block_on(async {
        let cluster = Cluster::start().await?;
        let api: Api<ConfigMap> = Api::default_namespaced(cluster.client());
        api.create(&PostParams::default(), &map()).await?;
        let without = updates(&api).await?;
        let operator =
            Operator::new(OPERATOR).validates::<ConfigMap>(|_: &ConfigMap, _: &Admission<ConfigMap>| ());
        let options = Options { webhook_address: address, ..Options::default() };
        let namespace = format!("{OPERATOR}-system");
        let client = Client::new(cluster.client(), namespace.clone());
        create_namespace(&cluster.client(), &namespace).await?;
        let manifests = ManifestOptions { only: [Part::Webhooks].into(), ..ManifestOptions::default() };
        let manifests = operator.manifests(&manifests);
        let mut running = operator.start(client, options);
        match running.addresses().await.webhooks {
            Some(address) => cluster.lead_service(&namespace, &format!("{OPERATOR}-webhook"), address),
            None => cluster.lead_service(&namespace, &format!("{OPERATOR}-webhook"), running.webhooks()),
        }
        running.working().await?;
        for manifest in manifests {
            apply(&cluster.client(), manifest).await?;
        }
        let began = Instant::now();
        while api.patch("map", &PatchParams::default(), &change(0)).await.is_err() {
            if began.elapsed() > PATIENCE {
                return Err("the webhook is never trusted".into());
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok((updates(&api).await? - without) * 1e6)
    })
}
