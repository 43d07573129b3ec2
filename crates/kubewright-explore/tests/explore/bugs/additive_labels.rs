//! Labels are only added to a child: one that is no longer asked for stays.

use std::collections::BTreeMap;

use kubewright::{prelude::*, workload::child_meta};
use kubewright_explore::Oracle;
use serde_json::json;

use super::{Done, gadgets::one_is_found, is_found};
use crate::gadget::{Doing, text};

#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
#[kube(group = "bugs.example.com", version = "v1", kind = "Badge", namespaced)]
pub(crate) struct BadgeSpec {
    pub labels: BTreeMap<String, String>,
}

struct Labels(Done);

impl Reconciler<Badge> for Labels {
    fn remembers(&self) -> bool {
        false
    }

    async fn reconcile(&self, badge: &Badge, cx: &Context<Badge>) -> Result<Next> {
        let mut metadata = child_meta(badge, "");
        if self.0 == Done::Right {
            metadata.labels.get_or_insert_default().extend(badge.spec.labels.clone());
        }
        let child = cx.apply(ConfigMap { metadata, ..ConfigMap::default() }).await?;
        let is_missing = |(key, value): (&String, &String)| child.labels().get(key) != Some(value);
        if self.0 == Done::Wrong && badge.spec.labels.iter().any(is_missing) {
            cx.patch(&child, json!({"metadata": {"labels": badge.spec.labels}})).await?;
        }
        Ok(Next::on_change())
    }
}

fn operator(done: Done) -> Operator {
    let controller = Controller::of::<Badge>().owns::<ConfigMap>();
    Operator::new("badge-operator")
        .controller(controller.needs::<ConfigMap>(&[kubewright::Verb::Patch]).run(Labels(done)))
}

#[test]
fn labels_are_only_added() {
    let sample =
        "{apiVersion: bugs.example.com/v1, kind: Badge, metadata: {name: sample}, spec: {labels: {team: a}}}";
    is_found(operator, sample, &[Oracle::History]);
}

#[test]
fn labels_of_the_resource_are_only_added() {
    let wrong: Doing = |gadget, cx| {
        Box::pin(async move {
            let child = cx.apply(text(gadget)).await?;
            let is_missing = |(key, value): (&String, &String)| child.labels().get(key) != Some(value);
            if gadget.labels().iter().any(is_missing) {
                cx.patch(&child, json!({"metadata": {"labels": gadget.labels()}})).await?;
            }
            Ok(Next::on_change())
        })
    };
    let right: Doing = |gadget, cx| {
        Box::pin(async move {
            let mut wanted = text(gadget);
            wanted.metadata.labels.get_or_insert_default().extend(gadget.labels().clone());
            cx.apply(wanted).await?;
            Ok(Next::on_change())
        })
    };
    one_is_found(wrong, right, Oracle::History);
}
