//! Create: a new object, with a name of its own or a generated one.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::Value;

use super::{Scope, options::WriteOptions, respond};
use crate::{
    admission::Operation,
    crd::Verdict,
    error::ApiError,
    field::Path,
    http::answer::Answer,
    kinds::{access, certificates::stamp_requester},
    names,
    store::{CommitError, Expect, Stored, Write},
};

/// Attempts at a free generated name before giving up.
const NAME_ATTEMPTS: usize = 8;
/// Longest prefix of a generated name; five characters follow.
const GENERATED_BASE_MAX: usize = 58;

/// What a write led to.
pub(crate) enum Written {
    /// The object as it is now stored, or as it was when it went.
    Stored(Arc<Stored>),
    /// The object as it would have been stored, or was found.
    Unwritten(Value),
}

impl Written {
    pub(crate) async fn answer(self, scope: &Scope, code: u16) -> Result<Answer, ApiError> {
        match self {
            Self::Stored(stored) => respond::stored(scope, code, &stored).await,
            Self::Unwritten(object) => respond::object(scope, code, object),
        }
    }
}

pub(crate) async fn create(scope: &Scope) -> Result<Answer, ApiError> {
    let options = WriteOptions::read("CreateOptions", &scope.query, &scope.user_agent, false)?;
    let read = || -> Result<Value, ApiError> {
        let mut object = scope.body_object(&options)?;
        scope.fix_namespace(&mut object)?;
        scope.deduplicate_owners(&mut object, "");
        scope.record_update(scope.resource.empty(), &mut object, &options.manager);
        Ok(object)
    };
    let object = scope.with_conversions(read).await?;
    let written = scope.create_object(object, &options).await?;
    written.answer(scope, 201).await
}

