//! The pod spec, which pods and all templates share: defaults, validation, warnings.
//!
//! Each part works on the spec alone and is told by [`Owner`] whose spec it is; what only a pod has
//! (status, what an update may change) is in [`super::pod`].

mod containers;
mod defaults;
mod env;
mod probes;
mod resources;
mod scheduling;
mod security;
mod validation;
mod volumes;
mod warnings;

pub(crate) use containers::image_padding;
pub(crate) use defaults::{
    drop_retired_annotations, pod_only as default_pod_only, pod_spec as default_pod_spec,
    shared_volume_source as default_volume_source, template as default_template,
};
pub(crate) use resources::{
    amount as resource_amount, container_resource_name, is_overcommittable, is_standard_quota,
    quota_resource_name, resource_name, round_amounts,
};
pub(crate) use scheduling::{node_selector, taint_effect, tolerations};
pub(crate) use validation::{
    Owner, pod_annotations, pod_spec as validate_pod_spec, template as validate_template,
};
pub(crate) use volumes::{csi_driver_name, file_mode, host_path, nfs};
pub(crate) use warnings::{node_selector_term_warnings, pod_warnings};

use serde_json::Value;

use super::super::report::At;

/// All containers of a pod spec with their places: init, regular, ephemeral, in this order.
pub(crate) fn each_container<'v>(spec: &At<'v, '_>, mut visit: impl FnMut(&At<'v, '_>)) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.field(list).items() {
            visit(&container);
        }
    }
}

/// Whether an init container keeps running beside the regular ones.
pub(crate) fn is_sidecar(container: &Value) -> bool {
    container.get("restartPolicy").and_then(Value::as_str) == Some("Always")
}
