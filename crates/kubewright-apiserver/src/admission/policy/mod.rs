//! Policies: rules about requests that are written as expressions, and the bindings that put them into force.

mod params;
pub(super) mod validating;

use serde_json::Value;

use super::attributes::Attributes;
use crate::{error::ApiError, kinds::access, rest::codec, store::ResourceId};

/// The namespace of a request as expressions see it: without what they have no use for.
fn namespace_object(request: &Attributes<'_>) -> Result<Value, ApiError> {
    let resource = request.resource();
    let is_namespace = resource.group.is_empty() && &*resource.kind == "Namespace";
    if request.namespace.is_empty() || is_namespace {
        return Ok(Value::Null);
    }
    let stored = request.scope.server.store.get(&ResourceId::new("", "namespaces"), &request.namespace);
    let Some(stored) = stored else {
        let subject = crate::error::Subject { group: "", resource: "namespaces", kind: "Namespace" };
        return Err(ApiError::not_found(&subject, &request.namespace));
    };
    let mut namespace = codec::parse(&stored.bytes)?;
    for hidden in ["managedFields", "ownerReferences", "selfLink"] {
        access::remove(&mut namespace, &["metadata", hidden]);
    }
    Ok(namespace)
}
