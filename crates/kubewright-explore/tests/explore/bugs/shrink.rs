//! What serves is made smaller by an older spec. Meanwhile it is to be as large as it is.

use k8s_openapi::api::core::v1::{Container, PodSpec};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use kubewright::{prelude::*, workload};
use kubewright_explore::Oracle;
use serde_json::json;

use super::{Done, is_found};

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "bugs.example.com", version = "v1", kind = "Fleet", namespaced)]
pub(crate) struct FleetSpec {
    pub replicas: i32,
}

struct Sails(Done);

impl Reconciler<Fleet> for Sails {
    fn remembers(&self) -> bool {
        false
    }

    async fn reconcile(&self, fleet: &Fleet, cx: &Context<Fleet>) -> Result<Next> {
        let container =
            Container { name: "ship".to_owned(), image: Some("ship:1".to_owned()), ..Container::default() };
        let pod = PodSpec { containers: vec![container], ..PodSpec::default() };
        let mut ships = workload::deployment(fleet, fleet.spec.replicas, pod);
        let there = cx.children::<Deployment>()?.pop();
        if let (Done::Wrong, Some(there)) = (self.0, there) {
            let api: Api<Deployment> = Api::namespaced(cx.client().clone(), cx.namespace());
            let size = Patch::Merge(json!({"spec": {"replicas": fleet.spec.replicas}}));
            api.patch(&there.name_any(), &PatchParams::default(), &size).await?;
            ships.spec.iter_mut().for_each(|spec| spec.replicas = None);
        }
        cx.apply(ships).await?;
        Ok(Next::on_change())
    }
}

fn operator(done: Done) -> Operator {
    Operator::new("fleet-operator")
        .controller(Controller::of::<Fleet>().owns::<Deployment>().run(Sails(done)))
}

#[test]
fn what_serves_is_made_smaller_by_an_older_spec() {
    let sample =
        "{apiVersion: bugs.example.com/v1, kind: Fleet, metadata: {name: sample}, spec: {replicas: 3}}";
    is_found(operator, sample, &[Oracle::Destruction]);
}
