//! Update: a stored object becomes another, by replacement or by a patch.
//!
//! All changes of existing objects go through [`Scope::update_object`]: read, transform, admit, prepare,
//! validate, commit against the revision that was read; if somebody else was faster, again from the start.

use std::sync::Arc;

use serde_json::Value;

use super::{
    Scope,
    create::{Written, storage_error},
    options::WriteOptions,
};
use crate::{
    admission::Operation,
    decode::go::quote,
    error::{ApiError, Subject},
    field::{FieldError, Path},
    fields::keep_times_of_unchanged,
    http::answer::Answer,
    kinds::{access, certificates::stamp_conditions},
    names,
    store::{CommitError, Expect, Stored, Write},
};

/// Attempts at a change that others keep overtaking.
const ATTEMPTS: usize = 64;

/// How a stored object, which is folded, changes. The result is decoded and defaulted, and its managed fields are
/// recorded.
pub(crate) type Transform<'a> = dyn FnMut(&Value) -> Result<Value, ApiError> + Send + 'a;

pub(crate) async fn put(scope: &Scope) -> Result<Answer, ApiError> {
    let options = WriteOptions::read("UpdateOptions", &scope.query, &scope.user_agent, false)?;
    let mut object = scope.replacement(&options)?;
    if scope.subresource.is_empty()
        && scope.resource.creates_on_update()
        && scope.server.store.get(scope.storage(), &scope.key()).is_none()
    {
        access::remove(&mut object, &["metadata", "resourceVersion"]);
        scope.record_update(scope.resource.empty(), &mut object, &options.manager);
        return scope.create_object(object, &options).await?.answer(scope, 201).await;
    }
    let mut first = Some(object);
    let mut transform = |live: &Value| {
        // Only who was overtaken needs the body again, and reads it anew.
        let mut new = first.take().map_or_else(|| scope.replacement(&options), Ok)?;
        scope.check_uid(&new, live)?;
        scope.record_update(live, &mut new, &options.manager);
        Ok(new)
    };
    let written = scope.update_object(&mut transform, &options).await?;
    written.answer(scope, 200).await
}

impl Scope {
    /// The object in the body of a PUT.
    fn replacement(&self, options: &WriteOptions) -> Result<Value, ApiError> {
        let mut object = self.body_object(options)?;
        self.check_name(&object)?;
        self.fix_namespace(&mut object)?;
        self.deduplicate_owners(&mut object, "");
        Ok(object)
    }

