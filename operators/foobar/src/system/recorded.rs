//! The system in memory.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;

use super::{Failure, Record, System};

/// A system in the memory of this process, to try the operator out. Clones share their records.
#[derive(Clone, Debug, Default)]
pub struct Recorded(Arc<Mutex<BTreeMap<String, Record>>>);

impl Recorded {
    /// All records, by their ids.
    pub fn records(&self) -> BTreeMap<String, Record> {
        self.0.lock().clone()
    }
}

impl System for Recorded {
    async fn put(&self, id: &str, record: &Record) -> Result<(), Failure> {
        self.0.lock().insert(id.to_owned(), record.clone());
        Ok(())
    }

    async fn delete(&self, id: &str) -> Result<(), Failure> {
        self.0.lock().remove(id);
        Ok(())
    }
}
