//! The objects every cluster starts with.

mod first;

use std::sync::Arc;

use serde_json::{Value, json};

use self::first::First;
use crate::{
    auth,
    error::ApiError,
    kinds::access,
    rest::options::{FieldValidation, WriteOptions},
    server::Server,
};

/// Groups and their priorities, as discovery orders them.
const PRIORITIES: [(&str, i64); 20] = [
    ("", 18000),
    ("apps", 17800),
    ("events.k8s.io", 17750),
    ("authentication.k8s.io", 17700),
    ("authorization.k8s.io", 17600),
    ("autoscaling", 17500),
    ("batch", 17400),
    ("certificates.k8s.io", 17300),
    ("networking.k8s.io", 17200),
    ("policy", 17100),
    ("rbac.authorization.k8s.io", 17000),
    ("storage.k8s.io", 16800),
    ("admissionregistration.k8s.io", 16700),
    ("apiextensions.k8s.io", 16700),
    ("scheduling.k8s.io", 16600),
    ("coordination.k8s.io", 16500),
    ("node.k8s.io", 16300),
    ("discovery.k8s.io", 16200),
    ("resource.k8s.io", 16200),
    ("flowcontrol.apiserver.k8s.io", 16100),
];

impl Server {
    /// Puts the first objects into an empty store, or completes them in one that is not.
    pub(crate) async fn bootstrap(self: &Arc<Self>) -> Result<(), ApiError> {
        if self.store.snapshot().resources().next().is_some() {
            return self.complete().await;
        }
        let first = First::get().await?;
        let writes = first.writes(&self.entropy, &self.clock.now_text());
        self.store.commit_all(writes).await.map_err(ApiError::internal)?;
        self.change_rules(|rules| rules.clone_from(&first.rules));
        self.services.lock().clone_from(&first.services);
        Ok(())
    }

