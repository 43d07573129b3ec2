//! Once the finalizer is removed, the reconcile goes on as if nothing was.

use kube::{
    Api,
    api::{Patch, PatchParams},
};
use kubewright::{prelude::*, workload::child_meta};
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
    fn remembers(&self) -> bool {
        false
    }

    async fn reconcile(&self, zoo: &Zoo, cx: &Context<Zoo>) -> Result<Next> {
        let is_going = zoo.metadata.deletion_timestamp.is_some();
        let is_marked = zoo.finalizers().iter().any(|one| one == FINALIZER);
        if is_going && is_marked {
            cx.patch(&cx.object(), json!({"metadata": {"finalizers": []}})).await?;
        } else if !is_going && !is_marked {
            cx.patch(&cx.object(), json!({"metadata": {"finalizers": [FINALIZER]}})).await?;
        }
        if self.0 == Done::Right {
            if !is_going {
                cx.apply(map(zoo)).await?;
            }
            return Ok(Next::on_change());
        }
        // It is tidied up by hand, and then made again.
        let name = map(zoo).name_any();
        if is_going && let Some(map) = cx.get::<ConfigMap>(&name)? {
            cx.delete(&map).await?;
        }
        let maps: Api<ConfigMap> = Api::namespaced(cx.client().clone(), cx.namespace());
        maps.patch(&name, &PatchParams::apply("zoo").force(), &Patch::Apply(map(zoo))).await?;
        Ok(Next::on_change())
    }
}

fn map(zoo: &Zoo) -> ConfigMap {
    let data = [("animal".to_owned(), zoo.spec.animal.clone())].into();
    ConfigMap { metadata: child_meta(zoo, "config"), data: Some(data), ..ConfigMap::default() }
}

fn operator(done: Done) -> Operator {
    use kubewright::Verb;
    let controller = Controller::of::<Zoo>().reconciles_deleted().owns::<ConfigMap>();
    let controller = controller.needs::<ConfigMap>(&[Verb::Create, Verb::Patch, Verb::Delete]);
    Operator::new("zoo-operator").controller(controller.needs::<Zoo>(&[Verb::Patch]).run(Keeps(done)))
}

#[test]
fn something_is_made_after_the_finalizer_is_gone() {
    let sample =
        "{apiVersion: bugs.example.com/v1, kind: Zoo, metadata: {name: sample}, spec: {animal: ape}}";
    is_found(operator, sample, &[Oracle::Leaks]);
}
