//! Calls of systems outside of the cluster: each is a point at which a fault may strike, too.

use std::{
    future::{Future, pending},
    pin::Pin,
};

use kubewright::external::{Passage, Unreachable};

use super::Wire;
use crate::{plan::Fault, trace::What};

type BoxFuture<'f, T> = Pin<Box<dyn Future<Output = T> + Send + 'f>>;

impl Passage for Wire {
    fn before<'a>(&'a self, call: &'a str) -> BoxFuture<'a, Result<(), Unreachable>> {
        Box::pin(self.leave(call))
    }

    fn after<'a>(&'a self, call: &'a str, is_well: bool) -> BoxFuture<'a, Result<(), Unreachable>> {
        Box::pin(self.come_back(call, is_well))
    }
}

impl Wire {
    async fn leave(&self, call: &str) -> Result<(), Unreachable> {
        let (epoch, is_connected) = {
            let state = self.state();
            (state.epoch, state.is_connected)
        };
        if !is_connected {
            return pending().await;
        }
        let Some(fault) = self.decide(epoch, &format!("ask {call}"), &Fault::OF_ASKS) else { return Ok(()) };
        match fault {
            Fault::CrashAfter | Fault::TimeoutApplied => {
                self.state().asked.insert(call.to_owned(), fault);
                Ok(())
            }
            _ => {
                self.state().note(What::Ask, format!("ask {call}"), 0, 0, Some(fault));
                self.lose(fault).await
            }
        }
    }

    async fn come_back(&self, call: &str, is_well: bool) -> Result<(), Unreachable> {
        let fault = {
            let mut state = self.state();
            let fault = state.asked.remove(call);
            state.note(What::Ask, format!("ask {call}"), 0, is_well.into(), fault);
            fault
        };
        match fault {
            Some(fault) => self.lose(fault).await,
            None => Ok(()),
        }
    }

    /// A call, or the answer to it, is lost.
    async fn lose(&self, fault: Fault) -> Result<(), Unreachable> {
        match fault {
            Fault::CrashBefore | Fault::CrashAfter => {
                self.crash(None);
                pending().await
            }
            Fault::TimeoutLost | Fault::TimeoutApplied => {
                self.time_out().await;
                Err(Unreachable::new("there was no answer in time"))
            }
            _ => Err(Unreachable::new("the connection was refused")),
        }
    }
}