impl Scope {
    /// An object belongs to the namespace of the request.
    pub(crate) fn fix_namespace(&self, object: &mut Value) -> Result<(), ApiError> {
        let given = access::get_str(object, &["metadata", "namespace"]).to_owned();
        if !self.resource.namespaced {
            access::remove(object, &["metadata", "namespace"]);
            return Ok(());
        }
        if given.is_empty() {
            access::set(object, &["metadata", "namespace"], self.namespace.as_str());
        } else if given != self.namespace {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        Ok(())
    }

    /// Drops owner references that are there twice, and says so. `when` tells how they came there, if that is
    /// not for the client to know.
    pub(crate) fn deduplicate_owners(&self, object: &mut Value, when: &str) {
        let Some(Value::Array(owners)) = access::get_mut(object, &["metadata", "ownerReferences"]) else {
            return;
        };
        let mut seen = BTreeSet::new();
        let mut duplicates = Vec::new();
        owners.retain(|owner| {
            let is_new = seen.insert(owner.to_string());
            if !is_new {
                duplicates.push(access::get_str(owner, &["uid"]).to_owned());
            }
            is_new
        });
        if !duplicates.is_empty() {
            self.warn(format!(
                ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in \
                 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate \
                 UID(s) observed: {}",
                duplicates.join(", ")
            ));
        }
    }

    /// Admits, validates and stores a new object whose managed fields are already recorded.
    pub(crate) async fn create_object(
        &self,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<Written, ApiError> {
        self.admit(Operation::Create, &mut object, None, options).await?;
        self.fix_namespace(&mut object)?;
        self.fill_system_fields(&mut object);
        if !access::get_str(&object, &["metadata", "resourceVersion"]).is_empty() {
            if !options.dry_run {
                return Err(ApiError::unexplained(
                    "resourceVersion should not be set on objects to be created",
                ));
            }
            access::remove(&mut object, &["metadata", "resourceVersion"]);
        }
        let generated = access::get_str(&object, &["metadata", "name"]).is_empty();
        for attempt in 1.. {
            let mut candidate = if generated { object.clone() } else { std::mem::take(&mut object) };
            if generated {
                self.generate_name(&mut candidate);
                self.resource.default(&mut candidate);
            }
            self.resource.prepare_create(&mut candidate)?;
            if &*self.resource.kind == "CertificateSigningRequest" && !self.resource.is_custom() {
                stamp_requester(&mut candidate, &self.user);
            }
            let name = access::get_str(&candidate, &["metadata", "name"]).to_owned();
            let reservation = self.allocate(&mut candidate, &name, options)?;
            self.check_new(&candidate, &name)?;
            self.validate_admission(Operation::Create, &candidate, None, options).await?;
            match self.commit_new(candidate, &name, options).await {
                Err(error) if generated && error.reason == "AlreadyExists" && attempt < NAME_ATTEMPTS => {}
                outcome => {
                    reservation.settle(outcome.is_ok());
                    return outcome;
                }
            }
        }
        unreachable!("the loop ends by returning")
    }

    fn fill_system_fields(&self, object: &mut Value) {
        let metadata = access::ensure_object(object, &["metadata"]);
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
            metadata.remove(field);
        }
        metadata.insert("uid".to_owned(), self.server.entropy.uid().into());
        metadata.insert("creationTimestamp".to_owned(), self.server.clock.now_text().into());
    }

    fn generate_name(&self, object: &mut Value) {
        let base = access::get_str(object, &["metadata", "generateName"]);
        if base.is_empty() {
            if &*self.resource.kind == "LimitRange" {
                access::set(object, &["metadata", "name"], self.server.entropy.uid());
            }
            return;
        }
        let end =
            (0..=GENERATED_BASE_MAX.min(base.len())).rev().find(|at| base.is_char_boundary(*at)).unwrap_or(0);
        let name = format!("{}{}", &base[..end], self.server.entropy.name_suffix());
        access::set(object, &["metadata", "name"], name);
    }

    fn check_new(&self, object: &Value, name: &str) -> Result<(), ApiError> {
        let metadata = object.get("metadata").unwrap_or(&Value::Null);
        let path = Path::new("metadata");
        let mut errors = names::validate_object_meta(
            metadata,
            self.resource.namespaced,
            self.resource.name_check(),
            &path,
        );
        errors.extend(self.resource.check_finalizer_names(metadata, &path));
        self.conclude(self.resource.validate(object, errors), name)
    }

    /// Refuses what is wrong with an object, or passes on its warnings.
    pub(crate) fn conclude(&self, verdict: Verdict, name: &str) -> Result<(), ApiError> {
        verdict.warnings.into_iter().for_each(|warning| self.warn(warning));
        if verdict.errors.is_empty() {
            return Ok(());
        }
        let mut subject = self.resource.subject();
        if subject.group == "events.k8s.io" {
            subject.group = ""; // both groups share the rules of core
        }
        Err(ApiError::invalid(&subject, name, &verdict.errors))
    }

    async fn commit_new(
        &self,
        object: Value,
        name: &str,
        options: &WriteOptions,
    ) -> Result<Written, ApiError> {
        let key = self.key_of(name);
        if options.dry_run {
            return match self.server.store.get(self.storage(), &key) {
                Some(existing) => Err(self.exists(name, &existing)),
                None => Ok(Written::Unwritten(self.as_if_stored(object).await?)),
            };
        }
        let change = self.put(object).await?;
        let write = Write { resource: self.storage().clone(), key, expect: Expect::Absent, change };
        match self.server.store.commit(write).await {
            Ok(event) => {
                self.after_write(&event).await?;
                Ok(Written::Stored(event.object.clone()))
            }
            Err(CommitError::Conflict { current: Some(existing), .. }) => Err(self.exists(name, &existing)),
            Err(error) => Err(storage_error(&error)),
        }
    }

    fn exists(&self, name: &str, existing: &Stored) -> ApiError {
        let mut error = ApiError::already_exists(&self.resource.subject(), name);
        let deleting = super::codec::parse(&existing.bytes)
            .is_ok_and(|object| access::has(&object, &["metadata", "deletionTimestamp"]));
        if deleting {
            error.message = format!("object is being deleted: {}", error.message);
        }
        error
    }
}

/// Addresses and ports that a write of a service has reserved; given back unless it was stored.
pub(crate) struct Reservation<'a> {
    scope: Option<(&'a Scope, String)>,
}

impl Reservation<'_> {
    /// Ends the reservation: what was stored stays taken.
    pub(crate) fn settle(mut self, stored: bool) {
        if stored {
            self.scope = None;
        }
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if let Some((scope, key)) = self.scope.take() {
            scope.record_service(&key);
        }
    }
}

impl Scope {
    /// Gives a service what only the cluster can give it: an address and node ports.
    pub(crate) fn allocate(
        &self,
        object: &mut Value,
        name: &str,
        options: &WriteOptions,
    ) -> Result<Reservation<'_>, ApiError> {
        if !self.is_service() || !self.subresource.is_empty() {
            return Ok(Reservation { scope: None });
        }
        let key = self.key_of(name).to_string();
        let mut services = self.server.services.lock();
        let errors = services.allocate(&key, object, &self.server.entropy, options.dry_run);
        if errors.is_empty() {
            return Ok(Reservation { scope: (!options.dry_run).then_some((self, key)) });
        }
        Err(ApiError::invalid(&self.resource.subject(), name, &errors))
    }

    pub(crate) fn is_service(&self) -> bool {
        self.resource.group.is_empty() && &*self.resource.kind == "Service"
    }

    /// Takes over what the stored service of this key has.
    pub(crate) fn record_service(&self, key: &str) {
        let mut services = self.server.services.lock();
        let stored = self.server.store.get(self.storage(), key);
        let service = stored.and_then(|stored| super::codec::parse(&stored.bytes).ok());
        services.record(key, service.as_ref());
    }
}

/// 500: the disk refused the write.
pub(crate) fn storage_error(error: &CommitError) -> ApiError {
    ApiError::internal(error)
}
