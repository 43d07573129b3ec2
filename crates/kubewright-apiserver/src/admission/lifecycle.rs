//! Objects are created only in namespaces that exist and stay, and some namespaces stay for ever.

use super::Operation;
use crate::{
    error::{ApiError, Cause, Subject},
    rest::Scope,
    store::ResourceId,
};

/// Namespaces that the cluster can't do without.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

impl Scope {
    pub(super) fn check_namespace_lifecycle(&self, operation: Operation) -> Result<(), ApiError> {
        let subject = self.resource.subject();
        if &*self.resource.plural == "namespaces" && self.resource.group.is_empty() {
            if operation == Operation::Delete && IMMORTAL.contains(&self.name.as_str()) {
                return Err(ApiError::forbidden(&subject, &self.name, "this namespace may not be deleted"));
            }
            return Ok(());
        }
        if !self.resource.namespaced
            || operation != Operation::Create
            || &*self.resource.plural == "localsubjectaccessreviews"
        {
            return Ok(());
        }
        let namespaces = ResourceId::new("", "namespaces");
        let Some(stored) = self.server.store.get(&namespaces, &self.namespace) else {
            let subject = Subject { group: "", resource: "namespaces", kind: "Namespace" };
            return Err(ApiError::not_found(&subject, &self.namespace));
        };
        if stored.fields.get("status.phase") != Some("Terminating") {
            return Ok(());
        }
        let why = format!(
            "unable to create new content in namespace {} because it is being terminated",
            self.namespace
        );
        let mut error = ApiError::forbidden(&subject, &self.name, why);
        if let Some(details) = &mut error.details {
            details.causes.push(Cause {
                reason: "NamespaceTerminating".to_owned(),
                message: format!("namespace {} is being terminated", self.namespace),
                field: "metadata.namespace".to_owned(),
            });
        }
        Err(error)
    }
}
