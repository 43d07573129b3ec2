//! Writing without applying: for children with generated names, for objects that others also write, and for
//! changes that must not be forced. Every answer is seen at once.

use serde_json::{Value, json};

use super::{Context, Reader, Shared, request};
use crate::{
    cache::Told,
    error::{Error, Result},
    kind::{Key, Kind, MayOwn, Seen, revision, uid},
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
        self.be_certain().await?;
        self.create_free(child).await
    }
}

impl<K: Kind> Reader<K> {
    /// Creates an object that belongs to nobody, as it is given.
    pub async fn create_free<C: Kind>(&self, object: C) -> Result<Seen<C>> {
        let answer = request::create(&self.shared.client, &object, &self.shared.operator).await?;
        Ok(self.shared.written(&answer))
    }

    /// Changes an object that was seen by a JSON merge patch. Another of the same name is left alone.
    pub async fn patch<C: Kind>(&self, object: &Seen<C>, change: Value) -> Result<Seen<C>> {
        self.patch_part(object, None, change).await
    }

    /// Like [`patch`](Self::patch), for the status. That of a custom resource is only changed as it was seen: it fails if
    /// somebody was faster.
    pub async fn patch_status<C: Kind>(&self, object: &Seen<C>, status: Value) -> Result<Seen<C>> {
        self.patch_part(object, Some("status"), json!({"status": status})).await
    }

    /// Replaces an object by one that was made from what was seen. It fails if somebody was faster.
    pub async fn replace<C: Kind>(&self, object: C) -> Result<Seen<C>> {
        let answer = request::replace(&self.shared.client, None, &object, &self.shared.operator).await?;
        Ok(self.shared.written(&answer))
    }

    /// Like [`replace`](Self::replace), for the status.
    pub async fn replace_status<C: Kind>(&self, object: C) -> Result<Seen<C>> {
        let answer =
            request::replace(&self.shared.client, Some("status"), &object, &self.shared.operator).await?;
        Ok(self.shared.written(&answer))
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
        // Of the status of a custom resource the server does not compare the UID.
        if part == Some("status") && C::group(&()).contains('.') && !C::group(&()).ends_with(".k8s.io") {
            meta["resourceVersion"] = object.meta().resource_version.clone().into();
        }
        let key = Key::of(&**object);
        let answer = request::merge(&self.shared.client, &key, part, &change, &self.shared.operator).await?;
        Ok(self.shared.written(&answer))
    }
}

impl Shared {
    /// Has the answer to a write seen by everybody, and gives it as the cache does.
    pub(crate) fn written<C: Kind>(&self, answer: &Told<C>) -> Seen<C> {
        self.cache.wrote(answer);
        let cached = self.views.get::<C>().ok().and_then(|view| view.get(&Key::of(&*answer.object)));
        cached
            .filter(|cached| revision(&**cached) == revision(&*answer.object))
            .unwrap_or_else(|| Seen::new(answer.object.clone()))
    }
}
