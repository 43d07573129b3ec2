//! Writing without applying: for children with generated names, for objects that others also write, and for
//! changes that must not be forced. Every answer is seen at once.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Context, Reader, request};
use crate::{
    error::{Error, Result},
    kind::{Key, Kind, MayOwn, Seen, uid},
};

impl<K: Kind> Context<K> {
    /// Creates a child that belongs to the object: it is in its namespace and goes with it. Its name may be
    /// generated. Where a child of a fixed name will do, [`apply`](Self::apply) is the better choice: a create
    /// whose answer is lost is not known to have happened.
    pub async fn create<C: Kind>(&self, mut child: C) -> Result<Seen<C>>
    where
        K::Scope: MayOwn<C::Scope>,
    {
        self.own(&mut child)?;
        self.create_free(child).await
    }
}

impl<K: Kind> Reader<K> {
    /// Creates an object that belongs to nobody, as it is given.
    pub async fn create_free<C: Kind>(&self, object: C) -> Result<Seen<C>> {
        let answer = request::create(&self.shared.client, &object, &self.shared.operator).await?;
        Ok(self.written(answer))
    }

    /// Changes an object that was seen by a JSON merge patch. Another of the same name is left alone.
    pub async fn patch<C: Kind>(&self, object: &Seen<C>, change: Value) -> Result<Seen<C>> {
        self.patch_part(object, None, change).await
    }

    /// Like [`patch`](Self::patch), for the status.
    pub async fn patch_status<C: Kind>(&self, object: &Seen<C>, status: Value) -> Result<Seen<C>> {
        self.patch_part(object, Some("status"), json!({"status": status})).await
    }

    /// Replaces an object by one that was made from what was seen. It fails if somebody was faster.
    pub async fn replace<C: Kind>(&self, object: C) -> Result<Seen<C>> {
        let answer = request::replace(&self.shared.client, None, &object, &self.shared.operator).await?;
        Ok(self.written(answer))
    }

    /// Like [`replace`](Self::replace), for the status.
    pub async fn replace_status<C: Kind>(&self, object: C) -> Result<Seen<C>> {
        let answer =
            request::replace(&self.shared.client, Some("status"), &object, &self.shared.operator).await?;
        Ok(self.written(answer))
    }

    async fn patch_part<C: Kind>(
        &self,
        object: &Seen<C>,
        part: Option<&str>,
        mut change: Value,
    ) -> Result<Seen<C>> {
        let Some(fields) = change.as_object_mut() else {
            return Err(Error::terminal("a merge patch must be a structure"));
        };
        let meta = fields.entry("metadata").or_insert_with(|| json!({}));
        meta["uid"] = uid(&**object).into();
        let key = Key::of(&**object);
        let answer = request::merge(&self.shared.client, &key, part, &change, &self.shared.operator).await?;
        Ok(self.written(answer))
    }

    /// The answer to a write, as the cache gives it.
    fn written<C: Kind>(&self, answer: C) -> Seen<C> {
        let key = Key::of(&answer);
        self.shared.cache.wrote(&answer);
        let cached = self.shared.views.get::<C>().ok().and_then(|view| view.get(&key));
        cached
            .filter(|cached| cached.meta().resource_version == answer.meta().resource_version)
            .unwrap_or_else(|| Seen::new(Arc::new(answer)))
    }
}
