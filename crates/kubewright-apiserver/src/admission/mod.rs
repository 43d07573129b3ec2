//! What stands between a well-formed request and the store: namespace lifecycle, escalation of rights, limit
//! ranges, webhooks, policies, quotas.
//!
//! A write is first admitted, which may change its object, then validated, prepared and checked by the verb,
//! and at last validated here again as it is going to be stored. Nothing here writes to the store, but for what
//! quotas count.

mod amounts;
mod attributes;
mod built_in;
mod configurations;
pub(crate) mod expressions;
mod lifecycle;
mod limit_ranges;
mod matching;
mod policy;
pub(crate) mod quota;
#[cfg(test)]
mod tests;
mod webhook;

use std::sync::Arc;

use serde_json::Value;

pub(crate) use self::configurations::Configurations;
use self::{attributes::Attributes, configurations::InForce, matching::Objects, webhook::Reinvocation};
use crate::{
    auth::rbac,
    error::ApiError,
    fields::{
        self,
        folded::{self, unfolded},
    },
    kinds::access,
    rest::{
        Scope,
        options::{DeleteOptions, WriteOptions},
    },
};

/// What happens to the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

impl Scope {
    /// Lets admission change the object of a write.
    pub(crate) async fn admit(
        &self,
        operation: Operation,
        object: &mut Value,
        old: Option<&Value>,
        options: &WriteOptions,
    ) -> Result<(), ApiError> {
        self.check_namespace_lifecycle(operation)?;
        self.admit_built_in(operation, object)?;
        if let Some(in_force) = self.in_force(operation).filter(|in_force| !in_force.mutating.is_empty()) {
            let request = self.attributes(operation, object, options);
            if self.subresource == "scale" {
                Box::pin(self.mutate_scale(&request, &in_force, object, old)).await?;
            } else {
                // On the heap, so that the many writes that no webhook concerns stay small.
                Box::pin(mutate(&request, &in_force, Some(object), old)).await?;
                self.deduplicate_owners(object, " after mutating admission happens");
            }
        }
        if &*self.resource.group == rbac::GROUP && self.subresource.is_empty() {
            let write =
                rbac::Write { user: &self.user, namespace: &self.namespace, name: &self.name, object, old };
            self.server.rules().check_escalation(&write)?;
        }
        Ok(())
    }

    /// Lets admission refuse a write that is otherwise in order.
    pub(crate) async fn validate_admission(
        &self,
        operation: Operation,
        object: &Value,
        old: Option<&Value>,
        options: &WriteOptions,
    ) -> Result<(), ApiError> {
        self.check_limits(operation, object, old)?;
        if let Some(in_force) = self.in_force(operation) {
            self.ask_validators(&in_force, operation, object, old, options).await?;
        }
        self.charge_quotas(operation, object, old, options).await
    }

    async fn ask_validators(
        &self,
        in_force: &InForce,
        operation: Operation,
        object: &Value,
        old: Option<&Value>,
        options: &WriteOptions,
    ) -> Result<(), ApiError> {
        let request = self.attributes(operation, object, options);
        if self.subresource == "scale" {
            let (scale, old) = (self.scale_of(object)?, old.map(|old| self.scale_of(old)).transpose()?);
            let objects = Objects { object: Some(&scale), old: old.as_ref() };
            return Box::pin(validate(&request, in_force, objects)).await;
        }
        Box::pin(validate(&request, in_force, Objects { object: Some(object), old })).await
    }

    /// Lets admission refuse a delete. `name` is empty if the object goes as part of a collection.
    pub(crate) async fn admit_delete(
        &self,
        name: &str,
        old: &Value,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        self.check_namespace_lifecycle(Operation::Delete)?;
        let Some(in_force) = self.in_force(Operation::Delete) else { return Ok(()) };
        let request = Attributes::new(
            self,
            Operation::Delete,
            name,
            attributes::delete_options(options),
            options.dry_run,
        );
        mutate(&request, &in_force, None, Some(old)).await?;
        validate(&request, &in_force, Objects { object: None, old: Some(old) }).await
    }

