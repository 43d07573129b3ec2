//! Nodes: what a kubelet does for the pods on them, with the containers behind one trait.

mod container;
mod kubelet;
mod logs;
mod record;
mod runtime;
mod simulated;
mod status;

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use kubewright::clock::Clock;
use serde_json::{Value, json};

pub(crate) use self::{kubelet::controller, logs::Logs};
pub use self::{
    runtime::{Doing, Failure, Probe, Run, Runtime, Sight},
    simulated::{Script, Simulated},
};

/// Which version of Kubernetes the nodes say they run.
const VERSION: &str = "v1.36.3";

/// Puts nodes into the cluster, as far as they are not there yet.
pub(crate) async fn register(client: &Client, count: usize, clock: Clock) -> kube::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    for number in 1..=count {
        let name = format!("node-{number}");
        if nodes.get_metadata_opt(&name).await?.is_some() {
            continue;
        }
        let node: Node = serde_json::from_value(node(&name, number)).map_err(kube::Error::SerdeError)?;
        nodes.create(&PostParams::default(), &node).await?;
        let status = json!({"status": status(&name, number, &clock)});
        nodes.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
        // A new node is tainted until it says that it is ready.
        let untainted = json!({"spec": {"taints": null}});
        nodes.patch(&name, &PatchParams::default(), &Patch::Merge(untainted)).await?;
    }
    Ok(())
}

fn node(name: &str, number: usize) -> Value {
    json!({
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "beta.kubernetes.io/os": "linux",
            "beta.kubernetes.io/arch": "amd64",
        }},
        "spec": {"podCIDR": pod_range(number), "podCIDRs": [pod_range(number)]},
    })
}

/// The addresses of the pods on a node.
fn pod_range(number: usize) -> String {
    format!("10.{}.{}.0/24", 128 + number / 256 % 64, number % 256)
}

/// The address of a node.
fn address(number: usize) -> String {
    format!("172.18.{}.{}", number / 254, number % 254 + 1)
}

fn status(name: &str, number: usize, clock: &Clock) -> Value {
    let now = clock.time();
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        })
    };
    let resources = json!({"cpu": "16", "memory": "64Gi", "ephemeral-storage": "256Gi", "pods": "110"});
    json!({
        "capacity": resources,
        "allocatable": resources,
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ],
        "addresses": [
            {"type": "InternalIP", "address": address(number)},
            {"type": "Hostname", "address": name},
        ],
        "nodeInfo": {
            "architecture": "amd64", "operatingSystem": "linux", "kubeletVersion": VERSION,
            "kubeProxyVersion": VERSION, "containerRuntimeVersion": "simulated://1", "osImage": "Kubewright",
            "kernelVersion": "6", "machineID": name, "systemUUID": name, "bootID": name,
        },
    })
}
