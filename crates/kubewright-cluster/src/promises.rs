//! What every operator promises, whatever it is about: that its children are kept, that trouble is told and passes,
//! that nothing is left behind and nothing is done in vain. Each promise is a test on a cluster of its own.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
};
use kubewright::{ManifestOptions, Operator};
use serde_json::{Value, json};

use crate::{TestCluster, TestOperator, nodes::Script};

/// Tests of an operator, one for each promise, with the `tokio::test` of the crate that they are in.
///
/// ```ignore
/// kubewright_cluster::promises!(Promises::of(operator, SAMPLE));
/// ```
///
/// Those of an operator without pods are named one by one:
///
/// ```ignore
/// kubewright_cluster::promises!(Promises::of(operator, SAMPLE); a_deleted_resource_leaves_nothing);
/// ```
#[macro_export]
macro_rules! promises {
    ($promises:expr) => {
        $crate::promises!($promises;
            a_child_changed_by_hand_is_put_right,
            a_crashing_pod_is_told_until_it_is_mended,
            a_deleted_child_comes_back,
            a_deleted_resource_leaves_nothing,
            a_lost_node_is_told_until_its_pods_are_elsewhere,
            a_lost_pod_is_replaced,
            a_missing_image_is_told_until_it_is_there,
            an_error_of_the_server_is_told_until_it_passes,
            an_operator_may_be_killed_after_any_write,
            an_operator_that_is_removed_leaves_everything_as_it_is,
            children_belong_to_their_resource,
            the_files_in_config_are_up_to_date,
            what_is_as_it_should_be_is_left_alone,
        );
    };
    ($promises:expr; $($promise:ident),+ $(,)?) => {
        $(
            #[tokio::test]
            async fn $promise() {
                $promises.$promise().await;
            }
        )+
    };
}

/// The promises of an operator, made for a sample of its resources. The status of the resource has the conditions
/// `Available`, `Progressing` and `Degraded`, and `observedGeneration`. See [`promises!`](crate::promises!).
pub struct Promises {
    operator: Box<dyn Fn() -> Operator>,
    sample: DynamicObject,
}

#[allow(clippy::panic, clippy::missing_panics_doc, reason = "a test says what is wrong by panicking")]
impl Promises {
    /// The promises of an operator, for a resource that is given as YAML.
    pub fn of(operator: impl Fn() -> Operator + 'static, sample: &str) -> Self {
        let sample =
            serde_saphyr::from_str(sample).unwrap_or_else(|why| panic!("the sample is no YAML: {why}"));
        Self { operator: Box::new(operator), sample }
    }

    /// A resource that was written when a field, such as `/spec/image`, did not exist yet, is looked after.
    pub async fn a_resource_from_before_a_field_is_looked_after(mut self, field: &str) {
        if TestCluster::is_left_out("the definition is changed under others") {
            return;
        }
        let cluster = TestCluster::start().await;
        let definition = (self.operator)().definitions().first().map(|definition| json!(definition));
        let mut definition = definition.expect("the operator brings a kind along");
        definition["apiVersion"] = json!("apiextensions.k8s.io/v1");
        definition["kind"] = json!("CustomResourceDefinition");
        for version in definition["spec"]["versions"].as_array_mut().into_iter().flatten() {
            let schema = &mut version["schema"]["openAPIV3Schema"];
            assert!(remove(schema, &field.replace('/', "/properties/")), "{field} is not in the schema");
        }
        cluster.apply(&definition.to_string()).await;
        remove(&mut self.sample.data, field);
        self.create(&cluster).await;
        let operator = cluster.run((self.operator)()).await;
        self.converges(&cluster, &operator).await;
    }

