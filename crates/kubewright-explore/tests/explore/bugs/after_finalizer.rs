//! Once the finalizer is removed, the reconcile goes on as if nothing was.

use kube::{
    Api,
    api::{Patch, PatchParams},
};
use kubewright::prelude::*;
use kubewright_explore::Oracle;
use serde_json::json;

use super::{Done, is_found};

const FINALIZER: &str = "bugs.example.com/zoo";

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "bugs.example.com", version = "v1", kind = "Zoo", namespaced)]
pub(crate) struct ZooSpec {
    pub animal: String,
}

struct Keeps(Done);

impl Reconciler<Zoo> for Keeps {
    async fn reconcile(&self, zoo: &Zoo, cx: &Context<Zoo>) -> Result<Next> {
        let maps: Api<ConfigMap> = Api::namespaced(cx.client().clone(), cx.namespace());
        let name = format!("{}-config", zoo.name_any());
        if zoo.metadata.deletion_timestamp.is_some() {
            if let Some(map) = cx.get::<ConfigMap>(&name)? {
                cx.delete(&map).await?;
            }
            if zoo.finalizers().iter().any(|one| one == FINALIZER) {
                cx.patch(&cx.object(), json!({"metadata": {"finalizers": []}})).await?;
            }
            if self.0 == Done::Right {
                return Ok(Next::on_change());
            }
        } else if zoo.finalizers().is_empty() {
            cx.patch(&cx.object(), json!({"metadata": {"finalizers": [FINALIZER]}})).await?;
        }
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"animal": zoo.spec.animal},
        });
        maps.patch(&name, &PatchParams::apply("zoo").force(), &Patch::Apply(map)).await?;
        Ok(Next::on_change())
    }
}

fn operator(done: Done) -> Operator {
    use kubewright::Verb;
    let controller = Controller::of::<Zoo>().reconciles_deleted().reads::<ConfigMap>();
    let controller = controller.needs::<ConfigMap>(&[Verb::Create, Verb::Patch, Verb::Delete]);
    Operator::new("zoo-operator").controller(controller.needs::<Zoo>(&[Verb::Patch]).run(Keeps(done)))
}

#[test]
fn something_is_made_after_the_finalizer_is_gone() {
    let sample =
        "{apiVersion: bugs.example.com/v1, kind: Zoo, metadata: {name: sample}, spec: {animal: ape}}";
    is_found(operator, sample, &[Oracle::Leaks]);
}
