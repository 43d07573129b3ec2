//! What can't be changed is deleted and made anew: by a spec that may be an old one.

use kubewright::prelude::*;
use kubewright_explore::Oracle;

use super::gadgets::{is_present, one_is_found};
use crate::gadget::{Doing, Gadget, text};

#[test]
fn what_was_made_for_the_newest_spec_is_deleted_for_an_old_one() {
    async fn keep(gadget: &Gadget, cx: &Context<Gadget>, looks: bool) -> Result<Next> {
        let wanted = ConfigMap { immutable: Some(true), ..text(gadget) };
        match cx.get::<ConfigMap>(&wanted.name_any())? {
            Some(there) if there.data != wanted.data => {
                if looks && !is_present(gadget, cx).await? {
                    return Ok(Next::after(Duration::from_secs(2)));
                }
                cx.delete(&there).await?;
            }
            Some(_) => {}
            None => drop(cx.apply(wanted).await?),
        }
        Ok(Next::on_change())
    }
    let wrong: Doing = |gadget, cx| Box::pin(keep(gadget, cx, false));
    let right: Doing = |gadget, cx| Box::pin(keep(gadget, cx, true));
    one_is_found(wrong, right, Oracle::Destruction);
}