    /// Lets admission refuse a connection to a part of an object, such as `exec`.
    pub(crate) async fn admit_connect(&self, mut options: Value) -> Result<(), ApiError> {
        let Some(in_force) = self.in_force(Operation::Connect) else { return Ok(()) };
        let request = Attributes::new(self, Operation::Connect, &self.name, Value::Null, false);
        mutate(&request, &in_force, Some(&mut options), None).await?;
        validate(&request, &in_force, Objects { object: Some(&options), old: None }).await
    }

    /// The webhooks and policies this request may concern; webhooks and policies themselves concern none.
    fn in_force(&self, operation: Operation) -> Option<Arc<InForce>> {
        // A pod that is bound was asked about as the creation of a binding.
        let is_bound = operation == Operation::Update && self.subresource == "binding";
        if &*self.resource.group == configurations::GROUP || is_bound {
            return None;
        }
        Some(self.server.admission.current(&self.server.store)).filter(|in_force| !in_force.is_empty())
    }

    fn attributes(&self, operation: Operation, object: &Value, options: &WriteOptions) -> Attributes<'_> {
        let kind = if operation == Operation::Create { "CreateOptions" } else { "UpdateOptions" };
        let given = attributes::write_options(self, kind, options.dry_run);
        let name = match self.name.as_str() {
            "" => access::get_str(object, &["metadata", "name"]),
            name => name,
        };
        Attributes::new(self, operation, name, given, options.dry_run)
    }

    /// Webhooks see a change of `/scale` as one of a Scale; only its replicas count.
    async fn mutate_scale(
        &self,
        request: &Attributes<'_>,
        in_force: &InForce,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), ApiError> {
        let old = old.map(|old| self.scale_of(old)).transpose()?;
        let before = self.scale_of(object)?;
        let mut scale = before.clone();
        mutate(request, in_force, Some(&mut scale), old.as_ref()).await?;
        if access::same(&scale, &before, &["spec", "replicas"]) {
            return Ok(());
        }
        self.carry_over(object, &scale)
    }
}

/// Runs what may change the object, which is folded, and once more what wants to see the changes of the others.
async fn mutate(
    request: &Attributes<'_>,
    in_force: &InForce,
    mut object: Option<&mut Value>,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let managed =
        object.as_deref().and_then(|object| access::get(object, &["metadata", "managedFields"])).cloned();
    object.as_deref_mut().into_iter().for_each(folded::unfold);
    let old = old.map(unfolded);
    let old = old.as_ref();
    let mut reinvocation = Reinvocation::default();
    webhook::mutate(request, &in_force.mutating, object.as_deref_mut(), old, &mut reinvocation).await?;
    if reinvocation.again() {
        webhook::mutate(request, &in_force.mutating, object.as_deref_mut(), old, &mut reinvocation).await?;
    }
    let Some(object) = object else { return Ok(()) };
    folded::fold(object);
    if let Err(why) = fields::check_managed_fields(object) {
        match managed {
            Some(managed) => access::set(object, &["metadata", "managedFields"], managed),
            None => drop(access::remove(object, &["metadata", "managedFields"])),
        }
        request.scope.warn(format!(
            ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated \
             mutating admission controller; please fix your requests: {why}"
        ));
    }
    Ok(())
}

async fn validate(
    request: &Attributes<'_>,
    in_force: &InForce,
    objects: Objects<'_>,
) -> Result<(), ApiError> {
    let (object, old) = (objects.object.map(unfolded), objects.old.map(unfolded));
    let objects = Objects { object: object.as_ref(), old: old.as_ref() };
    policy::validating::validate(request, &in_force.policies, objects).await?;
    webhook::validate(request, &in_force.validating, objects).await
}
