//! A password is logged as it is removed: at the end of the step it is nowhere else.

use kubewright::prelude::*;
use kubewright_explore::Oracle;

use super::{Done, gadgets::keep_password, is_found};
use crate::gadget::{Does, Gadget, SAMPLE};

struct Farewell(Done);

impl Finalizer<Gadget> for Farewell {
    async fn finalize(&self, _: &Gadget, cx: Finalizing<Gadget>) -> Result<Finalized> {
        for secret in cx.children::<Secret>()? {
            tracing::info!("removes {}", secret.name_any());
            for value in secret.data.iter().flat_map(|data| data.values()).filter(|_| self.0 == Done::Wrong) {
                tracing::info!("it was {}", String::from_utf8_lossy(&value.0));
            }
            cx.delete(&secret).await?;
        }
        Ok(cx.done())
    }
}

#[test]
fn a_password_is_logged_as_it_is_removed() {
    let operator = |done| {
        let controller = Controller::of::<Gadget>().owns::<Secret>();
        let controller = controller.finalizer("test.example.com/farewell", Farewell(done));
        let keeps = Does(|gadget, cx| Box::pin(keep_password(gadget, cx)));
        Operator::new("gadget-operator").controller(controller.run(keeps))
    };
    is_found(operator, SAMPLE, &[Oracle::Rights]);
}
