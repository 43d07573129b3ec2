//! What is too much by an older spec is deleted. Meanwhile it is wanted again.

use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaimSpec, VolumeResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};
use kubewright::{Verb, prelude::*};
use kubewright_explore::Oracle;

use super::{Done, is_found};

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "bugs.example.com", version = "v1", kind = "Store", namespaced)]
pub(crate) struct StoreSpec {
    pub replicas: usize,
}

struct Counts(Done);

impl Reconciler<Store> for Counts {
    fn remembers(&self) -> bool {
        false
    }

    async fn reconcile(&self, store: &Store, cx: &Context<Store>) -> Result<Next> {
        let mut claims = cx.children::<PersistentVolumeClaim>()?;
        claims.retain(|claim| claim.metadata.deletion_timestamp.is_none());
        claims.sort_by_key(|claim| (claim.metadata.creation_timestamp.clone(), claim.name_any()));
        for _ in claims.len()..store.spec.replicas {
            cx.create(claim(store)).await?;
        }
        if claims.len() <= store.spec.replicas {
            return Ok(Next::on_change());
        }
        if self.0 == Done::Right {
            let now = cx.live().get::<Store>(&store.name_any()).await?;
            let is_same = |now: &Store| {
                now.metadata.generation == store.metadata.generation && now.uid() == store.uid()
            };
            if !now.is_some_and(|now| is_same(&now)) {
                return Ok(Next::after(Duration::from_secs(1)));
            }
        }
        for surplus in &claims[store.spec.replicas..] {
            cx.delete(surplus).await?;
        }
        Ok(Next::on_change())
    }
}

fn claim(store: &Store) -> PersistentVolumeClaim {
    let requests = [("storage".to_owned(), Quantity("1Gi".to_owned()))].into();
    let resources = VolumeResourceRequirements { requests: Some(requests), ..Default::default() };
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", store.name_any())),
            namespace: store.namespace(),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            resources: Some(resources),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    }
}

fn operator(done: Done) -> Operator {
    let controller = Controller::of::<Store>().owns::<PersistentVolumeClaim>();
    Operator::new("store-operator").controller(controller.needs::<Store>(&[Verb::Get]).run(Counts(done)))
}

#[test]
fn what_is_too_much_by_an_older_spec_is_deleted() {
    let sample =
        "{apiVersion: bugs.example.com/v1, kind: Store, metadata: {name: sample}, spec: {replicas: 2}}";
    is_found(operator, sample, &[Oracle::Destruction]);
}
