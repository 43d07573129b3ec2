//! Reading from the cache, without an object at hand: for map functions.

use std::sync::Arc;

use crate::{
    cache::Index,
    controller::Views,
    error::Result,
    kind::{Key, Kind, Seen},
};

/// Reads what the controller watches, from memory.
#[derive(Clone)]
pub struct Lookup(Arc<Views>);

impl Lookup {
    pub(crate) fn new(views: Arc<Views>) -> Self {
        Self(views)
    }

    /// Waits until everything was seen once.
    pub(crate) async fn synced(&self) {
        self.0.synced().await;
    }

    /// One object, if it is there.
    pub fn get<C: Kind>(&self, key: &Key) -> Result<Option<Seen<C>>> {
        Ok(self.0.get::<C>()?.get(key))
    }

    /// All objects of a kind, or those of one namespace, by name.
    pub fn list<C: Kind>(&self, namespace: Option<&str>) -> Result<Vec<Seen<C>>> {
        Ok(self.0.get::<C>()?.list(namespace))
    }

    /// The objects that the one with this UID owns.
    pub fn owned_by<C: Kind>(&self, uid: &str) -> Result<Vec<Seen<C>>> {
        Ok(self.0.get::<C>()?.owned_by(uid))
    }

    /// The objects that an index has under a value.
    pub fn indexed<C: Kind>(&self, index: &Index<C>, value: &str) -> Result<Vec<Seen<C>>> {
        self.0.get::<C>()?.indexed(index, value)
    }
}