    /// A child that is changed by hand is put right.
    pub async fn a_child_changed_by_hand_is_put_right(&self) {
        let (cluster, operator) = self.healthy().await;
        for child in self.children(&cluster).await {
            let api = cluster.dynamic(&child).await;
            let (name, changed) = (child.name_any(), Patch::Merge(changed(&child)));
            let changed = api.patch(&name, &PatchParams::default(), &changed).await;
            changed.unwrap_or_else(|why| panic!("{name} was not changed: {why}"));
            let is_put_right = async |_: &TestCluster| {
                let now = api.get(&name).await.unwrap_or_else(|why| panic!("{name} is gone: {why}"));
                configuration(&now) == configuration(&child)
            };
            cluster.eventually(&format!("{} is put right", called(&child)), is_put_right).await;
        }
        self.converges(&cluster, &operator).await;
    }

    /// A child that is deleted comes back.
    pub async fn a_deleted_child_comes_back(&self) {
        let (cluster, operator) = self.healthy().await;
        for child in self.children(&cluster).await {
            let (name, api) = (child.name_any(), cluster.dynamic(&child).await);
            let deleted = api.delete(&name, &DeleteParams::default()).await;
            deleted.unwrap_or_else(|why| panic!("{name} was not deleted: {why}"));
            let is_back = async |_: &TestCluster| {
                let now = api.get_opt(&name).await.unwrap_or_else(|why| panic!("{name}: {why}"));
                now.is_some_and(|now| now.uid() != child.uid())
            };
            cluster.eventually(&format!("{} is back", called(&child)), is_back).await;
        }
        self.converges(&cluster, &operator).await;
    }

    /// When the resource is deleted, everything that was made for it goes.
    pub async fn a_deleted_resource_leaves_nothing(&self) {
        let cluster = TestCluster::start().await;
        let operator = cluster.run((self.operator)()).await;
        let names =
            async |cluster: &TestCluster| cluster.objects().await.iter().map(called).collect::<Vec<String>>();
        let before = names(&cluster).await;
        self.create(&cluster).await;
        self.converges(&cluster, &operator).await;
        self.delete(&cluster).await;
        cluster.eventually("nothing is left", async |cluster| names(cluster).await == before).await;
        assert!(self.find(&cluster).await.is_none(), "the resource itself is left");
    }

    /// If a node is lost, the resource says so until its pods run elsewhere.
    pub async fn a_lost_node_is_told_until_its_pods_are_elsewhere(&self) {
        if TestCluster::is_left_out("others have pods on the node") {
            return;
        }
        let cluster = TestCluster::with(|cluster| cluster.nodes(2)).await;
        let operator = cluster.run((self.operator)()).await;
        self.create(&cluster).await;
        self.converges(&cluster, &operator).await;
        let node = cluster.list::<Pod>().await.into_iter().find_map(|pod| pod.spec?.node_name);
        let node = node.expect("there is a pod on a node");
        cluster.lose_node(&node);
        self.becomes_degraded(&cluster, &["NodeNotReady"]).await;
        self.converges(&cluster, &operator).await;
        cluster.restore_node(&node);
        cluster.quiet().await;
        self.converges(&cluster, &operator).await;
    }

    /// If all pods are lost, there are others soon.
    pub async fn a_lost_pod_is_replaced(&self) {
        let (cluster, operator) = self.healthy().await;
        let before = cluster.list::<Pod>().await;
        assert!(!before.is_empty(), "there are pods");
        for pod in &before {
            cluster.lose_pod(&pod.name_any()).await;
        }
        let are_replaced = async |cluster: &TestCluster| {
            let now = cluster.list::<Pod>().await;
            now.len() == before.len() && now.iter().all(|pod| before.iter().all(|old| old.uid() != pod.uid()))
        };
        cluster.eventually("all pods are replaced", are_replaced).await;
        self.converges(&cluster, &operator).await;
    }

    /// If an image can't be pulled, the resource says so until it can.
    pub async fn a_missing_image_is_told_until_it_is_there(&self) {
        let missing = Script::default().cannot_be_pulled("no such image");
        self.trouble_of_pods_is_told(missing, &["ErrImagePull", "ImagePullBackOff"]).await;
    }