    /// Creates what is missing of the first objects, and reads what the store holds into memory.
    async fn complete(self: &Arc<Self>) -> Result<(), ApiError> {
        self.read_rights();
        self.read_services();
        self.refresh_definitions().await?;
        for name in ["kube-system", "kube-public", "kube-node-lease", "default"] {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            self.ensure("namespaces", object).await?;
        }
        for object in auth::bootstrap::objects() {
            let plural = format!("{}s", access::get_str(&object, &["kind"]).to_lowercase());
            self.ensure(&plural, object).await?;
        }
        for (name, value, description) in [
            (
                "system-node-critical",
                2_000_001_000,
                "Used for system critical pods that must not be moved from their current node.",
            ),
            (
                "system-cluster-critical",
                2_000_000_000,
                "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
            ),
        ] {
            let object = json!({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
                "value": value, "description": description,
            });
            self.ensure("priorityclasses", object).await?;
        }
        for (group, priority) in PRIORITIES {
            self.ensure_api_service(group, priority).await?;
        }
        let cidr = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "kubernetes"},
            "spec": {"cidrs": ["10.96.0.0/16"]},
        });
        let ready = json!({"conditions": [{
            "type": "Ready", "status": "True", "lastTransitionTime": self.clock.now_text(), "reason": "",
            "message": "Kubernetes default Service CIDR is ready",
        }]});
        self.ensure("servicecidrs", cidr).await?;
        self.ensure_status("networking.k8s.io", "servicecidrs", "kubernetes", ready).await?;
        self.ensure("services", kubernetes_service()).await?;
        self.ensure("endpoints", kubernetes_endpoints()).await?;
        self.ensure("endpointslices", kubernetes_slice()).await?;
        Ok(())
    }

    async fn ensure_api_service(self: &Arc<Self>, group: &str, priority: i64) -> Result<(), ApiError> {
        let versions: Vec<Arc<str>> = self
            .registry()
            .group(group)
            .map(|group| group.versions.iter().map(|version| version.name.clone()).collect())
            .unwrap_or_default();
        for (index, version) in versions.iter().rev().enumerate() {
            let mut spec = json!({
                "version": &**version, "groupPriorityMinimum": priority, "versionPriority": 15 * (index + 1),
            });
            if !group.is_empty() {
                spec["group"] = group.into();
            }
            let object = json!({
                "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
                "metadata": {
                    "name": format!("{version}.{group}"),
                    "labels": {"kube-aggregator.kubernetes.io/automanaged": "onstart"},
                },
                "spec": spec,
            });
            let available = json!({"conditions": [{
                "type": "Available", "status": "True", "lastTransitionTime": self.clock.now_text(),
                "reason": "Local", "message": "Local APIServices are always available",
            }]});
            self.ensure("apiservices", object).await?;
            let name = format!("{version}.{group}");
            self.ensure_status("apiregistration.k8s.io", "apiservices", &name, available).await?;
        }
        Ok(())
    }

    /// Creates an object unless there is one of its name.
    pub(crate) async fn ensure(self: &Arc<Self>, plural: &str, mut object: Value) -> Result<(), ApiError> {
        let api_version = access::get_str(&object, &["apiVersion"]);
        let group = api_version.split_once('/').map_or("", |(group, _)| group).to_owned();
        let namespace = access::get_str(&object, &["metadata", "namespace"]).to_owned();
        let Some(mut scope) = self.internal(&group, plural, &namespace, "", "") else {
            return Err(ApiError::internal(format!("{plural}.{group} is not in the catalogue")));
        };
        scope.name = access::get_str(&object, &["metadata", "name"]).to_owned();
        if self.store.get(scope.storage(), &scope.key()).is_some() {
            return Ok(());
        }
        scope.name.clear();
        let options = WriteOptions {
            dry_run: false,
            manager: "kube-apiserver".to_owned(),
            validation: FieldValidation::Ignore,
            force: false,
        };
        scope.resource.default(&mut object);
        scope.record_update(scope.resource.empty(), &mut object, &options.manager);
        scope.create_object(object, &options).await.map(|_| ())
    }

    /// Gives an object a status unless it has one.
    async fn ensure_status(
        self: &Arc<Self>,
        group: &str,
        plural: &str,
        name: &str,
        status: Value,
    ) -> Result<(), ApiError> {
        let Some(scope) = self.internal(group, plural, "", name, "status") else { return Ok(()) };
        let mut set = |object: &mut Value| {
            if access::items(object, &["status", "conditions"]).is_empty() {
                access::set(object, &["status"], status.clone());
            }
        };
        scope.change("kube-apiserver", &mut set).await
    }

    /// What the services of the store have.
    fn read_services(&self) {
        let collection = self.store.collection(&crate::store::ResourceId::new("", "services"));
        let mut services = self.services.lock();
        for stored in collection.range("", "") {
            if let Ok(service) = crate::rest::codec::parse(&stored.bytes) {
                services.record(&stored.key, Some(&service));
            }
        }
    }

    /// Rights of what the store already holds.
    fn read_rights(&self) {
        let snapshot = self.store.snapshot();
        for (plural, kind) in [
            ("roles", "Role"),
            ("clusterroles", "ClusterRole"),
            ("rolebindings", "RoleBinding"),
            ("clusterrolebindings", "ClusterRoleBinding"),
        ] {
            let collection = snapshot.collection(&crate::store::ResourceId::new(auth::rbac::GROUP, plural));
            for stored in collection.range("", "") {
                if let Ok(mut object) = crate::rest::codec::parse(&stored.bytes) {
                    object["kind"] = kind.into();
                    self.change_rules(|rules| rules.upsert(&object));
                }
            }
        }
    }
}

/// The service through which pods reach the API server.
fn kubernetes_service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "type": "ClusterIP", "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"],
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None",
            "internalTrafficPolicy": "Cluster",
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}],
        },
    })
}

/// Where that service leads. Nobody is there: the server has no address in the network of pods.
const CONTROL_PLANE: &str = "172.18.0.1";

fn kubernetes_endpoints() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": [{
            "addresses": [{"ip": CONTROL_PLANE}],
            "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}],
        }],
    })
}

fn kubernetes_slice() -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"kubernetes.io/service-name": "kubernetes"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [CONTROL_PLANE], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}],
    })
}
