//! Descriptions of the built-in kinds and their fields, from k8s-openapi.
//!
//! The type table knows the shape of every type; what the fields are for is told here, to `kubectl explain`
//! and to whoever else reads the OpenAPI documents. Made on request for one group and version.

use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value};

macro_rules! describe {
    ($generator:ident, $($module:ident)::+: $($kind:ident),+) => {{
        use $($module)::+ as types;
        $( $generator.subschema_for::<types::$kind>(); )+
    }};
}

/// The schemas of everything the kinds of a group and version mention, by definition name.
fn schemas(group: &str, version: &str) -> Map<String, Value> {
    let mut generator = SchemaGenerator::new(SchemaSettings::openapi3());
    describe!(generator, k8s_openapi::apimachinery::pkg::apis::meta::v1: DeleteOptions, ListMeta, ObjectMeta, Status);
    match (group, version) {
        ("", "v1") => {
            describe!(generator, k8s_openapi::api::core::v1: Binding, ComponentStatus, ConfigMap, Endpoints, Event, LimitRange, Namespace, Node, PersistentVolumeClaim, PersistentVolume, Pod, PodTemplate, ReplicationController, ResourceQuota, Secret, ServiceAccount, Service)
        }
        ("apiregistration.k8s.io", "v1") => {
            describe!(generator, k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1: APIService)
        }
        ("apps", "v1") => {
            describe!(generator, k8s_openapi::api::apps::v1: ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet)
        }
        ("events.k8s.io", "v1") => describe!(generator, k8s_openapi::api::events::v1: Event),
        ("authentication.k8s.io", "v1") => {
            describe!(generator, k8s_openapi::api::authentication::v1: SelfSubjectReview, TokenReview)
        }
        ("authorization.k8s.io", "v1") => {
            describe!(generator, k8s_openapi::api::authorization::v1: LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview)
        }
        ("autoscaling", "v2") => {
            describe!(generator, k8s_openapi::api::autoscaling::v2: HorizontalPodAutoscaler)
        }
        ("autoscaling", "v1") => {
            describe!(generator, k8s_openapi::api::autoscaling::v1: HorizontalPodAutoscaler)
        }
        ("batch", "v1") => describe!(generator, k8s_openapi::api::batch::v1: CronJob, Job),
        ("certificates.k8s.io", "v1") => {
            describe!(generator, k8s_openapi::api::certificates::v1: CertificateSigningRequest)
        }
        ("networking.k8s.io", "v1") => {
            describe!(generator, k8s_openapi::api::networking::v1: IngressClass, Ingress, IPAddress, NetworkPolicy, ServiceCIDR)
        }
        ("policy", "v1") => describe!(generator, k8s_openapi::api::policy::v1: PodDisruptionBudget),
        ("rbac.authorization.k8s.io", "v1") => {
            describe!(generator, k8s_openapi::api::rbac::v1: ClusterRoleBinding, ClusterRole, RoleBinding, Role)
        }
        ("storage.k8s.io", "v1") => {
            describe!(generator, k8s_openapi::api::storage::v1: CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment, VolumeAttributesClass)
        }
        ("admissionregistration.k8s.io", "v1") => {
            describe!(generator, k8s_openapi::api::admissionregistration::v1: MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration)
        }
        ("apiextensions.k8s.io", "v1") => {
            describe!(generator, k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1: CustomResourceDefinition)
        }
        ("scheduling.k8s.io", "v1") => describe!(generator, k8s_openapi::api::scheduling::v1: PriorityClass),
        ("coordination.k8s.io", "v1") => describe!(generator, k8s_openapi::api::coordination::v1: Lease),
        ("node.k8s.io", "v1") => describe!(generator, k8s_openapi::api::node::v1: RuntimeClass),
        ("discovery.k8s.io", "v1") => describe!(generator, k8s_openapi::api::discovery::v1: EndpointSlice),
        ("resource.k8s.io", "v1") => {
            describe!(generator, k8s_openapi::api::resource::v1: DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice)
        }
        ("flowcontrol.apiserver.k8s.io", "v1") => {
            describe!(generator, k8s_openapi::api::flowcontrol::v1: FlowSchema, PriorityLevelConfiguration)
        }
        _ => {}
    }
    generator.take_definitions(false)
}

/// Adds descriptions to `documents`, which are schemas by definition name.
pub(super) fn add(group: &str, version: &str, documents: &mut Map<String, Value>) {
    for (name, described) in schemas(group, version) {
        let Some(document) = documents.get_mut(&name) else { continue };
        copy(&described, document);
        let Some(Value::Object(fields)) = document.get_mut("properties") else { continue };
        for (field, schema) in fields {
            if let Some(described) = described.get("properties").and_then(|fields| fields.get(field)) {
                copy(described, schema);
            }
        }
    }
}

fn copy(described: &Value, document: &mut Value) {
    if let (Some(text), Value::Object(document)) = (described.get("description"), document) {
        document.insert("description".to_owned(), text.clone());
    }
}
