//! Delete: at once, or once finalizers and grace have passed; one object or a collection.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{
    Scope,
    create::Written,
    list,
    options::{DeleteOptions, ListOptions, Propagation, WriteOptions},
    respond,
};
use crate::{
    clock,
    decode::{self, Parsed, protobuf::Envelope},
    error::ApiError,
    http::{
        answer::Answer,
        negotiate::{self, Encoding},
        path::Query,
    },
    kinds::access,
    registry::types::Types,
    store::Stored,
};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// What became of an object that was to be deleted.
enum Outcome {
    /// It is gone; this was it.
    Gone(Value),
    /// It stays for now, marked as being deleted.
    Waits(Written),
}

pub(crate) async fn delete(scope: &Scope) -> Result<Answer, ApiError> {
    let options = scope.delete_options()?;
    scope.warn_of_orphans(&options);
    match scope.delete_object(&options, Some(&scope.name)).await? {
        Outcome::Gone(last) if scope.resource.returns_deleted() => respond::object(scope, 200, last),
        Outcome::Gone(last) => {
            let mut details = json!({
                "name": scope.name, "kind": &*scope.resource.plural, "uid": access::get_str(&last, &["metadata", "uid"]),
            });
            if !scope.resource.group.is_empty() {
                details["group"] = (&*scope.resource.group).into();
            }
            let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details});
            Ok(respond::document_answer(scope, 200, &status))
        }
        Outcome::Waits(written) => written.answer(scope, 200).await,
    }
}