    /// The body of a PUT names the object of the path.
    pub(crate) fn check_name(&self, object: &Value) -> Result<(), ApiError> {
        let name = access::get_str(object, &["metadata", "name"]);
        if name.is_empty() {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({} based on URL) was undeterminable: name must be provided",
                self.name
            )));
        }
        if name != self.name {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                self.name
            )));
        }
        Ok(())
    }

    /// A uid in the body of a PUT is a condition on the stored object.
    fn check_uid(&self, new: &Value, old: &Value) -> Result<(), ApiError> {
        let (uid, old_uid) =
            (access::get_str(new, &["metadata", "uid"]), access::get_str(old, &["metadata", "uid"]));
        if uid.is_empty() || uid == old_uid {
            return Ok(());
        }
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {old_uid}");
        Err(ApiError::conflict(&self.resource.subject(), &self.name, why))
    }

    /// Changes the object of this request.
    pub(crate) async fn update_object(
        &self,
        transform: &mut Transform<'_>,
        options: &WriteOptions,
    ) -> Result<Written, ApiError> {
        let key = self.key();
        for _ in 0..ATTEMPTS {
            let current = self.server.store.get(self.storage(), &key).ok_or_else(|| self.not_found())?;
            let old = self.load_folded(&current).await?;
            let mut new = self.with_conversions(|| transform(&old)).await?;
            self.check_preconditions(&new, &old)?;
            self.admit(Operation::Update, &mut new, Some(&old), options).await?;
            self.prepare_update(&mut new, &old);
            let reservation = self.allocate(&mut new, &self.name, options)?;
            self.check_changed(&new, &old)?;
            self.validate_admission(Operation::Update, &new, Some(&old), options).await?;
            keep_times_of_unchanged(&old, &mut new);
            let outcome = if goes_with_this_write(&new) {
                self.remove(&key, &current, new, options).await
            } else if new == old && (options.dry_run || self.keeps_form(&current, &new).await?) {
                let as_stored = !options.dry_run && self.resource.serves_as_stored(&current);
                return Ok(if as_stored { Written::Stored(current) } else { Written::Unwritten(old) });
            } else {
                self.replace(&key, &current, new, options).await
            };
            reservation.settle(matches!(outcome, Ok(Some(_))));
            if let Some(written) = outcome? {
                return Ok(written);
            }
        }
        Err(self.modified())
    }

    pub(crate) fn modified(&self) -> ApiError {
        ApiError::conflict(
            &self.resource.subject(),
            &self.name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// A revision in the new object is a condition on the old one.
    fn check_preconditions(&self, new: &Value, old: &Value) -> Result<(), ApiError> {
        let version = access::get_str(new, &["metadata", "resourceVersion"]);
        if version.is_empty() || version == "0" {
            if self.resource.allows_unconditional_update() {
                return Ok(());
            }
            let path = Path::new("metadata.resourceVersion");
            let error = FieldError::invalid(&path, 0, "must be specified for an update");
            // Here kube-apiserver speaks of the resource where it otherwise speaks of the kind.
            let subject = Subject { kind: &self.resource.plural, ..self.resource.subject() };
            return Err(ApiError::invalid(&subject, &self.name, &[error]));
        }
        if version.parse::<u64>().is_err() {
            return Err(ApiError::unexplained(format!(
                "resourceVersion: Invalid value: {}: strconv.ParseUint: parsing {}: invalid syntax",
                quote(version),
                quote(version)
            )));
        }
        if version != access::get_str(old, &["metadata", "resourceVersion"]) {
            return Err(self.modified());
        }
        Ok(())
    }

    /// Takes over what an update can't change, and raises the generation if it has to.
    fn prepare_update(&self, new: &mut Value, old: &Value) {
        access::copy_from(new, old, &["metadata", "generation"]);
        self.resource.prepare_update(new, old, &self.subresource);
        if &*self.resource.group == "certificates.k8s.io" && !self.subresource.is_empty() {
            stamp_conditions(new, old, self.server.clock.now());
        }
        if access::get_str(new, &["metadata", "uid"]).is_empty() {
            access::copy_from(new, old, &["metadata", "uid"]);
        }
        for field in ["creationTimestamp", "resourceVersion"] {
            access::copy_from(new, old, &["metadata", field]);
        }
        access::remove(new, &["metadata", "selfLink"]);
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
            if access::has(old, &["metadata", field]) {
                access::copy_from(new, old, &["metadata", field]);
            }
        }
        if self.resource.raises_generation(new, old, &self.subresource) {
            let generation = access::get_i64(old, &["metadata", "generation"]).unwrap_or(0);
            access::set(new, &["metadata", "generation"], generation + 1);
        }
    }

    fn check_changed(&self, new: &Value, old: &Value) -> Result<(), ApiError> {
        let path = Path::new("metadata");
        let (metadata, old_metadata) =
            (new.get("metadata").unwrap_or(&Value::Null), old.get("metadata").unwrap_or(&Value::Null));
        let mut errors = names::validate_object_meta(
            metadata,
            self.resource.namespaced,
            names::name_is_path_segment,
            &path,
        );
        let changes = names::validate_object_meta_update(metadata, old_metadata, &path);
        if !self.resource.is_custom() {
            errors.extend(changes.clone()); // found twice there, too: by the kind and by the verb
        }
        errors.extend(changes);
        errors.extend(self.resource.check_finalizer_names(metadata, &path));
        self.conclude(self.resource.validate_update(new, old, &self.subresource, errors), &self.name)
    }

    /// Stores `new` in place of `current`; nothing if somebody else was faster.
    async fn replace(
        &self,
        key: &Arc<str>,
        current: &Stored,
        new: Value,
        options: &WriteOptions,
    ) -> Result<Option<Written>, ApiError> {
        if options.dry_run {
            return Ok(Some(Written::Unwritten(self.as_if_stored(new).await?)));
        }
        let change = self.put(new).await?;
        self.commit_over(key, current, change).await
    }

    pub(crate) async fn commit_over(
        &self,
        key: &Arc<str>,
        current: &Stored,
        change: crate::store::Change,
    ) -> Result<Option<Written>, ApiError> {
        let expect = Expect::Revision(current.revision);
        let write = Write { resource: self.storage().clone(), key: key.clone(), expect, change };
        match self.server.store.commit(write).await {
            Ok(event) => {
                self.after_write(&event).await?;
                Ok(Some(Written::Stored(event.object.clone())))
            }
            Err(CommitError::Conflict { .. }) => Ok(None),
            Err(error) => Err(storage_error(&error)),
        }
    }

    /// Removes the object by a write that cleared what it waited for; the answer is the object as written.
    async fn remove(
        &self,
        key: &Arc<str>,
        current: &Stored,
        answer: Value,
        options: &WriteOptions,
    ) -> Result<Option<Written>, ApiError> {
        if options.dry_run {
            return Ok(Some(Written::Unwritten(answer)));
        }
        let removed = self.commit_over(key, current, Self::removal(None)).await?;
        Ok(removed.map(|_| Written::Unwritten(answer)))
    }
}

/// A deleted object goes once nothing holds it: no finalizer and no grace.
fn goes_with_this_write(object: &Value) -> bool {
    access::has(object, &["metadata", "deletionTimestamp"])
        && access::items(object, &["metadata", "finalizers"]).is_empty()
        && access::items(object, &["spec", "finalizers"]).is_empty()
        && access::get_i64(object, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0) == 0
}
