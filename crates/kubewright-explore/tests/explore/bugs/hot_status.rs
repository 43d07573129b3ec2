//! The status is written anew with every reconcile, which brings about the next one.

use kubewright::{prelude::*, workload::child_meta};
use kubewright_explore::Oracle;
use serde_json::json;

use super::{Done, is_found};

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "bugs.example.com", version = "v1", kind = "Topic", namespaced, status = "TopicStatus")]
pub(crate) struct TopicSpec {
    pub partitions: i64,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default)]
#[serde(default)]
pub(crate) struct TopicStatus {
    pub conditions: Vec<Condition>,
}

struct Reports(Done);

impl Reconciler<Topic> for Reports {
    fn remembers(&self) -> bool {
        false
    }

    async fn reconcile(&self, topic: &Topic, cx: &Context<Topic>) -> Result<Next> {
        cx.apply(ConfigMap { metadata: child_meta(topic, ""), ..ConfigMap::default() }).await?;
        let ready = condition("Ready", true, "Made", "it is there");
        if self.0 == Done::Right {
            cx.status(TopicStatus { conditions: vec![ready] }).await?;
            return Ok(Next::on_change());
        }
        let ready = Condition { last_transition_time: cx.clock().time(), ..ready };
        cx.patch_status(&cx.object(), json!({"conditions": [ready]})).await?;
        Ok(Next::after(Duration::from_secs(5)))
    }
}

fn operator(done: Done) -> Operator {
    let controller = Controller::of::<Topic>().owns::<ConfigMap>();
    Operator::new("topic-operator").controller(controller.run(Reports(done)))
}

#[test]
fn the_status_never_rests() {
    let sample =
        "{apiVersion: bugs.example.com/v1, kind: Topic, metadata: {name: sample}, spec: {partitions: 1}}";
    is_found(operator, sample, &[Oracle::Converges]);
}
