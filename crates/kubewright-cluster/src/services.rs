//! Services of operators that run on this machine and not in pods: calls of their webhooks are led to them.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use kubewright::Door;
use kubewright_apiserver::{Route, ServiceResolver};
use parking_lot::Mutex;

/// Who answers for a Service.
#[derive(Debug, Clone)]
pub enum Served {
    /// An operator inside the process.
    Within(Door),
    /// Whatever listens there.
    At(SocketAddr),
}

impl From<Door> for Served {
    fn from(door: Door) -> Self {
        Self::Within(door)
    }
}

impl From<SocketAddr> for Served {
    fn from(address: SocketAddr) -> Self {
        Self::At(address)
    }
}

/// Who answers for which Service, by namespace and name. Clones share what they know.
#[derive(Debug, Clone, Default)]
pub struct Services(Arc<Mutex<BTreeMap<(String, String), Served>>>);

impl Services {
    /// Leads calls to a Service there from now on.
    pub fn lead(&self, namespace: &str, name: &str, to: impl Into<Served>) {
        self.0.lock().insert((namespace.to_owned(), name.to_owned()), to.into());
    }
}

impl ServiceResolver for Services {
    fn resolve(&self, namespace: &str, name: &str, _port: u16) -> Option<Route> {
        let served = self.0.lock().get(&(namespace.to_owned(), name.to_owned())).cloned();
        match served? {
            // An operator that has ended is no endpoint any more.
            Served::Within(door) => door.open().map(Route::Pipe),
            Served::At(address) => Some(Route::Address(address)),
        }
    }
}
