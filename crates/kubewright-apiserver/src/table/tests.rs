use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{format::human_duration, *};

fn columns(group: &str, kind: &str) -> &'static [Column] {
    Printer::built_in(group, kind).columns
}

fn table_of<'a>(printer: Printer<'a>, object: &'a Value, options: Options, now: Timestamp) -> Table<'a> {
    let resource_version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    Table::of_list(printer, [object], ListMeta { resource_version, ..ListMeta::default() }, options, now)
}

fn cells(group: &str, kind: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    Printer::built_in(group, kind).cells(object, now)
}

fn now() -> Timestamp {
    "2026-01-02T00:00:00Z".parse().unwrap()
}

/// Every kind with a printer.
const KINDS: &[(&str, &str)] = &[
    ("", "ComponentStatus"),
    ("", "ConfigMap"),
    ("", "Endpoints"),
    ("", "Event"),
    ("", "Namespace"),
    ("", "Node"),
    ("", "PersistentVolume"),
    ("", "PersistentVolumeClaim"),
    ("", "Pod"),
    ("", "PodTemplate"),
    ("", "ReplicationController"),
    ("", "ResourceQuota"),
    ("", "Secret"),
    ("", "Service"),
    ("", "ServiceAccount"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    ("apiregistration.k8s.io", "APIService"),
    ("apps", "ControllerRevision"),
    ("apps", "DaemonSet"),
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("autoscaling", "HorizontalPodAutoscaler"),
    ("autoscaling", "Scale"),
    ("batch", "CronJob"),
    ("batch", "Job"),
    ("certificates.k8s.io", "CertificateSigningRequest"),
    ("certificates.k8s.io", "ClusterTrustBundle"),
    ("certificates.k8s.io", "PodCertificateRequest"),
    ("coordination.k8s.io", "Lease"),
    ("coordination.k8s.io", "LeaseCandidate"),
    ("discovery.k8s.io", "EndpointSlice"),
    ("events.k8s.io", "Event"),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"),
    ("internal.apiserver.k8s.io", "StorageVersion"),
    ("networking.k8s.io", "Ingress"),
    ("networking.k8s.io", "IngressClass"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("networking.k8s.io", "ServiceCIDR"),
    ("node.k8s.io", "RuntimeClass"),
    ("policy", "PodDisruptionBudget"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
    ("resource.k8s.io", "DeviceClass"),
    ("resource.k8s.io", "DeviceTaintRule"),
    ("resource.k8s.io", "ResourceClaim"),
    ("resource.k8s.io", "ResourceClaimTemplate"),
    ("resource.k8s.io", "ResourcePoolStatusRequest"),
    ("resource.k8s.io", "ResourceSlice"),
    ("scheduling.k8s.io", "PodGroup"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("scheduling.k8s.io", "Workload"),
    ("storage.k8s.io", "CSIDriver"),
    ("storage.k8s.io", "CSINode"),
    ("storage.k8s.io", "StorageClass"),
    ("storage.k8s.io", "VolumeAttachment"),
    ("storage.k8s.io", "VolumeAttributesClass"),
    ("storagemigration.k8s.io", "StorageVersionMigration"),
];

#[test]
fn every_printer_fills_its_columns_whatever_the_object_holds() {
    let odd = json!({
        "apiVersion": "autoscaling/v1", "metadata": {"name": 7, "creationTimestamp": "yesterday", "labels": []},
        "spec": {"metrics": [7], "containers": {}, "rules": [null], "ports": ["x"]}, "status": [], "subsets": [{}],
    });
    for (group, kind) in KINDS {
        let columns = columns(group, kind);
        assert_ne!(columns, columns::DEFAULT, "{kind} has no printer");
        for object in [&json!({}), &odd, &json!(null)] {
            assert_eq!(cells(group, kind, object, now()).len(), columns.len(), "{kind} of {object}");
        }
    }
}

fn shape(group: &str, kind: &str) -> Value {
    let shape = |column: &Column| json!([column.name, column.kind, column.format, column.priority]);
    columns(group, kind).iter().map(shape).collect()
}

#[test]
fn columns_are_those_of_the_real_server() {
    assert_eq!(
        shape("", "Pod"),
        json!([
            ["Name", "string", "name", 0],
            ["Ready", "string", "", 0],
            ["Status", "string", "", 0],
            ["Restarts", "string", "", 0],
            ["Age", "string", "", 0],
            ["IP", "string", "", 1],
            ["Node", "string", "", 1],
            ["Nominated Node", "string", "", 1],
            ["Readiness Gates", "string", "", 1],
        ])
    );
    assert_eq!(
        shape("events.k8s.io", "Event"),
        json!([
            ["Last Seen", "string", "", 0],
            ["Type", "string", "", 0],
            ["Reason", "string", "", 0],
            ["Object", "string", "", 0],
            ["Subobject", "string", "", 1],
            ["Source", "string", "", 1],
            ["Message", "string", "", 0],
            ["First Seen", "string", "", 1],
            ["Count", "string", "", 1],
            ["Name", "string", "name", 1],
        ])
    );
    let unprinted = json!([["Name", "string", "name", 0], ["Created At", "date", "", 0]]);
    for (group, kind) in [
        ("rbac.authorization.k8s.io", "ClusterRole"),
        ("", "LimitRange"),
        ("storage.k8s.io", "CSIStorageCapacity"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ] {
        assert_eq!(shape(group, kind), unprinted, "{kind}");
    }
    assert!(columns("", "Secret")[2].description.starts_with("Data contains the secret data."));
}

#[test]
fn ages_are_rounded_as_people_expect() {
    let minute = 60;
    let (hour, day, year) = (60 * minute, 24 * 60 * minute, 365 * 24 * 60 * minute);
    for (seconds, expected) in [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (9 * minute + 59, "9m59s"),
        (10 * minute + 59, "10m"),
        (179 * minute, "179m"),
        (3 * hour, "3h"),
        (7 * hour + 59 * minute, "7h59m"),
        (47 * hour + 59 * minute, "47h"),
        (2 * day, "2d"),
        (7 * day + 23 * hour, "7d23h"),
        (8 * day + 23 * hour, "8d"),
        (2 * year - 1, "729d"),
        (2 * year, "2y"),
        (2 * year + day, "2y1d"),
        (8 * year + day, "8y"),
    ] {
        assert_eq!(human_duration(SignedDuration::from_secs(seconds)), expected, "{seconds}");
    }
    assert_eq!(human_duration(SignedDuration::new(-1, -900_000_000)), "0s");
}

#[test]
fn the_status_of_a_pod_is_what_a_person_should_know_first() {
    let container =
        |state: Value| json!({"phase": "Running", "containerStatuses": [{"name": "c", "state": state}]});
    for (status, expected) in [
        (json!({"phase": "Pending"}), ["0/1", "Pending", "0"]),
        (json!({"phase": "Failed", "reason": "Evicted"}), ["0/1", "Evicted", "0"]),
        (
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}),
            ["0/1", "SchedulingGated", "0"],
        ),
        (container(json!({"waiting": {"reason": "CrashLoopBackOff"}})), ["0/1", "CrashLoopBackOff", "0"]),
        (container(json!({"terminated": {"exitCode": 3}})), ["0/1", "ExitCode:3", "0"]),
        (container(json!({"terminated": {"exitCode": 0, "signal": 9}})), ["0/1", "Signal:9", "0"]),
        (container(json!({"terminated": {"exitCode": 1, "reason": "Error"}})), ["0/1", "Error", "0"]),
        (
            json!({"phase": "Running", "containerStatuses": [{
                "ready": true, "restartCount": 2, "state": {"running": {}},
                "lastState": {"terminated": {"finishedAt": "2026-01-01T23:00:00Z"}},
            }]}),
            ["1/1", "Running", "2 (60m ago)"],
        ),
        (
            json!({"phase": "Running", "containerStatuses": [
                {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
                {"ready": true, "state": {"running": {}}},
            ]}),
            ["1/1", "NotReady", "0"],
        ),
        (
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [
                {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
                {"ready": true, "state": {"running": {}}},
            ]}),
            ["1/1", "Running", "0"],
        ),
    ] {
        let pod = json!({"spec": {"containers": [{"name": "c"}]}, "status": status});
        assert_eq!(cells("", "Pod", &pod, now())[1..4], expected, "{pod}");
    }
}

#[test]
fn init_containers_and_deletion_come_before_the_containers() {
    for (statuses, expected) in [
        (json!([{"name": "i", "restartCount": 4, "state": {"running": {}}}]), ["0/2", "Init:0/2", "4"]),
        (
            json!([{"name": "i", "state": {"waiting": {"reason": "ErrImagePull"}}}]),
            ["0/2", "Init:ErrImagePull", "0"],
        ),
        (json!([{"name": "i", "state": {"terminated": {"exitCode": 2}}}]), ["0/2", "Init:ExitCode:2", "0"]),
        (
            json!([
                {"name": "i", "restartCount": 4, "state": {"terminated": {"exitCode": 0}}},
                {"name": "s", "restartCount": 1, "started": true, "ready": true, "state": {"running": {}}},
            ]),
            ["1/2", "Pending", "1"],
        ),
    ] {
        let init = json!([{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]);
        let mut pod = json!({
            "metadata": {}, "spec": {"containers": [{"name": "c"}], "initContainers": init},
            "status": {"phase": "Pending", "initContainerStatuses": statuses},
        });
        assert_eq!(cells("", "Pod", &pod, now())[1..4], expected, "{pod}");
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(cells("", "Pod", &pod, now())[2], "Terminating");
    }
}

#[test]
fn rows_say_what_those_of_the_real_server_say() {
    let born = "2026-01-01T23:59:00Z";
    for (group, kind, object, expected) in [
        ("", "ConfigMap", json!({"data": {"a": "1", "b": "2"}}), json!(["x", 2, "60s"])),
        (
            "",
            "Service",
            json!({"spec": {
                "type": "LoadBalancer", "clusterIPs": ["10.0.0.1"], "selector": {"a": "b"},
                "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080}, {"port": 53, "protocol": "UDP"}],
            }}),
            json!(["x", "LoadBalancer", "10.0.0.1", "<pending>", "80:30080/TCP,53/UDP", "60s", "a=b"]),
        ),
        (
            "",
            "Node",
            json!({
                "metadata": {"labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "edge"}},
                "spec": {"unschedulable": true},
                "status": {
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "addresses": [{"type": "InternalIP", "address": "10.1.1.1"}],
                    "nodeInfo": {"kubeletVersion": "v1.36.0", "architecture": "arm64"},
                },
            }),
            json!([
                "x",
                "Ready,SchedulingDisabled",
                "edge,worker",
                "60s",
                "v1.36.0",
                "10.1.1.1",
                "<none>",
                "<unknown>",
                "<unknown> (arm64)",
                "<unknown>",
            ]),
        ),
        (
            "",
            "PersistentVolumeClaim",
            json!({"spec": {"storageClassName": "", "volumeMode": "Filesystem"}, "status": {"phase": "Pending"}}),
            json!(["x", "Pending", "", "", "", "", "<unset>", "60s", "Filesystem"]),
        ),
        (
            "",
            "ResourceQuota",
            json!({"status": {"hard": {"pods": "5", "limits.cpu": "2", "cpu": "1"}, "used": {"pods": "1"}}}),
            json!(["x", "cpu: 0/1, pods: 1/5", "limits.cpu: 0/2", "60s"]),
        ),
        (
            "",
            "Event",
            json!({
                "involvedObject": {"kind": "Pod", "name": "p"}, "reason": "R", "type": "Normal", "message": " hello\n",
                "count": 2, "source": {"component": "c", "host": "h"}, "lastTimestamp": "2026-01-01T23:59:50Z",
            }),
            json!(["10s", "Normal", "R", "pod/p", "", "c, h", "hello", "<unknown>", 2, "x"]),
        ),
        (
            "events.k8s.io",
            "Event",
            json!({
                "apiVersion": "events.k8s.io/v1", "regarding": {"kind": "Pod", "name": "p"}, "note": "n",
                "eventTime": "2026-01-01T23:59:50.000000Z", "reportingController": "c",
                "series": {"count": 9, "lastObservedTime": "2026-01-01T23:59:58.000000Z"},
            }),
            json!(["2s", "", "", "pod/p", "", "c", "n", "10s", 9, "x"]),
        ),
        (
            "",
            "Endpoints",
            json!({"subsets": [
                {"addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}], "ports": [{"port": 80}, {"port": 81}]},
                {"addresses": [{"ip": "fd00::1"}]},
            ]}),
            json!(["x", "10.0.0.1:80,10.0.0.2:80,10.0.0.1:81 + 2 more...", "60s"]),
        ),
        (
            "apps",
            "Deployment",
            json!({
                "spec": {
                    "replicas": 3, "selector": {"matchLabels": {"b": "c"}, "matchExpressions": [
                        {"key": "a", "operator": "In", "values": ["z", "y"]}, {"key": "c", "operator": "DoesNotExist"},
                    ]},
                    "template": {"spec": {"containers": [{"name": "one", "image": "i"}, {"name": "two", "image": "j"}]}},
                },
                "status": {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1},
            }),
            json!(["x", "1/3", 2, 1, "60s", "one,two", "i,j", "a in (y,z),b=c,!c"]),
        ),
        (
            "batch",
            "Job",
            json!({
                "spec": {"parallelism": 2},
                "status": {"succeeded": 1, "startTime": "2026-01-01T23:59:00Z", "completionTime": "2026-01-01T23:59:05Z",
                    "conditions": [{"type": "Complete", "status": "True"}]},
            }),
            json!(["x", "Complete", "1/1 of 2", "5s", "60s", "", "", "<none>"]),
        ),
        (
            "batch",
            "CronJob",
            json!({"spec": {"schedule": "*/5 * * * *", "suspend": true}}),
            json!(["x", "*/5 * * * *", "<none>", "True", 0, "<none>", "60s", "", "", "<none>"]),
        ),
        (
            "autoscaling",
            "HorizontalPodAutoscaler",
            json!({
                "apiVersion": "autoscaling/v1",
                "spec": {
                    "maxReplicas": 5, "minReplicas": 1, "targetCPUUtilizationPercentage": 60,
                    "scaleTargetRef": {"kind": "Deployment", "name": "d"},
                },
                "status": {"currentReplicas": 2, "currentCPUUtilizationPercentage": 7},
            }),
            json!(["x", "Deployment/d", "cpu: 7%/60%", "1", 5, 2, "60s"]),
        ),
        (
            "policy",
            "PodDisruptionBudget",
            json!({"spec": {"maxUnavailable": 1}}),
            json!(["x", "N/A", "1", 0, "60s"]),
        ),
        (
            "networking.k8s.io",
            "Ingress",
            json!({
                "spec": {"tls": [{}], "rules": [{"host": "a"}, {"host": "b"}, {}, {"host": "c"}, {"host": "d"}]},
                "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}, {"hostname": "h"}]}},
            }),
            json!(["x", "<none>", "a,b,c + 2 more...", "10.0.0.1,h", "80, 443", "60s"]),
        ),
        (
            "networking.k8s.io",
            "IPAddress",
            json!({"spec": {"parentRef": {"resource": "services", "namespace": "n", "name": "s"}}}),
            json!(["x", "services/n/s", "60s"]),
        ),
        (
            "rbac.authorization.k8s.io",
            "RoleBinding",
            json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [
                {"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "namespace": "n", "name": "s"},
            ]}),
            json!(["x", "Role/r", "60s", "u", "", "n/s"]),
        ),
        (
            "storage.k8s.io",
            "StorageClass",
            json!({
                "metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
                "provisioner": "p", "reclaimPolicy": "Retain",
            }),
            json!(["x (default)", "p", "Retain", "Immediate", false, "60s"]),
        ),
        (
            "certificates.k8s.io",
            "CertificateSigningRequest",
            json!({
                "spec": {"signerName": "a/b", "username": "u", "expirationSeconds": 86400},
                "status": {"conditions": [{"type": "Approved"}], "certificate": "eA=="},
            }),
            json!(["x", "60s", "a/b", "u", "24h", "Approved,Issued"]),
        ),
        (
            "discovery.k8s.io",
            "EndpointSlice",
            json!({"addressType": "IPv4", "ports": [{"port": 80}, {"name": "n"}], "endpoints": []}),
            json!(["x", "IPv4", "80,n", "<unset>", "60s"]),
        ),
        (
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicyBinding",
            json!({"spec": {"policyName": "p", "paramRef": {"selector": {"matchLabels": {"a": "b"}}}}}),
            json!([
                "x",
                "p",
                "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}",
                "60s",
            ]),
        ),
        ("rbac.authorization.k8s.io", "Role", json!({}), json!(["x", born])),
    ] {
        let mut object = object;
        object["metadata"]["name"] = "x".into();
        object["metadata"]["creationTimestamp"] = born.into();
        assert_eq!(Value::from(cells(group, kind, &object, now())), expected, "{kind}");
    }
}

fn secret(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": name, "resourceVersion": "7", "creationTimestamp": "2026-01-01T23:59:59Z"},
    })
}

#[test]
fn a_list_becomes_a_table_of_rows_with_metadata() {
    let items = [secret("a")];
    let metadata = ListMeta {
        resource_version: "9".to_owned(),
        continue_token: "more".to_owned(),
        remaining_item_count: Some(1),
    };
    let printer = Printer::built_in("", "Secret");
    let table = Table::of_list(printer, &items, metadata, Options::default(), now());
    let text = serde_json::to_string(&table).unwrap();
    assert!(text.starts_with(
        "{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{\"resourceVersion\":\"9\",\"continue\":\"more\",\"remainingItemCount\":1},\"columnDefinitions\":[{\"name\":\"Name\",\"type\":\"string\",\"format\":\"name\",\"description\":\"Name must be unique"
    ));
    assert!(text.ends_with(
        "\"priority\":0}],\"rows\":[{\"cells\":[\"a\",\"Opaque\",0,\"1s\"],\"object\":{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{\"creationTimestamp\":\"2026-01-01T23:59:59Z\",\"name\":\"a\",\"resourceVersion\":\"7\"}}}]}"
    ));
}

#[test]
fn a_row_carries_as_much_of_its_object_as_was_asked_for() {
    let object = secret("a");
    let row = |include| {
        let options = Options { include, no_headers: true, version: MetaVersion::V1Beta1 };
        let table = table_of(Printer::built_in("", "Secret"), &object, options, now());
        serde_json::to_value(&table).unwrap()
    };
    let none = row(IncludeObject::None);
    assert_eq!(
        none,
        json!({
            "kind": "Table", "apiVersion": "meta.k8s.io/v1beta1", "metadata": {"resourceVersion": "7"},
            "columnDefinitions": null, "rows": [{"cells": ["a", "Opaque", 0, "1s"], "object": null}],
        })
    );
    assert_eq!(row(IncludeObject::Object)["rows"][0]["object"], object);
    assert_eq!(row(IncludeObject::Metadata)["rows"][0]["object"]["apiVersion"], "meta.k8s.io/v1beta1");
    assert_eq!(
        IncludeObject::parse("Zork").unwrap_err().message,
        "Unable to convert to Table as requested: includeObject: Invalid value: \"Zork\": must be 'Metadata', 'Object', 'None', or empty"
    );
}

#[test]
fn the_mark_at_the_end_of_the_initial_events_is_always_there() {
    let bookmark =
        json!({"metadata": {"annotations": {"k8s.io/initial-events-end": "true"}, "resourceVersion": "9"}});
    let options = Options { include: IncludeObject::None, ..Options::default() };
    let table = table_of(Printer::built_in("", "Pod"), &bookmark, options, now());
    let table = serde_json::to_value(&table).unwrap();
    assert_eq!(table["rows"][0]["object"]["metadata"], bookmark["metadata"]);
}

#[test]
fn rows_of_finished_pods_are_marked() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Succeeded"}});
    let table = table_of(Printer::built_in("", "Pod"), &pod, Options::default(), now());
    assert_eq!(
        serde_json::to_value(&table).unwrap()["rows"][0]["conditions"],
        json!([{
            "type": "Completed", "status": "True", "reason": "Succeeded",
            "message": "The pod has completed successfully.",
        }])
    );
}

#[test]
fn an_empty_list_has_no_rows() {
    let rows = |group, kind| {
        let table = Table::of_list(
            Printer::built_in(group, kind),
            &[] as &[Value],
            ListMeta::default(),
            Options::default(),
            now(),
        );
        serde_json::to_value(&table).unwrap()["rows"].take()
    };
    assert_eq!(rows("", "Secret"), json!([]));
    assert_eq!(rows("rbac.authorization.k8s.io", "Role"), Value::Null);
}

#[test]
fn flow_schemas_are_listed_in_the_order_they_match() {
    let schema = |name: &str, precedence: i64| json!({"kind": "FlowSchema", "metadata": {"name": name}, "spec": {"matchingPrecedence": precedence}});
    let items = [schema("a", 9), schema("c", 2), schema("b", 2)];
    let printer = Printer::built_in("flowcontrol.apiserver.k8s.io", "FlowSchema");
    let table = Table::of_list(printer, &items, ListMeta::default(), Options::default(), now());
    let table = serde_json::to_value(&table).unwrap();
    let names: Vec<&str> =
        table["rows"].as_array().unwrap().iter().filter_map(|row| row["cells"][0].as_str()).collect();
    assert_eq!(names, ["b", "c", "a"]);
}

#[test]
fn custom_columns_are_taken_as_they_come() {
    let columns =
        [Column::fixed("Name", "string", "name", "", 0), Column::fixed("S", "string", "", "said", 1)];
    let cells =
        |object: &Value, _: Timestamp| vec![object["metadata"]["name"].clone(), object["spec"]["s"].clone()];
    let object = json!({"kind": "Foo", "metadata": {"name": "f"}, "spec": {}});
    let printer = Printer::custom(&columns, &cells);
    let options = Options { include: IncludeObject::None, ..Options::default() };
    let table = serde_json::to_value(table_of(printer, &object, options, now())).unwrap();
    assert_eq!(table["rows"], json!([{"cells": ["f", null], "object": null}]));
    assert_eq!(
        table["columnDefinitions"][1],
        json!({"name": "S", "type": "string", "format": "", "description": "said", "priority": 1})
    );
}
