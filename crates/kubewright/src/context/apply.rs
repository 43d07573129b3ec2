//! Applying children: server-side, owned, and only if something would change.

use kube::core::PartialObjectMeta;
use serde_json::Value;

use super::{Context, naming, request, status::fingerprint, unchanged::is_unchanged};
use crate::{
    error::{Error, Result},
    kind::{Key, Kind, KindName, MayOwn, Seen, is_namespaced, owner_reference, revision, uid},
};

const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const INSTANCE: &str = "app.kubernetes.io/instance";

impl<K: Kind> Context<K> {
    /// Makes a child be as given, and gives it as it then is. Only what is given is this operator's; a field that
    /// is no longer given is removed, what others own stays, and if someone else has changed a field of ours, it
    /// is put right. The child belongs to the object: it is in its namespace and goes with it.
    ///
    /// If the child is already so, nothing is sent. And nothing is made smaller for an object that has changed since it was
    /// seen: before an apply that takes replicas away, the server is asked, and if it has a newer generation of the object,
    /// the child stays as it is until that is reconciled. It fails if the child is not the one that was seen, but another one
    /// of its name.
    pub async fn apply<C: Kind>(&self, child: C) -> Result<Seen<C>>
    where
        K::Scope: MayOwn<C::Scope>,
    {
        self.apply_child(child, true).await
    }

    /// Like [`apply`](Self::apply), but does not take over fields that others own: if they have other values
    /// there, it fails and says which.
    pub async fn apply_unforced<C: Kind>(&self, child: C) -> Result<Seen<C>>
    where
        K::Scope: MayOwn<C::Scope>,
    {
        self.apply_child(child, false).await
    }

    async fn apply_child<C: Kind>(&self, mut child: C, forces: bool) -> Result<Seen<C>>
    where
        K::Scope: MayOwn<C::Scope>,
    {
        self.adopt(&mut child)?;
        let key = Key::of(&child);
        let view = match self.shared.views.get::<C>() {
            Ok(view) => Some(view),
            // Of a kind whose metadata alone is watched, only the server can tell whether it is as given.
            Err(_) if self.shared.views.get::<PartialObjectMeta<C>>().is_ok() => None,
            Err(why) => return Err(why),
        };
        if view.as_ref().is_some_and(|view| view.get(&key).is_none()) {
            self.be_certain().await?;
        }
        let mut configuration = configuration(&child)?;
        let print = fingerprint(&configuration);
        self.applied.lock().insert((KindName::of::<C>(), key.clone()));
        if let Some(view) = &view
            && let Some((cached, Some(applied))) = view.applied(&key)
        {
            if applied.settled == Some(print) {
                return Ok(cached);
            }
            let fields: Value = serde_json::from_str(&applied.fields)?;
            let live = serde_json::to_value(&*cached)?;
            if is_unchanged(&fields, &configuration, &live) {
                view.settle(&key, revision(&*cached), print);
                return Ok(cached);
            }
            let shrinks = replicas(&configuration).is_some_and(|wanted| Some(wanted) < replicas(&live));
            if shrinks && !self.is_current().await? {
                tracing::debug!(kind = %C::kind(&()), child = %key, "not made smaller: the object has changed");
                return Ok(cached);
            }
        }
        // Who has missed that the child was made anew, for another object of the same name, must not take it from that.
        if let Some(known) = view.as_ref().and_then(|view| view.get(&key)) {
            configuration["metadata"]["uid"] = uid(&*known).into();
        }
        let answer =
            request::apply(&self.shared.client, &key, None, &configuration, &self.shared.operator, forces)
                .await
                .map_err(|error| explained::<C>(error, &key))?;
        let child = self.shared.written(&answer);
        tracing::debug!(kind = %C::kind(&()), child = %key, revision = revision(&*child), "applied");
        if let Some(view) = view {
            view.settle(&key, revision(&*child), print);
        }
        Ok(child)
    }