    /// If containers end again and again, the resource says so until they don't.
    pub async fn a_crashing_pod_is_told_until_it_is_mended(&self) {
        let crashing = Script::default().exits_after(Duration::from_secs(2), 1);
        self.trouble_of_pods_is_told(crashing, &["CrashLoopBackOff"]).await;
    }

    async fn trouble_of_pods_is_told(&self, trouble: Script, reasons: &[&str]) {
        let cluster = TestCluster::start().await;
        let operator = cluster.run((self.operator)()).await;
        cluster.simulated().decide(move |_, _| Some(trouble.clone()));
        self.create(&cluster).await;
        self.becomes_degraded(&cluster, reasons).await;
        cluster.simulated().decide(|_, _| None);
        self.converges(&cluster, &operator).await;
    }

    /// If the server fails to answer for one of the children, the resource says so until it does again; if it fails to
    /// answer for the resource itself, that passes, too.
    pub async fn an_error_of_the_server_is_told_until_it_passes(&self) {
        let (cluster, _operator) = self.healthy().await;
        let own = cluster.resource(&self.sample).await.plural;
        let mut resources = vec![own.clone()];
        for child in self.children(&cluster).await {
            resources.push(cluster.resource(&child).await.plural);
        }
        self.remove(&cluster).await;
        for resource in resources {
            let cluster = TestCluster::start().await;
            let operator = cluster.run((self.operator)()).await;
            let outage = operator.outage_of(&resource);
            self.create(&cluster).await;
            cluster.advance(Duration::from_secs(60)).await;
            let told = condition(&self.get(&cluster).await, "Stalled").map(|(_, _, message)| message);
            let is_told = told.as_ref().is_some_and(|message| message.contains("Internal error"));
            assert!(is_told || resource == own, "{resource} fail, and that is told: {told:?}");
            drop(outage);
            self.converges(&cluster, &operator).await;
            self.remove(&cluster).await;
        }
    }

    /// An operator that is killed after any of its writes picks up where it was.
    pub async fn an_operator_may_be_killed_after_any_write(&self) {
        // With the operator, its requests are cut off. kube-apiserver may then keep the port of a Service that came to
        // nothing, and finds out only minutes later.
        if !TestCluster::is_embedded()
            && self.takes_a_node_port().await
            && TestCluster::is_left_out("the port of a request that was cut off is not free for minutes")
        {
            return;
        }
        for limit in 1.. {
            let cluster = TestCluster::start().await;
            let operator = cluster.run((self.operator)()).await;
            self.create(&cluster).await;
            let mut writes = 0;
            while writes < limit && !is_healthy(&self.get(&cluster).await) {
                cluster.advance(Duration::from_millis(1)).await;
                writes += operator.writes().len();
            }
            drop(operator);
            let operator = cluster.run((self.operator)()).await;
            self.converges(&cluster, &operator).await;
            self.remove(&cluster).await;
            if writes < limit {
                return;
            }
        }
    }

    /// An operator that is stopped and uninstalled leaves everything as it is; so does one that comes after it.
    pub async fn an_operator_that_is_removed_leaves_everything_as_it_is(&self) {
        if TestCluster::is_left_out("others use its account") {
            return;
        }
        let (cluster, operator) = self.healthy().await;
        cluster.quiet().await;
        let versions = async || {
            let objects = cluster.objects().await;
            objects.iter().map(|one| (called(one), one.uid(), one.resource_version())).collect::<Vec<_>>()
        };
        let before = versions().await;
        operator.stop().await;
        cluster.uninstall(&(self.operator)()).await;
        cluster.advance(Duration::from_secs(10 * 60)).await;
        assert_eq!(versions().await, before, "without the operator");
        let operator = cluster.run((self.operator)()).await;
        cluster.quiet().await;
        assert_eq!(versions().await, before, "with another one");
        // Whom to trust is told anew, as that was uninstalled, too.
        let is_about_webhooks = |write: &String| {
            ["-webhook-certificates", "webhookconfigurations/", "customresourcedefinitions/"]
                .iter()
                .any(|part| write.contains(part))
        };
        let writes: Vec<String> =
            operator.writes().into_iter().filter(|write| !is_about_webhooks(write)).collect();
        assert_eq!(writes, [""; 0]);
    }

