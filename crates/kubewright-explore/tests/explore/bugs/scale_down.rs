//! What is too much by an older spec is deleted, with the data in it.

use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaimSpec, VolumeResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};
use kubewright::{prelude::*, workload::child_meta};
use kubewright_explore::Oracle;

use super::{Done, is_found};

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "bugs.example.com", version = "v1", kind = "Keeper", namespaced)]
pub(crate) struct KeeperSpec {
    pub replicas: usize,
}

struct Keeps(Done);

impl Reconciler<Keeper> for Keeps {
    fn remembers(&self) -> bool {
        false
    }

    async fn reconcile(&self, keeper: &Keeper, cx: &Context<Keeper>) -> Result<Next> {
        for index in 0..keeper.spec.replicas {
            cx.apply(claim(keeper, index)).await?;
        }
        let wanted: Vec<String> =
            (0..keeper.spec.replicas).map(|index| child_name(keeper, &index.to_string())).collect();
        let surplus: Vec<_> = cx
            .children::<PersistentVolumeClaim>()?
            .into_iter()
            .filter(|claim| !wanted.contains(&claim.name_any()))
            .collect();
        if surplus.is_empty() {
            return Ok(Next::on_change());
        }
        if self.0 == Done::Right {
            // What destroys data is decided by what is so now.
            let now = cx.live().get::<Keeper>(&keeper.name_any()).await?;
            if now.is_none_or(|now| now.metadata.generation != keeper.metadata.generation) {
                return Ok(Next::after(Duration::from_secs(1)));
            }
        }
        for claim in surplus {
            cx.delete(&claim).await?;
        }
        Ok(Next::on_change())
    }
}

fn claim(keeper: &Keeper, index: usize) -> PersistentVolumeClaim {
    let requests = [("storage".to_owned(), Quantity("1Gi".to_owned()))].into();
    PersistentVolumeClaim {
        metadata: child_meta(keeper, &index.to_string()),
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            resources: Some(VolumeResourceRequirements {
                requests: Some(requests),
                ..VolumeResourceRequirements::default()
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    }
}

fn operator(done: Done) -> Operator {
    let controller = Controller::of::<Keeper>().owns::<PersistentVolumeClaim>();
    Operator::new("keeper-operator")
        .controller(controller.needs::<Keeper>(&[kubewright::Verb::Get]).run(Keeps(done)))
}

#[test]
fn data_is_deleted_by_an_older_spec() {
    let sample =
        "{apiVersion: bugs.example.com/v1, kind: Keeper, metadata: {name: sample}, spec: {replicas: 2}}";
    is_found(operator, sample, &[Oracle::Destruction]);
}
