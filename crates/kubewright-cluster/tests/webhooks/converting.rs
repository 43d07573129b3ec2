//! Versions of a kind that the operator converts, as their clients see them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use kubewright::{Kind, entropy::Entropy, prelude::*};
use kubewright_cluster::TestCluster;
use serde_json::{Value, json};

mod v1 {
    use kubewright::prelude::*;

    /// As it was at first.
    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
    #[kube(group = "test.kubewright.dev", version = "v1", kind = "Jar", namespaced)]
    pub(crate) struct JarSpec {
        #[schemars(range(min = 0))]
        pub(crate) size: i64,
        /// No longer in the next version.
        pub(crate) note: Option<String>,
    }
}

mod v2 {
    use kubewright::prelude::*;

    /// As it is now.
    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
    #[kube(group = "test.kubewright.dev", version = "v2", kind = "Jar", namespaced)]
    pub(crate) struct JarSpec {
        pub(crate) litres: i64,
        pub(crate) lid: Option<String>,
    }
}

impl From<v1::Jar> for v2::Jar {
    fn from(jar: v1::Jar) -> Self {
        Self { metadata: jar.metadata, spec: v2::JarSpec { litres: jar.spec.size, lid: None } }
    }
}

impl From<v2::Jar> for v1::Jar {
    fn from(jar: v2::Jar) -> Self {
        Self { metadata: jar.metadata, spec: v1::JarSpec { size: jar.spec.litres, note: None } }
    }
}

pub(crate) fn operator() -> Operator {
    Operator::new("jar-operator").converts::<v1::Jar, v2::Jar>()
}

fn api<K: Kind + Resource<Scope = kube::core::NamespaceResourceScope>>(cluster: &TestCluster) -> Api<K> {
    Api::namespaced(cluster.client(), cluster.namespace())
}

/// Whether a jar that is created in the version that is not stored can be had in both.
pub(crate) async fn is_converted(cluster: &TestCluster) -> bool {
    let (old, new) = (api::<v1::Jar>(cluster), api::<v2::Jar>(cluster));
    let jar = v1::Jar::new("a", v1::JarSpec { size: 1, note: None });
    // It may be there from before.
    let _ = old.create(&PostParams::default(), &jar).await;
    let seen = (old.get("a").await, new.get("a").await);
    matches!(seen, (Ok(old), Ok(new)) if (old.spec.size, new.spec.litres) == (1, 1))
}

async fn change<K: Kind + Resource<Scope = kube::core::NamespaceResourceScope>>(
    cluster: &TestCluster,
    spec: Value,
) {
    let change = Patch::Merge(json!({"spec": spec}));
    api::<K>(cluster).patch("a", &PatchParams::default(), &change).await.unwrap();
}

async fn apply<K: Kind + Resource<Scope = kube::core::NamespaceResourceScope>>(
    cluster: &TestCluster,
    spec: Value,
) {
    let applied = json!({
        "apiVersion": K::api_version(&()), "kind": "Jar", "metadata": {"name": "a"}, "spec": spec,
    });
    let parameters = PatchParams::apply("somebody").force();
    api::<K>(cluster).patch("a", &parameters, &Patch::Apply(applied)).await.unwrap();
}

/// What a client of each version does to a jar, in some order: none of them loses what only the other one knows.
async fn live_together(seed: u64) {
    let cluster = TestCluster::start().await;
    let mut running = cluster.run(operator()).await;
    let (old, new) = (api::<v1::Jar>(&cluster), api::<v2::Jar>(&cluster));
    let spec = v1::JarSpec { size: 1, note: Some("first".to_owned()) };
    old.create(&PostParams::default(), &v1::Jar::new("a", spec)).await.unwrap();
    let (mut size, mut note, mut lid) = (1, Some("first".to_owned()), None);
    let entropy = Entropy::seeded(seed);
    for step in 0..40 {
        let choice = entropy.number() % 9;
        match choice {
            0 => {
                size = step;
                change::<v1::Jar>(&cluster, json!({"size": step})).await;
            }
            1 => {
                size = step;
                change::<v2::Jar>(&cluster, json!({"litres": step})).await;
            }
            2 => {
                lid = Some(format!("lid-{step}"));
                change::<v2::Jar>(&cluster, json!({"lid": lid})).await;
            }
            3 => {
                note = Some(format!("note-{step}"));
                change::<v1::Jar>(&cluster, json!({"note": note})).await;
            }
            4 => {
                size = step;
                let mut jar = old.get("a").await.unwrap();
                jar.spec.size = step;
                old.replace("a", &PostParams::default(), &jar).await.unwrap();
            }
            5 => {
                (size, lid) = (step, None);
                let mut jar = new.get("a").await.unwrap();
                jar.spec = v2::JarSpec { litres: step, lid: None };
                new.replace("a", &PostParams::default(), &jar).await.unwrap();
            }
            6 => {
                size = step;
                apply::<v1::Jar>(&cluster, json!({"size": step})).await;
            }
            7 => {
                size = step;
                apply::<v2::Jar>(&cluster, json!({"litres": step})).await;
            }
            _ => {
                drop(running);
                running = cluster.run(operator()).await;
            }
        }
        let seen = (old.get("a").await.unwrap().spec, new.get("a").await.unwrap().spec);
        let expected =
            (v1::JarSpec { size, note: note.clone() }, v2::JarSpec { litres: size, lid: lid.clone() });
        assert_eq!(seen, expected, "seed {seed}, step {step}, choice {choice}");
    }
}