    /// Everything that is made for the resource belongs to it, and can be recognised.
    pub async fn children_belong_to_their_resource(&self) {
        let (cluster, operator) = self.healthy().await;
        let name = (self.operator)().name().to_owned();
        let children = self.children(&cluster).await;
        assert!(!children.is_empty(), "there are children");
        for child in children {
            let owner = &child.owner_references()[0];
            assert_eq!(owner.controller, Some(true), "{}", called(&child));
            assert_eq!(child.labels()["app.kubernetes.io/managed-by"], name, "{}", called(&child));
            assert_eq!(
                child.labels()["app.kubernetes.io/instance"],
                self.sample.name_any(),
                "{}",
                called(&child)
            );
        }
        let (all, uid) = (cluster.objects().await, self.get(&cluster).await.uid());
        let strangers: Vec<String> = all
            .iter()
            .filter(|one| one.uid() != uid)
            .filter(|one| one.managed_fields().iter().any(|entry| entry.manager.as_ref() == Some(&name)))
            .filter(|one| one.owner_references().is_empty())
            .map(called)
            .collect();
        assert_eq!(strangers, [""; 0], "made by the operator, and nobody's");
        drop(operator);
    }

    /// The files in `config`, in the directory of the crate, are those that the operator's own command writes.
    pub async fn the_files_in_config_are_up_to_date(&self) {
        let outdated = (self.operator)().outdated_config(&ManifestOptions::default(), "config");
        let outdated = outdated.unwrap_or_else(|why| panic!("there are no manifests: {why}"));
        assert_eq!(outdated, [""; 0], "write them with `manifests --into config`");
    }

    /// Once all is well, an hour passes without a single write.
    pub async fn what_is_as_it_should_be_is_left_alone(&self) {
        if TestCluster::is_left_out("an hour passes") {
            return;
        }
        let (cluster, operator) = self.healthy().await;
        cluster.quiet().await;
        operator.writes();
        cluster.advance(Duration::from_secs(60 * 60)).await;
        assert_eq!(operator.writes(), [""; 0]);
    }

    /// A cluster with the operator, and the resource in good health.
    async fn healthy(&self) -> (TestCluster, TestOperator) {
        let cluster = TestCluster::start().await;
        let operator = cluster.run((self.operator)()).await;
        self.create(&cluster).await;
        self.converges(&cluster, &operator).await;
        (cluster, operator)
    }

    async fn create(&self, cluster: &TestCluster) {
        cluster.apply(&json!(self.sample).to_string()).await;
    }

    async fn converges(&self, cluster: &TestCluster, operator: &TestOperator) {
        cluster
            .eventually("the resource is well", async |cluster| is_healthy(&self.get(cluster).await))
            .await;
        assert_eq!(operator.forbidden(), [""; 0], "the operator lacks rights");
    }

    async fn takes_a_node_port(&self) -> bool {
        let (cluster, _operator) = self.healthy().await;
        let children = self.children(&cluster).await;
        self.remove(&cluster).await;
        let mut ports = children.iter().flat_map(|child| child.data["spec"]["ports"].as_array()).flatten();
        ports.any(|port| port["nodePort"].is_i64())
    }

    /// Deletes the resource and waits until all of it is gone: the next one may need what only one can have, such as a
    /// port.
    async fn remove(&self, cluster: &TestCluster) {
        let children = self.children(cluster).await;
        self.delete(cluster).await;
        let are_gone = async |cluster: &TestCluster| {
            let left: Vec<_> = cluster.objects().await.iter().map(|one| one.uid()).collect();
            !children.iter().any(|child| left.contains(&child.uid())) && self.find(cluster).await.is_none()
        };
        cluster.eventually("the resource is gone", are_gone).await;
    }

