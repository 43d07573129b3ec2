//! Something that was there before the operator is changed, and has to be as it was when the resource is gone.

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use kubewright::{Reader, Verb, prelude::*};
use kubewright_explore::Oracle;
use serde_json::json;

use super::{Done, gadgets::is_present, is_found};
use crate::gadget::{Gadget, SAMPLE};

const NOTE: &str = "example.com/note";

struct Marks(Done);

impl Marks {
    /// Puts a note on the Namespace of a gadget, or takes it off.
    async fn mark(cx: &Reader<Gadget>, note: Option<&str>) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(cx.client().clone());
        let there = namespaces.get(cx.namespace()).await?;
        if there.annotations().get(NOTE).map(String::as_str) != note {
            let change = Patch::Merge(json!({"metadata": {"annotations": {NOTE: note}}}));
            namespaces.patch(cx.namespace(), &PatchParams::default(), &change).await?;
        }
        Ok(())
    }
}

impl Reconciler<Gadget> for Marks {
    fn remembers(&self) -> bool {
        false
    }

    async fn reconcile(&self, gadget: &Gadget, cx: &Context<Gadget>) -> Result<Next> {
        if is_present(gadget, cx).await? {
            Self::mark(cx, Some(&gadget.spec.text)).await?;
        }
        Ok(Next::on_change())
    }
}

impl Finalizer<Gadget> for Marks {
    async fn finalize(&self, _: &Gadget, cx: Finalizing<Gadget>) -> Result<Finalized> {
        if self.0 == Done::Right {
            Self::mark(&cx, None).await?;
        }
        Ok(cx.done())
    }
}

#[test]
fn a_namespace_is_left_with_a_note() {
    let operator = |done| {
        let controller = Controller::of::<Gadget>()
            .needs::<Gadget>(&[Verb::Get])
            .needs::<Namespace>(&[Verb::Get, Verb::Patch])
            .finalizer("example.com/note", Marks(done));
        Operator::new("gadget-operator").controller(controller.run(Marks(done)))
    };
    is_found(operator, SAMPLE, &[Oracle::Leaks]);
}