    /// Sees to it that nothing is made again for an object that is gone.
    pub(super) async fn be_certain(&self) -> Result<()> {
        let (key, doubts) = (self.key(), &self.shared.doubts);
        if !doubts.are_about(&key) {
            return Ok(());
        }
        let now = request::get::<K>(&self.shared.client, &key).await?;
        let is_same = |now: &K| uid(now) == uid(&*self.object) && now.meta().deletion_timestamp.is_none();
        if !now.is_some_and(|now| is_same(&now)) {
            return Err(Error::new(format!("{key} has gone: nothing is made for it any more")));
        }
        doubts.settle(&key);
        Ok(())
    }

    /// Makes an object a child that can be applied: named, owned, and recognisable.
    fn adopt<C: Kind>(&self, child: &mut C) -> Result<()> {
        if child.meta().name.as_deref().unwrap_or_default().is_empty() {
            let kind = C::kind(&());
            return Err(Error::terminal(format!("a {kind} was applied without a name: see child_name")));
        }
        self.own(child)?;
        let meta = child.meta_mut();
        let labels = meta.labels.get_or_insert_default();
        labels.entry(MANAGED_BY.to_owned()).or_insert_with(|| naming::label_value(&self.shared.operator));
        let name = self.object.meta().name.as_deref().unwrap_or_default();
        labels.entry(INSTANCE.to_owned()).or_insert_with(|| naming::label_value(name));
        // What only the server says, should the child be one that was read before.
        meta.managed_fields = None;
        meta.resource_version = None;
        meta.uid = None;
        meta.creation_timestamp = None;
        meta.generation = None;
        Ok(())
    }

    /// Makes an object a child: in the right namespace, and owned.
    pub(super) fn own<C: Kind>(&self, child: &mut C) -> Result<()> {
        let owner = &*self.object;
        let kind = C::kind(&());
        let meta = child.meta_mut();
        if is_namespaced::<C>() {
            match (meta.namespace.as_deref(), owner.meta().namespace.as_deref()) {
                (None, Some(namespace)) => meta.namespace = Some(namespace.to_owned()),
                (Some(given), Some(namespace)) if given != namespace => {
                    return Err(Error::terminal(format!(
                        "the {kind} is in namespace {given}, its owner in {namespace}: an owner can't be in another \
                         namespace"
                    )));
                }
                (None, None) => {
                    return Err(Error::terminal(format!("the {kind} needs a namespace: its owner has none")));
                }
                _ => {}
            }
        }
        let owners = meta.owner_references.get_or_insert_default();
        owners.retain(|reference| reference.uid != uid(owner));
        owners.push(owner_reference(owner));
        Ok(())
    }
}

/// What is applied: the child without its status, which is not the owner's to say.
fn configuration<C: Kind>(child: &C) -> Result<Value> {
    let mut value = serde_json::to_value(child)?;
    let Some(fields) = value.as_object_mut() else {
        return Err(Error::terminal(format!("a {} is not a structure", C::kind(&()))));
    };
    fields.remove("status");
    fields.insert("apiVersion".to_owned(), C::api_version(&()).into());
    fields.insert("kind".to_owned(), C::kind(&()).into());
    Ok(value)
}

/// How many of something an object asks for, if it says so.
fn replicas(object: &Value) -> Option<i64> {
    object["spec"]["replicas"].as_i64()
}

/// A conflict, in words: who else owns what.
fn explained<C: Kind>(error: kube::Error, key: &Key) -> Error {
    let kube::Error::Api(status) = &error else { return error.into() };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let conflicts: Vec<String> = causes
        .filter(|cause| cause.reason == "FieldManagerConflict")
        .map(|cause| format!("{} ({})", cause.field, cause.message))
        .collect();
    if conflicts.is_empty() {
        return error.into();
    }
    Error::new(format!(
        "{} {key}: others own fields with other values: {}. Leave these fields out, or take them over with apply",
        C::kind(&()),
        conflicts.join(", ")
    ))
}
