//! What most kinds with `spec` and `status` do alike when they are written.

use serde_json::Value;

use super::access::{copy_from, same};

/// An ordinary update does not touch the status.
pub(crate) fn keep_status(object: &mut Value, old: &Value) {
    copy_from(object, old, &["status"]);
}

/// An update of `/status` does not touch the spec.
pub(crate) fn keep_spec(object: &mut Value, old: &Value) {
    copy_from(object, old, &["spec"]);
}

/// Whether the spec differs, which raises the generation of most kinds.
pub(crate) fn spec_changed(object: &Value, old: &Value) -> bool {
    !same(object, old, &["spec"])
}
