//! A phase in the status: what is being done is known only from what was written last. After a crash before that, the
//! operator waits for a pod that is gone.

use kubewright::{prelude::*, workload::child_meta};
use kubewright_explore::Oracle;

use super::{Done, is_found};

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "bugs.example.com", version = "v1", kind = "Ring", namespaced, status = "RingStatus")]
pub(crate) struct RingSpec {
    pub nodes: usize,
}

#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RingStatus {
    /// How many nodes there are, as far as the operator has got.
    pub nodes: Option<usize>,
}

struct Nodes(Done);

impl Reconciler<Ring> for Nodes {
    fn remembers(&self) -> bool {
        false
    }

    async fn reconcile(&self, ring: &Ring, cx: &Context<Ring>) -> Result<Next> {
        let wanted = ring.spec.nodes;
        if self.0 == Done::Right {
            return self.by_what_is_there(ring, cx).await;
        }
        let reached = ring.status.as_ref().and_then(|status| status.nodes).unwrap_or(0);
        for node in wanted..reached {
            // The node hands its data over before it goes.
            let leaving = cx.get::<ConfigMap>(&child_name(ring, &node.to_string()))?;
            match leaving {
                Some(leaving) => cx.delete(&leaving).await?,
                None => return Err(Error::new(format!("node {node} can't hand over: it is gone"))),
            }
        }
        for node in 0..wanted {
            cx.apply(ConfigMap { metadata: child_meta(ring, &node.to_string()), ..ConfigMap::default() })
                .await?;
        }
        cx.status(RingStatus { nodes: Some(wanted) }).await?;
        Ok(Next::on_change())
    }
}

impl Nodes {
    async fn by_what_is_there(&self, ring: &Ring, cx: &Context<Ring>) -> Result<Next> {
        for node in 0..ring.spec.nodes {
            cx.apply(ConfigMap { metadata: child_meta(ring, &node.to_string()), ..ConfigMap::default() })
                .await?;
        }
        cx.status(RingStatus { nodes: Some(ring.spec.nodes) }).await?;
        Ok(Next::on_change())
    }
}

fn operator(done: Done) -> Operator {
    let controller = Controller::of::<Ring>().owns::<ConfigMap>();
    let controller = if done == Done::Right { controller.prunes() } else { controller };
    Operator::new("ring-operator").controller(controller.run(Nodes(done)))
}

#[test]
fn a_phase_outlives_what_it_was_about() {
    let sample = "{apiVersion: bugs.example.com/v1, kind: Ring, metadata: {name: sample}, spec: {nodes: 2}}";
    is_found(operator, sample, &[Oracle::Converges, Oracle::Leaks]);
}
