//! Scenarios for a sample: as many changes as its definition allows, in a fixed order or by chance.

use std::collections::BTreeMap;

use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, Patch, PatchParams},
};
use kubewright_cluster::TestCluster;
use serde_json::Value;

use crate::{
    Error,
    edits::Edits,
    scenario::{Step, asking},
    subject::Subject,
};

/// How many changes are made by chance.
const LINKS: usize = 4;

/// The steps that the schema of the resource suggests, as far as its definition allows them.
pub(crate) fn draft(subject: &Subject) -> Result<Vec<Step>, Error> {
    let sample = subject.spec();
    rehearse(subject, async |definition| {
        if let Err(why) = definition.apply(&sample).await {
            return Err(Error::new(format!("the sample is refused: {why}")));
        }
        let edits = Edits::of(&sample, &subject.schema);
        Ok(edits.steps(&sample, async |spec| definition.check(spec).await.is_ok()).await)
    })
}

/// Steps by chance: one change after the other, each of what the one before has left, and then all of it undone.
pub(crate) fn chain(subject: &Subject, seed: u64) -> Result<Vec<Step>, Error> {
    let sample = subject.spec();
    let mut random = fastrand::Rng::with_seed(seed);
    rehearse(subject, async |definition| {
        definition.apply(&sample).await.map_err(|why| Error::new(format!("the sample is refused: {why}")))?;
        let (mut steps, mut spec) = (vec![Step::apply("create", sample.clone())], sample.clone());
        for link in 1..=LINKS {
            let mut candidates = Edits::of(&spec, &subject.schema).all(&spec);
            random.shuffle(&mut candidates);
            for candidate in candidates {
                if candidate != spec && definition.apply(&candidate).await.is_ok() {
                    steps.push(Step::apply(format!("change {link}"), candidate.clone()));
                    spec = candidate;
                    break;
                }
            }
        }
        steps.push(Step::apply("undo", sample.clone()));
        steps.push(Step::delete("delete"));
        Ok(steps)
    })
}

/// The definition of the resource, on a server without anything else.
struct Definition<'s> {
    subject: &'s Subject,
    api: Api<DynamicObject>,
}

impl Definition<'_> {
    /// Asks for a spec.
    async fn apply(&self, spec: &Value) -> Result<(), kube::Error> {
        self.patch(spec, &PatchParams::apply("user").force()).await
    }

    /// Whether a spec might be asked for now.
    async fn check(&self, spec: &Value) -> Result<(), kube::Error> {
        self.patch(spec, &PatchParams { dry_run: true, ..PatchParams::apply("user").force() }).await
    }

    async fn patch(&self, spec: &Value, parameters: &PatchParams) -> Result<(), kube::Error> {
        let object = asking(&self.subject.sample, spec, &BTreeMap::new());
        self.api.patch(&object.name_any(), parameters, &Patch::Apply(&object)).await.map(|_| ())
    }
}

fn rehearse<T>(
    subject: &Subject,
    work: impl AsyncFnOnce(Definition<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(|why| Error::new(why.to_string()))?;
    runtime.block_on(async {
        let cluster = TestCluster::with(|builder| builder.nodes(0)).await;
        let installed = kubewright::install_crds(&cluster.client(), &(subject.operator)()).await;
        installed.map_err(|why| Error::new(format!("the definitions can't be installed: {why}")))?;
        work(Definition { subject, api: subject.api(cluster.client()) }).await
    })
}
