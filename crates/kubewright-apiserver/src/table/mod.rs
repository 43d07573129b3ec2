//! Objects as rows for people: the `Table` that `kubectl get` asks for.
//!
//! In go whole objects, out come the columns of their kind and one row of cells each. A [`Printer`] knows
//! the columns and cells of one kind; [`Table`] puts them into the document of `meta.k8s.io`. Nothing here
//! looks at the store, and no object, however odd, makes a printer fail: what is missing shows as empty.

mod cluster;
mod columns;
mod configuration;
mod devices;
mod document;
mod format;
mod network;
mod pods;
mod storage;
#[cfg(test)]
mod tests;
mod workloads;

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

pub(crate) use document::{
    IncludeObject, ListMeta, MetaVersion, Options, PartialObjectMetadata, PartialObjectMetadataList, Table,
};

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Column {
    /// Its heading.
    pub name: Cow<'static, str>,
    /// The OpenAPI type of its cells.
    #[serde(rename = "type")]
    pub kind: Cow<'static, str>,
    /// The OpenAPI format of its cells; `name` marks the column with the object's name.
    pub format: Cow<'static, str>,
    /// What it shows.
    pub description: Cow<'static, str>,
    /// 0 for what is always shown; clients show columns with a greater number on request only.
    pub priority: i32,
}

impl Column {
    const fn fixed(
        name: &'static str,
        kind: &'static str,
        format: &'static str,
        description: &'static str,
        priority: i32,
    ) -> Self {
        Self {
            name: Cow::Borrowed(name),
            kind: Cow::Borrowed(kind),
            format: Cow::Borrowed(format),
            description: Cow::Borrowed(description),
            priority,
        }
    }
}

/// The columns of a kind, and how an object fills them.
#[derive(Clone, Copy)]
pub(crate) struct Printer<'a> {
    columns: &'a [Column],
    cells: Cells<'a>,
}

#[derive(Clone, Copy)]
enum Cells<'a> {
    /// Name and creation time, of a kind that has no printer.
    Default,
    BuiltIn(fn(&Value, Timestamp) -> Vec<Value>),
    Custom(&'a dyn Fn(&Value, Timestamp) -> Vec<Value>),
}

impl<'a> Printer<'a> {
    /// The printer of a built-in kind.
    pub(crate) fn built_in(group: &str, kind: &str) -> Printer<'static> {
        let (columns, cells) = match built_in(group, kind) {
            Some((columns, cells)) => (columns, Cells::BuiltIn(cells)),
            None => (columns::DEFAULT, Cells::Default),
        };
        Printer { columns, cells }
    }

    /// A printer whose columns and cells come from elsewhere, as those of custom resources do.
    pub(crate) fn custom(columns: &'a [Column], cells: &'a dyn Fn(&Value, Timestamp) -> Vec<Value>) -> Self {
        Self { columns, cells: Cells::Custom(cells) }
    }

    /// The cells of one object's row.
    pub(crate) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match self.cells {
            Cells::Default => vec![format::name(object), format::created_at(object)],
            Cells::BuiltIn(cells) => cells(object, now),
            Cells::Custom(cells) => cells(object, now),
        }
    }
}

