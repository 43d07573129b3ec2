//! What an operator makes of a call that comes to nothing for a while: it has to try again, and to leave some time before.

use kube::{
    Api,
    api::{Patch, PatchParams},
};
use kubewright::prelude::*;
use kubewright_explore::Oracle;

use super::gadgets::one_is_found;
use crate::gadget::{Doing, Gadget, GadgetStatus, Reconciling, text};

#[test]
fn what_was_refused_once_is_told_and_never_tried_again() {
    /// Its own status wakes it up once more, but what refuses has not ended by then.
    async fn make(gadget: &Gadget, cx: &Context<Gadget>, refused: Next) -> Result<Next> {
        let made = cx.apply(text(gadget)).await;
        let is_refused = made.as_ref().err().and_then(Error::status).is_some_and(|why| why.code == 403);
        if !is_refused {
            made?;
        }
        let conditions =
            vec![condition("Degraded", is_refused, if is_refused { "Refused" } else { "Made" }, "")];
        cx.status(GadgetStatus { conditions, ..GadgetStatus::default() }).await?;
        Ok(if is_refused { refused } else { Next::on_change() })
    }
    let wrong: Doing = |gadget, cx| Box::pin(make(gadget, cx, Next::on_change()));
    let right: Doing = |gadget, cx| Box::pin(make(gadget, cx, Next::after(Duration::from_secs(30))));
    one_is_found(wrong, right, Oracle::EndState);
}

#[test]
fn a_call_is_made_again_at_once_for_as_long_as_it_takes() {
    fn patch<'a>(gadget: &'a Gadget, cx: &'a Context<Gadget>, insists: bool) -> Reconciling<'a> {
        Box::pin(async move {
            let maps: Api<ConfigMap> = Api::namespaced(cx.client().clone(), cx.namespace());
            let mut wanted = text(gadget);
            wanted.metadata.owner_references = gadget.controller_owner_ref(&()).map(|owner| vec![owner]);
            let (name, parameters) = (wanted.name_any(), PatchParams::apply("by hand").force());
            loop {
                match maps.patch(&name, &parameters, &Patch::Apply(&wanted)).await {
                    Err(kube::Error::Api(status)) if insists && status.code >= 500 => {}
                    answer => return answer.map(|_| Next::on_change()).map_err(Error::from),
                }
            }
        })
    }
    let wrong: Doing = |gadget, cx| patch(gadget, cx, true);
    let right: Doing = |gadget, cx| patch(gadget, cx, false);
    one_is_found(wrong, right, Oracle::Budget);
}
