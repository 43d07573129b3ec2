//! A kind to test with, and what its operator says of it.

use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use kubewright::prelude::*;
use kubewright_cluster::TestCluster;
use serde_json::{Value, json};

/// Something that is filled.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "test.kubewright.dev", version = "v1", kind = "Cask", namespaced)]
pub(crate) struct CaskSpec {
    pub(crate) wine: Option<String>,
    pub(crate) litres: Option<i32>,
}

pub(crate) fn fill(cask: &mut Cask, _: &Admission<Cask>) {
    cask.spec.litres.get_or_insert(225);
}

pub(crate) fn check(cask: &Cask, admission: &Admission<Cask>) -> Verdict {
    let litres = |cask: &Cask| cask.spec.litres.unwrap_or(0);
    let mut verdict = Verdict::allowed();
    if litres(cask) > 500 {
        verdict = verdict.warn("a cask this large is hard to move");
    }
    if cask.spec.wine.is_none() {
        verdict = verdict.required("spec.wine", "an empty cask goes bad");
    }
    match &admission.old {
        Some(old) if litres(cask) < litres(old) => {
            verdict.invalid("spec.litres", litres(cask), "a cask does not shrink")
        }
        _ => verdict,
    }
}

pub(crate) fn operator() -> Operator {
    Operator::new("cask-operator").defines::<Cask>().defaults::<Cask>(fill).validates::<Cask>(check)
}

pub(crate) fn cask(name: &str, spec: Value) -> Cask {
    let metadata = json!({"name": name});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

/// The casks of a test's namespace.
pub(crate) fn casks(cluster: &TestCluster) -> Api<Cask> {
    Api::namespaced(cluster.client(), cluster.namespace())
}

/// Why the cluster refuses to create an object.
pub(crate) async fn refusal<K>(api: &Api<K>, object: &K) -> kube::core::Status
where
    K: Serialize + serde::de::DeserializeOwned + Clone + std::fmt::Debug,
{
    match api.create(&PostParams::default(), object).await {
        Err(kube::Error::Api(status)) => *status,
        other => panic!("it was not refused: {other:?}"),
    }
}

/// Why the cluster refuses a change of a cask.
pub(crate) async fn refused_change(cluster: &TestCluster, name: &str, change: Value) -> kube::core::Status {
    let change = Patch::Merge(change);
    match casks(cluster).patch(name, &PatchParams::default(), &change).await {
        Err(kube::Error::Api(status)) => *status,
        other => panic!("it was not refused: {other:?}"),
    }
}

/// Why the cluster refuses to delete a cask.
pub(crate) async fn refused_deletion(cluster: &TestCluster, name: &str) -> kube::core::Status {
    match casks(cluster).delete(name, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) => *status,
        other => panic!("it was not refused: {other:?}"),
    }
}