type BuiltIn = (&'static [Column], fn(&Value, Timestamp) -> Vec<Value>);

fn built_in(group: &str, kind: &str) -> Option<BuiltIn> {
    let printer: BuiltIn = match (group, kind) {
        ("", "ComponentStatus") => (columns::COMPONENT_STATUS, cluster::component_status),
        ("", "ConfigMap") => (columns::CONFIG_MAP, configuration::config_map),
        ("", "Endpoints") => (columns::ENDPOINTS, network::endpoints),
        ("" | "events.k8s.io", "Event") => (columns::EVENT, cluster::event),
        ("", "Namespace") => (columns::NAMESPACE, cluster::namespace),
        ("", "Node") => (columns::NODE, cluster::node),
        ("", "PersistentVolume") => (columns::PERSISTENT_VOLUME, storage::persistent_volume),
        ("", "PersistentVolumeClaim") => (columns::PERSISTENT_VOLUME_CLAIM, storage::persistent_volume_claim),
        ("", "Pod") => (columns::POD, pods::pod),
        ("", "PodTemplate") => (columns::POD_TEMPLATE, pods::pod_template),
        ("", "ReplicationController") => (columns::REPLICATION_CONTROLLER, workloads::replication_controller),
        ("", "ResourceQuota") => (columns::RESOURCE_QUOTA, configuration::resource_quota),
        ("", "Secret") => (columns::SECRET, configuration::secret),
        ("", "Service") => (columns::SERVICE, network::service),
        ("", "ServiceAccount") => (columns::SERVICE_ACCOUNT, format::name_and_age),
        ("admissionregistration.k8s.io", kind) => match kind {
            "MutatingAdmissionPolicy" => (columns::MUTATING_ADMISSION_POLICY, configuration::mutating_policy),
            "MutatingAdmissionPolicyBinding" => {
                (columns::MUTATING_ADMISSION_POLICY_BINDING, configuration::policy_binding)
            }
            "MutatingWebhookConfiguration" => {
                (columns::MUTATING_WEBHOOK_CONFIGURATION, configuration::webhook_configuration)
            }
            "ValidatingAdmissionPolicy" => {
                (columns::VALIDATING_ADMISSION_POLICY, configuration::validating_policy)
            }
            "ValidatingAdmissionPolicyBinding" => {
                (columns::VALIDATING_ADMISSION_POLICY_BINDING, configuration::policy_binding)
            }
            "ValidatingWebhookConfiguration" => {
                (columns::VALIDATING_WEBHOOK_CONFIGURATION, configuration::webhook_configuration)
            }
            _ => return None,
        },
        ("apiregistration.k8s.io", "APIService") => (columns::API_SERVICE, cluster::api_service),
        ("apps", "ControllerRevision") => (columns::CONTROLLER_REVISION, workloads::controller_revision),
        ("apps", "DaemonSet") => (columns::DAEMON_SET, workloads::daemon_set),
        ("apps", "Deployment") => (columns::DEPLOYMENT, workloads::deployment),
        ("apps", "ReplicaSet") => (columns::REPLICA_SET, workloads::replica_set),
        ("apps", "StatefulSet") => (columns::STATEFUL_SET, workloads::stateful_set),
        ("autoscaling", "HorizontalPodAutoscaler") => {
            (columns::HORIZONTAL_POD_AUTOSCALER, workloads::horizontal_pod_autoscaler)
        }
        ("autoscaling", "Scale") => (columns::SCALE, workloads::scale),
        ("batch", "CronJob") => (columns::CRON_JOB, workloads::cron_job),
        ("batch", "Job") => (columns::JOB, workloads::job),
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            (columns::CERTIFICATE_SIGNING_REQUEST, configuration::certificate_signing_request)
        }
        ("certificates.k8s.io", "ClusterTrustBundle") => {
            (columns::CLUSTER_TRUST_BUNDLE, configuration::cluster_trust_bundle)
        }
        ("certificates.k8s.io", "PodCertificateRequest") => {
            (columns::POD_CERTIFICATE_REQUEST, configuration::pod_certificate_request)
        }
        ("coordination.k8s.io", "Lease") => (columns::LEASE, cluster::lease),
        ("coordination.k8s.io", "LeaseCandidate") => (columns::LEASE_CANDIDATE, cluster::lease_candidate),
        ("discovery.k8s.io", "EndpointSlice") => (columns::ENDPOINT_SLICE, network::endpoint_slice),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => (columns::FLOW_SCHEMA, cluster::flow_schema),
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => {
            (columns::PRIORITY_LEVEL_CONFIGURATION, cluster::priority_level_configuration)
        }
        ("internal.apiserver.k8s.io", "StorageVersion") => {
            (columns::STORAGE_VERSION, cluster::storage_version)
        }
        ("networking.k8s.io", "IPAddress") => (columns::IP_ADDRESS, network::ip_address),
        ("networking.k8s.io", "Ingress") => (columns::INGRESS, network::ingress),
        ("networking.k8s.io", "IngressClass") => (columns::INGRESS_CLASS, network::ingress_class),
        ("networking.k8s.io", "NetworkPolicy") => (columns::NETWORK_POLICY, network::network_policy),
        ("networking.k8s.io", "ServiceCIDR") => (columns::SERVICE_CIDR, network::service_cidr),
        ("node.k8s.io", "RuntimeClass") => (columns::RUNTIME_CLASS, cluster::runtime_class),
        ("policy", "PodDisruptionBudget") => {
            (columns::POD_DISRUPTION_BUDGET, workloads::pod_disruption_budget)
        }
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => {
            (columns::CLUSTER_ROLE_BINDING, configuration::role_binding)
        }
        ("rbac.authorization.k8s.io", "RoleBinding") => (columns::ROLE_BINDING, configuration::role_binding),
        ("resource.k8s.io", "DeviceClass") => (columns::DEVICE_CLASS, format::name_and_age),
        ("resource.k8s.io", "DeviceTaintRule") => (columns::DEVICE_TAINT_RULE, devices::device_taint_rule),
        ("resource.k8s.io", "ResourceClaim") => (columns::RESOURCE_CLAIM, devices::resource_claim),
        ("resource.k8s.io", "ResourceClaimTemplate") => {
            (columns::RESOURCE_CLAIM_TEMPLATE, format::name_and_age)
        }
        ("resource.k8s.io", "ResourcePoolStatusRequest") => {
            (columns::RESOURCE_POOL_STATUS_REQUEST, devices::resource_pool_status_request)
        }
        ("resource.k8s.io", "ResourceSlice") => (columns::RESOURCE_SLICE, devices::resource_slice),
        ("scheduling.k8s.io", "PodGroup") => (columns::POD_GROUP, workloads::pod_group),
        ("scheduling.k8s.io", "PriorityClass") => (columns::PRIORITY_CLASS, cluster::priority_class),
        ("scheduling.k8s.io", "Workload") => (columns::WORKLOAD, format::name_and_age),
        ("storage.k8s.io", "CSIDriver") => (columns::CSI_DRIVER, storage::csi_driver),
        ("storage.k8s.io", "CSINode") => (columns::CSI_NODE, storage::csi_node),
        ("storage.k8s.io", "StorageClass") => (columns::STORAGE_CLASS, storage::storage_class),
        ("storage.k8s.io", "VolumeAttachment") => (columns::VOLUME_ATTACHMENT, storage::volume_attachment),
        ("storage.k8s.io", "VolumeAttributesClass") => {
            (columns::VOLUME_ATTRIBUTES_CLASS, storage::volume_attributes_class)
        }
        ("storagemigration.k8s.io", "StorageVersionMigration") => {
            (columns::STORAGE_VERSION_MIGRATION, cluster::storage_version_migration)
        }
        _ => return None,
    };
    Some(printer)
}
