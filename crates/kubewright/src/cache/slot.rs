//! How an object is kept: as text until somebody wants it, since most of what a cache holds is never looked at, and
//! an object takes nearly twice the room of its text.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::kind::Object;

/// The place of one state of an object.
pub(super) struct Slot<K>(Mutex<Form<K>>);

enum Form<K> {
    Object(Arc<K>),
    /// What has been read as a `K` before.
    Text(Box<str>),
}

impl<K: Object> Slot<K> {
    pub(super) fn object(object: Arc<K>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Form::Object(object))))
    }

    /// A slot for an object that was read from `text`.
    pub(super) fn text(text: impl Into<Box<str>>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Form::Text(text.into()))))
    }

    /// The object. It stays one from now on: what was wanted once is likely to be wanted again.
    pub(super) fn get(&self) -> Arc<K> {
        let mut form = self.0.lock();
        let object = match &*form {
            Form::Object(object) => return object.clone(),
            Form::Text(text) => Arc::new(serde_json::from_str(text).expect("it was read before")),
        };
        *form = Form::Object(Arc::clone(&object));
        object
    }
}