pub(crate) async fn delete_collection(scope: &Scope) -> Result<Answer, ApiError> {
    let options = scope.delete_options()?;
    let selection = ListOptions::read(&scope.query, false)?;
    let page = list::page(scope, &selection).await?;
    let objects = scope.load_all(&page.objects).await?;
    let mut deleted = Vec::with_capacity(page.objects.len());
    for (object, loaded) in page.objects.iter().zip(objects) {
        let one = scope.at(scope.resource.clone(), object.namespace(), object.name());
        let outcome = one.delete_object(&options, Some("")).await;
        one.warnings.into_inner().into_iter().for_each(|warning| scope.warn(warning));
        match outcome {
            Ok(_) => deleted.push(loaded),
            Err(error) if error.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    let metadata = json!({"resourceVersion": page.revision.to_string()});
    let document = respond::whole_list(scope, metadata, deleted);
    Ok(respond::document_answer(scope, 200, &document))
}

/// Deletes an object on the server's own account.
pub(crate) async fn collect(scope: &Scope) -> Result<(), ApiError> {
    scope.delete_object(&DeleteOptions::default(), None).await.map(|_| ())
}

/// Deletes an evicted pod as its eviction says.
pub(crate) async fn evicted(
    scope: &Scope,
    options: Option<&Value>,
    write: &WriteOptions,
) -> Result<(), ApiError> {
    let mut options = DeleteOptions::read(&Query::default(), Some(options.unwrap_or(&Value::Null)))?;
    options.dry_run |= write.dry_run;
    scope.delete_object(&options, None).await.map(|_| ())
}

impl Scope {
    /// Jobs leave their pods behind unless they are told otherwise, which surprises people.
    fn warn_of_orphans(&self, options: &DeleteOptions) {
        if options.propagation.is_none() && &*self.resource.group == "batch" && &*self.resource.kind == "Job"
        {
            self.warn(
                "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to \
                 remove them or set propagationPolicy=Orphan to suppress this warning",
            );
        }
    }

    fn delete_options(&self) -> Result<DeleteOptions, ApiError> {
        if self.body.is_empty() {
            return DeleteOptions::read(&self.query, None);
        }
        let parsed = match negotiate::content_type(self.content_type.as_deref())? {
            Encoding::Json => decode::json::parse(&self.body),
            Encoding::Yaml => decode::yaml::parse(&self.body),
            Encoding::Protobuf => {
                let schema = Types::get().definition("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions");
                Envelope::open(&self.body).and_then(|envelope| envelope.decode(&schema)).map(Parsed::from)
            }
        };
        let body = parsed
            .map_err(|why| {
                ApiError::bad_request(format!("couldn't get version/kind; json parse error: {why}"))
            })?
            .value;
        let kind = access::get_str(&body, &["kind"]);
        if !kind.is_empty() && kind != "DeleteOptions" {
            return Err(ApiError::bad_request(format!(
                "no kind {kind:?} is registered for version {:?} in scheme \
                 \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\"",
                access::get_str(&body, &["apiVersion"])
            )));
        }
        DeleteOptions::read(&self.query, Some(&body))
    }

    /// Deletes the object of this request, or marks it so. `admitted` is the name under which admission is
    /// asked, empty for one of a collection; what the server does on its own account needs no admission.
    async fn delete_object(
        &self,
        options: &DeleteOptions,
        admitted: Option<&str>,
    ) -> Result<Outcome, ApiError> {
        let key = self.key();
        loop {
            let current = self.server.store.get(self.storage(), &key).ok_or_else(|| self.not_found())?;
            let old = self.load(&current).await?;
            self.check_delete_preconditions(options, &old)?;
            if let Some(name) = admitted {
                self.admit_delete(name, &old, options).await?;
            }
            let mut marked = old.clone();
            let step = self.mark_deleted(&mut marked, options);
            let marked_changed = marked != old;
            if step == Step::Wait {
                if !marked_changed {
                    return Ok(Outcome::Waits(Written::Stored(current)));
                }
                if options.dry_run {
                    return Ok(Outcome::Waits(Written::Unwritten(marked)));
                }
                let change = self.put(marked).await?;
                match self.commit_over(&key, &current, change).await? {
                    Some(written) => return Ok(Outcome::Waits(written)),
                    None => continue,
                }
            }
            if options.dry_run {
                return Ok(Outcome::Gone(marked));
            }
            // A pod that goes at once still shows its deletion first, as it does to whoever watches it.
            let current = match (step, marked_changed) {
                (Step::MarkAndGo, true) => {
                    let change = self.put(marked.clone()).await?;
                    match self.commit_over(&key, &current, change).await? {
                        Some(Written::Stored(stored)) => stored,
                        _ => continue,
                    }
                }
                _ => current,
            };
            if self.commit_over(&key, &current, Self::removal(None)).await?.is_some() {
                return Ok(Outcome::Gone(self.last_state(&current, marked).await));
            }
        }
    }

    async fn last_state(&self, removed: &Arc<Stored>, marked: Value) -> Value {
        if !self.resource.returns_deleted() {
            return marked;
        }
        self.load(removed).await.unwrap_or(marked)
    }

    fn check_delete_preconditions(&self, options: &DeleteOptions, object: &Value) -> Result<(), ApiError> {
        let conflict = |why: String| Err(ApiError::conflict(&self.resource.subject(), &self.name, why));
        let uid = access::get_str(object, &["metadata", "uid"]);
        if let Some(wanted) = options.uid.as_deref().filter(|wanted| *wanted != uid) {
            return conflict(format!(
                "Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}"
            ));
        }
        let version = access::get_str(object, &["metadata", "resourceVersion"]);
        if let Some(wanted) = options.resource_version.as_deref().filter(|wanted| *wanted != version) {
            return conflict(format!(
                "Precondition failed: ResourceVersion in precondition: {wanted}, ResourceVersion in object meta: {version}"
            ));
        }
        Ok(())
    }

    /// Marks an object as being deleted and says what comes next.
    fn mark_deleted(&self, object: &mut Value, options: &DeleteOptions) -> Step {
        let was_deleting = access::has(object, &["metadata", "deletionTimestamp"]);
        if let Some(grace) = self.resource.grace_period(object, options.grace_period_seconds) {
            if was_deleting {
                let left = access::get_i64(object, &["metadata", "deletionGracePeriodSeconds"]);
                match (left, options.grace_period_seconds) {
                    (None, _) => return Step::Go,
                    (Some(left), Some(_)) if grace < left => self.shorten_grace(object, left, grace),
                    _ => return Step::Wait,
                }
            } else {
                self.set_deletion(object, grace);
            }
            self.set_propagation(object, options);
            let held = !access::items(object, &["metadata", "finalizers"]).is_empty();
            return if held || grace > 0 { Step::Wait } else { Step::MarkAndGo };
        }
        self.set_propagation(object, options);
        if access::items(object, &["metadata", "finalizers"]).is_empty()
            && !self.resource.waits_for_content(object)
        {
            return Step::Go;
        }
        if !was_deleting {
            self.set_deletion(object, 0);
        }
        self.resource.mark_terminating(object, &self.server.clock.now_text());
        Step::Wait
    }

    fn set_deletion(&self, object: &mut Value, grace: i64) {
        let at = self.server.clock.now().saturating_add(SignedDuration::from_secs(grace));
        let at = at.unwrap_or(jiff::Timestamp::MAX);
        access::set(object, &["metadata", "deletionTimestamp"], clock::seconds(at));
        access::set(object, &["metadata", "deletionGracePeriodSeconds"], grace);
        if let Some(generation) = access::get_i64(object, &["metadata", "generation"]).filter(|one| *one > 0)
        {
            access::set(object, &["metadata", "generation"], generation + 1);
        }
    }

    fn shorten_grace(&self, object: &mut Value, left: i64, grace: i64) {
        let at: Option<jiff::Timestamp> =
            access::get_str(object, &["metadata", "deletionTimestamp"]).parse().ok();
        let at = at.and_then(|at| at.checked_sub(SignedDuration::from_secs(left - grace)).ok());
        let at = at.unwrap_or_else(|| self.server.clock.now());
        access::set(object, &["metadata", "deletionTimestamp"], clock::seconds(at));
        access::set(object, &["metadata", "deletionGracePeriodSeconds"], grace);
    }

    /// The finalizers through which the garbage collector learns what to do with dependents.
    fn set_propagation(&self, object: &mut Value, options: &DeleteOptions) {
        let finalizers: Vec<String> = access::items(object, &["metadata", "finalizers"])
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        let has = |name: &str| finalizers.iter().any(|one| one == name);
        let wanted = options.propagation.or_else(|| {
            if has(ORPHAN) {
                Some(Propagation::Orphan)
            } else if has(FOREGROUND) {
                Some(Propagation::Foreground)
            } else {
                self.resource.default_propagation()
            }
        });
        if !self.resource.is_garbage_collected() {
            return;
        }
        let add = match wanted {
            Some(Propagation::Orphan) => Some(ORPHAN),
            Some(Propagation::Foreground) => Some(FOREGROUND),
            _ => None,
        };
        if add.is_some_and(has) && !(has(ORPHAN) && has(FOREGROUND)) {
            return;
        }
        let mut next: Vec<&str> = finalizers
            .iter()
            .map(String::as_str)
            .filter(|one| *one != ORPHAN && *one != FOREGROUND)
            .collect();
        next.extend(add);
        if next != finalizers {
            if next.is_empty() {
                access::remove(object, &["metadata", "finalizers"]);
            } else {
                access::set(object, &["metadata", "finalizers"], next);
            }
        }
    }
}

/// What follows the marking of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Remove it.
    Go,
    /// Store the mark, then remove it.
    MarkAndGo,
    /// Store the mark; somebody else lets it go.
    Wait,
}