    async fn delete(&self, cluster: &TestCluster) {
        let deleted = self.api(cluster).await.delete(&self.sample.name_any(), &DeleteParams::default()).await;
        deleted.unwrap_or_else(|why| panic!("the resource was not deleted: {why}"));
    }

    async fn becomes_degraded(&self, cluster: &TestCluster, reasons: &[&str]) {
        let is_told = async |cluster: &TestCluster| {
            let degraded = condition(&self.get(cluster).await, "Degraded");
            degraded.is_some_and(|(status, reason, _)| status == "True" && reasons.contains(&reason.as_str()))
        };
        cluster.eventually(&format!("it is degraded, with one of {reasons:?}"), is_told).await;
    }

    async fn api(&self, cluster: &TestCluster) -> Api<DynamicObject> {
        cluster.dynamic(&self.sample).await
    }

    async fn find(&self, cluster: &TestCluster) -> Option<DynamicObject> {
        let found = self.api(cluster).await.get_opt(&self.sample.name_any()).await;
        found.unwrap_or_else(|why| panic!("the resource can't be read: {why}"))
    }

    async fn get(&self, cluster: &TestCluster) -> DynamicObject {
        self.find(cluster).await.expect("the resource is there")
    }

    /// What the resource owns.
    async fn children(&self, cluster: &TestCluster) -> Vec<DynamicObject> {
        let uid = self.get(cluster).await.uid();
        let mut objects = cluster.objects().await;
        objects.retain(|one| one.owner_references().iter().any(|owner| Some(&owner.uid) == uid.as_ref()));
        objects
    }
}

/// Whether a resource is what it should be, and says so of its newest generation.
fn is_healthy(resource: &DynamicObject) -> bool {
    let is =
        |name: &str, wanted: &str| condition(resource, name).is_some_and(|(status, ..)| status == wanted);
    resource.data["status"]["observedGeneration"].as_i64() == resource.metadata.generation
        && is("Available", "True")
        && is("Progressing", "False")
        && is("Degraded", "False")
        && condition(resource, "Stalled").is_none()
}

/// Status, reason and message of a condition.
fn condition(resource: &DynamicObject, name: &str) -> Option<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let conditions = resource.data["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == name)?;
    Some((text(&found["status"]), text(&found["reason"]), text(&found["message"])))
}

/// Kind and name, for people.
fn called(object: &DynamicObject) -> String {
    let kind = object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
    format!("{kind} {}", object.name_any())
}

/// What an owner says of its child.
fn configuration(object: &DynamicObject) -> (Value, Value, Value) {
    (json!(object.labels()), object.data["spec"].clone(), object.data["data"].clone())
}

/// A change that somebody may make by hand, as a merge patch.
fn changed(child: &DynamicObject) -> Value {
    let mut change = json!({"metadata": {"labels": {"app.kubernetes.io/instance": "changed"}}});
    if let Some(replicas) = child.data["spec"]["replicas"].as_i64() {
        change["spec"]["replicas"] = json!(replicas + 1);
    }
    if let Some(selector) =
        child.data["spec"]["selector"].as_object().filter(|_| called(child).starts_with("Service"))
    {
        change["spec"]["selector"] = selector.keys().map(|key| (key.clone(), json!("changed"))).collect();
    }
    if let Some(data) = child.data["data"].as_object() {
        // Both as text and as base64 it means something.
        change["data"] = data.keys().map(|key| (key.clone(), json!("Y2hhbmdlZA=="))).collect();
    }
    change
}

/// Removes a field, and that it is required; whether it was there.
fn remove(value: &mut Value, pointer: &str) -> bool {
    let Some((parent, field)) = pointer.rsplit_once('/') else { return false };
    if let Some(Value::Array(required)) = value
        .pointer_mut(parent.trim_end_matches("/properties"))
        .and_then(|schema| schema.get_mut("required"))
    {
        required.retain(|name| name != field);
    }
    value
        .pointer_mut(parent)
        .and_then(Value::as_object_mut)
        .is_some_and(|fields| fields.remove(field).is_some())
}
