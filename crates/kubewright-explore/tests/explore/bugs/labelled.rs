//! Claims that are found by a label, which says for whom they are: by name, or by UID. Nothing that the operator watches
//! happens after they were made: it is only wrong when it is restarted at rest.

use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams, Preconditions},
};
use kubewright::{Verb, prelude::*};
use kubewright_explore::Oracle;

use super::{Done, gadgets::is_present, is_found};
use crate::gadget::{Gadget, SAMPLE};

const OF: &str = "example.com/of";

struct Claims(Done);

impl Claims {
    fn label(&self, gadget: &Gadget) -> String {
        if self.0 == Done::Right { gadget.uid().unwrap_or_default() } else { gadget.name_any() }
    }

    fn claim(&self, gadget: &Gadget) -> PersistentVolumeClaim {
        let label = self.label(gadget);
        let requests = Some([("storage".to_owned(), Quantity("1Gi".to_owned()))].into());
        PersistentVolumeClaim {
            metadata: ObjectMeta {
                name: Some(format!("data-{label}")),
                labels: Some([(OF.to_owned(), label)].into()),
                ..ObjectMeta::default()
            },
            spec: Some(PersistentVolumeClaimSpec {
                access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
                resources: Some(VolumeResourceRequirements {
                    requests,
                    ..VolumeResourceRequirements::default()
                }),
                ..PersistentVolumeClaimSpec::default()
            }),
            ..PersistentVolumeClaim::default()
        }
    }
}

impl Reconciler<Gadget> for Claims {
    fn remembers(&self) -> bool {
        false
    }

    async fn reconcile(&self, gadget: &Gadget, cx: &Context<Gadget>) -> Result<Next> {
        if !is_present(gadget, cx).await? {
            return Ok(Next::after(Duration::from_secs(2)));
        }
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(cx.client().clone(), cx.namespace());
        let claim = self.claim(gadget);
        if claims.get_opt(&claim.name_any()).await?.is_none() {
            claims.create(&PostParams::default(), &claim).await?;
        }
        Ok(Next::after(Duration::from_secs(60)))
    }
}

impl Finalizer<Gadget> for Claims {
    async fn finalize(&self, gadget: &Gadget, cx: Finalizing<Gadget>) -> Result<Finalized> {
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(cx.client().clone(), cx.namespace());
        let own = ListParams::default().labels(&format!("{OF}={}", self.label(gadget)));
        for claim in claims.list(&own).await? {
            let exactly = Preconditions { uid: claim.uid(), resource_version: None };
            match claims.delete(&claim.name_any(), &DeleteParams::default().preconditions(exactly)).await {
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                deleted => drop(deleted?),
            }
        }
        Ok(cx.done())
    }
}

#[test]
fn the_claims_of_who_came_later_are_deleted_after_a_restart_at_rest() {
    let operator = |done| {
        let verbs = [Verb::Get, Verb::Create, Verb::List, Verb::Delete];
        let controller = Controller::of::<Gadget>()
            .needs::<Gadget>(&[Verb::Get])
            .needs::<PersistentVolumeClaim>(&verbs)
            .finalizer("example.com/claims", Claims(done));
        Operator::new("gadget-operator").controller(controller.run(Claims(done)))
    };
    is_found(operator, SAMPLE, &[Oracle::Destruction]);
}