#[tokio::test]
async fn clients_of_two_versions_lose_nothing() {
    for seed in 1..=4 {
        live_together(seed).await;
    }
}

#[tokio::test]
async fn every_version_lists_what_any_version_has_written() {
    let cluster = TestCluster::start().await;
    let _running = cluster.run(operator()).await;
    let (old, new) = (api::<v1::Jar>(&cluster), api::<v2::Jar>(&cluster));
    let spec = v1::JarSpec { size: 1, note: None };
    old.create(&PostParams::default(), &v1::Jar::new("a", spec)).await.unwrap();
    let spec = v2::JarSpec { litres: 2, lid: Some("cork".to_owned()) };
    new.create(&PostParams::default(), &v2::Jar::new("b", spec)).await.unwrap();
    // A real server may need a moment to read everything in a version that was asked for the first time.
    cluster
        .eventually("both can be listed", async |_| {
            old.list(&ListParams::default()).await.is_ok() && new.list(&ListParams::default()).await.is_ok()
        })
        .await;
    let sizes = old.list(&ListParams::default()).await.unwrap();
    assert_eq!(sizes.iter().map(|jar| jar.spec.size).collect::<Vec<_>>(), [1, 2]);
    let litres = new.list(&ListParams::default()).await.unwrap();
    assert_eq!(litres.iter().map(|jar| jar.spec.litres).collect::<Vec<_>>(), [1, 2]);
}

#[tokio::test]
async fn without_the_operator_other_versions_can_not_be_had() {
    let cluster = TestCluster::start().await;
    let running = cluster.run(operator()).await;
    let (old, new) = (api::<v1::Jar>(&cluster), api::<v2::Jar>(&cluster));
    let spec = v1::JarSpec { size: 1, note: None };
    old.create(&PostParams::default(), &v1::Jar::new("a", spec)).await.unwrap();
    drop(running);
    assert_eq!(new.get("a").await.unwrap().spec.litres, 1, "it is stored so");
    let why = old.get("a").await.unwrap_err().to_string();
    assert!(why.contains("conversion webhook for test.kubewright.dev/v2, Kind=Jar failed"), "{why}");
}

#[tokio::test]
async fn objects_of_an_older_version_move_to_the_new_one() {
    if TestCluster::is_left_out("the definition is changed under others") {
        return;
    }
    let cluster = TestCluster::start().await;
    let first = cluster.run(Operator::new("jar-operator").defines::<v1::Jar>()).await;
    let old = api::<v1::Jar>(&cluster);
    for number in 0..20 {
        let spec = v1::JarSpec { size: number, note: Some("kept".to_owned()) };
        old.create(&PostParams::default(), &v1::Jar::new(&format!("jar-{number}"), spec)).await.unwrap();
    }
    drop(first);
    let running = cluster.run(operator()).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client());
    cluster
        .eventually("all are stored in the new version", async |_| {
            let definition = definitions.get("jars.test.kubewright.dev").await.unwrap();
            definition.status.unwrap().stored_versions.unwrap() == ["v2"]
        })
        .await;
    assert_eq!(running.forbidden(), Vec::<String>::new());
    drop(running);
    // Nobody converts any more: this is what is stored.
    let stored = api::<v2::Jar>(&cluster).list(&ListParams::default()).await.unwrap();
    assert_eq!(stored.items.len(), 20);
    assert!(stored.iter().all(|jar| jar.annotations()["kubewright.dev/kept-from-v1"].contains("kept")));
    api::<v2::Jar>(&cluster).delete("jar-0", &DeleteParams::default()).await.unwrap();
}
