//! A child is deleted by its name: an operator that sees an older resource being deleted deletes the child of the one
//! that has come after it.

use kube::{Api, api::DeleteParams};
use kubewright::{prelude::*, workload::child_meta};
use kubewright_explore::Oracle;

use super::{Done, is_found};

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "bugs.example.com", version = "v1", kind = "Queue", namespaced)]
pub(crate) struct QueueSpec {
    pub topic: String,
}

struct Runs(Done);

impl Reconciler<Queue> for Runs {
    fn remembers(&self) -> bool {
        false
    }

    async fn reconcile(&self, queue: &Queue, cx: &Context<Queue>) -> Result<Next> {
        let data = [("topic".to_owned(), queue.spec.topic.clone())].into();
        cx.apply(ConfigMap { metadata: child_meta(queue, ""), data: Some(data), ..ConfigMap::default() })
            .await?;
        Ok(Next::on_change())
    }
}

impl Finalizer<Queue> for Runs {
    async fn finalize(&self, queue: &Queue, cx: Finalizing<Queue>) -> Result<Finalized> {
        if self.0 == Done::Right {
            for child in cx.children::<ConfigMap>()? {
                cx.delete(&child).await?;
            }
            return Ok(cx.done());
        }
        let api: Api<ConfigMap> = Api::namespaced(cx.client().clone(), cx.namespace());
        match api.delete(&child_name(queue, ""), &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            deleted => drop(deleted?),
        }
        Ok(cx.done())
    }
}

fn operator(done: Done) -> Operator {
    let controller = Controller::of::<Queue>().owns::<ConfigMap>();
    Operator::new("queue-operator")
        .controller(controller.finalizer("bugs.example.com/queue", Runs(done)).run(Runs(done)))
}

#[test]
fn a_child_is_deleted_by_its_name() {
    let sample =
        "{apiVersion: bugs.example.com/v1, kind: Queue, metadata: {name: sample}, spec: {topic: news}}";
    is_found(operator, sample, &[Oracle::Destruction]);
}
