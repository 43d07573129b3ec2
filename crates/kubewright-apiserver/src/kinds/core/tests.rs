use serde_json::{Value, json};

use super::{STRATEGIES, SUBRESOURCES, Strategy};
use crate::field::FieldError;

fn strategy(kind: &str) -> Strategy {
    STRATEGIES
        .iter()
        .find(|(name, _)| *name == kind)
        .map(|(_, strategy)| *strategy)
        .expect("a kind of core/v1")
}

fn subresource(kind: &str, name: &str) -> Strategy {
    let found = SUBRESOURCES.iter().find(|(one, other, _)| *one == kind && *other == name);
    found.map(|(_, _, strategy)| *strategy).expect("a subresource of core/v1")
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// The object after defaulting and preparation, as validation sees it on creation.
fn created(kind: &str, mut object: Value) -> Value {
    (strategy(kind).default)(&mut object);
    (strategy(kind).prepare_create)(&mut object);
    object
}

/// The object as validation sees it when it replaces `old`.
fn updated(kind: &str, mut object: Value, old: &Value) -> Value {
    (strategy(kind).default)(&mut object);
    (strategy(kind).prepare_update)(&mut object, old);
    object
}

fn pod(spec: Value) -> Value {
    let mut all = json!({"containers": [{"name": "c", "image": "img"}]});
    for (name, value) in spec.as_object().into_iter().flatten() {
        all[name.as_str()] = value.clone();
    }
    json!({"metadata": {"name": "p"}, "spec": all})
}

fn container(fields: Value) -> Value {
    let mut container = json!({"name": "c", "image": "img"});
    for (name, value) in fields.as_object().into_iter().flatten() {
        container[name.as_str()] = value.clone();
    }
    json!({"containers": [container]})
}

#[test]
fn a_pod_is_filled_in() {
    let pod = created("Pod", pod(json!({})));
    assert_eq!(
        pod,
        json!({
            "metadata": {"name": "p"},
            "spec": {
                "containers": [{
                    "name": "c", "image": "img", "imagePullPolicy": "Always", "resources": {},
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                }],
                "dnsPolicy": "ClusterFirst", "enableServiceLinks": true, "restartPolicy": "Always",
                "schedulerName": "default-scheduler", "securityContext": {}, "terminationGracePeriodSeconds": 30,
            },
            "status": {"phase": "Pending", "qosClass": "BestEffort"},
        })
    );
    assert_eq!(texts(&(strategy("Pod").validate)(&pod)), Vec::<String>::new());
}

#[test]
fn the_quality_of_service_follows_from_what_is_asked_for() {
    for (resources, class) in [
        (json!({}), "BestEffort"),
        (json!({"requests": {"cpu": "1"}}), "Burstable"),
        (json!({"limits": {"cpu": "1"}}), "Burstable"),
        (json!({"limits": {"cpu": "1", "memory": "1Gi"}}), "Guaranteed"),
        (json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}), "Burstable"),
        (json!({"limits": {"nvidia.com/gpu": "1"}}), "BestEffort"),
    ] {
        let pod = created("Pod", pod(container(json!({"resources": resources}))));
        assert_eq!(pod["status"]["qosClass"], class, "{resources}");
    }
}

#[test]
fn a_gated_pod_says_so() {
    let pod = created("Pod", pod(json!({"schedulingGates": [{"name": "a.io/b"}]})));
    assert_eq!(pod["status"]["conditions"][0]["reason"], "SchedulingGated");
}

#[test]
fn what_is_wrong_with_a_pod_is_said_where_it_is() {
    let many = |fields: Value| container(fields);
    let volume = |volume: Value| json!({"volumes": [volume]});
    for (spec, expected) in [
        (json!({"containers": []}), vec!["spec.containers: Required value"]),
        (
            json!({"containers": [{"name": "", "image": ""}]}),
            vec!["spec.containers[0].name: Required value", "spec.containers[0].image: Required value"],
        ),
        (
            json!({"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]}),
            vec!["spec.containers[1].name: Duplicate value: \"c\""],
        ),
        (
            many(json!({"image": " i"})),
            vec![
                "spec.containers[0].image: Invalid value: \" i\": must not have leading or trailing whitespace",
            ],
        ),
        (
            many(json!({"ports": [{"containerPort": 70000}]})),
            vec![
                "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
            ],
        ),
        (
            many(json!({"ports": [{"containerPort": 80, "protocol": "ICMP"}]})),
            vec![
                "spec.containers[0].ports[0].protocol: Unsupported value: \"ICMP\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
            ],
        ),
        (
            many(
                json!({"env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}),
            ),
            vec![
                "spec.containers[0].env[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty",
            ],
        ),
        (
            many(json!({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "zork"}}}]})),
            vec![
                "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"zork\": error converting fieldPath: field label not supported: zork",
            ],
        ),
        (
            many(json!({"volumeMounts": [{"name": "v", "mountPath": "/x"}]})),
            vec!["spec.containers[0].volumeMounts[0].name: Not found: \"v\""],
        ),
        (
            many(json!({"livenessProbe": {"successThreshold": 2, "exec": {"command": ["x"]}}})),
            vec!["spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1"],
        ),
        (
            many(json!({"readinessProbe": {}})),
            vec!["spec.containers[0].readinessProbe: Required value: must specify a handler type"],
        ),
        (
            many(json!({"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}})),
            vec![
                "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
            ],
        ),
        (
            many(json!({"resources": {"requests": {"memory": "-1"}}})),
            vec![
                "spec.containers[0].resources.requests[memory]: Invalid value: \"-1\": must be greater than or equal to 0",
            ],
        ),
        (
            many(json!({"resources": {"requests": {"nvidia.com/gpu": "1"}}})),
            vec![
                "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
            ],
        ),
        (
            many(json!({"resources": {"limits": {"nvidia.com/gpu": "500m"}}})),
            vec![
                "spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: \"500m\": must be an integer",
                "spec.containers[0].resources.requests[nvidia.com/gpu]: Invalid value: \"500m\": must be an integer",
            ],
        ),
        (
            many(json!({"resources": {"limits": {"hugepages-2Mi": "2Mi"}}})),
            vec!["spec.containers[0].resources: Forbidden: HugePages require cpu or memory"],
        ),
        (
            many(json!({"resources": {"limits": {"zork": "1"}}})),
            vec![
                "spec.containers[0].resources.limits[zork]: Invalid value: \"zork\": must be a standard resource type or fully qualified",
                "spec.containers[0].resources.limits[zork]: Invalid value: \"zork\": must be a standard resource for containers",
                "spec.containers[0].resources.requests[zork]: Invalid value: \"zork\": must be a standard resource type or fully qualified",
                "spec.containers[0].resources.requests[zork]: Invalid value: \"zork\": must be a standard resource for containers",
            ],
        ),
        (
            many(json!({"securityContext": {"runAsUser": -1}})),
            vec![
                "spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
            ],
        ),
        (
            many(json!({"lifecycle": {"preStop": {"sleep": {"seconds": 99}}}})),
            vec![
                "spec.containers[0].lifecycle.preStop.sleep: Invalid value: 99: must be non-negative and less than terminationGracePeriodSeconds (30)",
            ],
        ),
        (
            volume(json!({"name": "V", "emptyDir": {}})),
            vec![
                "spec.volumes[0].name: Invalid value: \"V\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            ],
        ),
        (
            volume(json!({"name": "v", "emptyDir": {}, "secret": {"secretName": "s"}})),
            vec!["spec.volumes[0].secret: Forbidden: may not specify more than 1 volume type"],
        ),
        (
            volume(json!({"name": "v", "hostPath": {"path": "/a/../b"}})),
            vec!["spec.volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'"],
        ),
        (
            volume(
                json!({"name": "v", "downwardAPI": {"items": [{"path": "/x", "fieldRef": {"fieldPath": "metadata.name"}}]}}),
            ),
            vec!["spec.volumes[0].downwardAPI.path: Invalid value: \"/x\": must be a relative path"],
        ),
        (
            json!({"restartPolicy": "Zork"}),
            vec![
                "spec.restartPolicy: Unsupported value: \"Zork\": supported values: \"Always\", \"OnFailure\", \"Never\"",
            ],
        ),
        (
            json!({"dnsPolicy": "None"}),
            vec!["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
        ),
        (
            json!({"activeDeadlineSeconds": 0}),
            vec!["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
        ),
        (
            json!({"tolerations": [{"operator": "Equal"}]}),
            vec![
                "spec.tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            ],
        ),
        (
            json!({"initContainers": [{"name": "i", "image": "i", "livenessProbe": {"exec": {"command": ["x"]}}}]}),
            vec![
                "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
            ],
        ),
        (
            json!({"ephemeralContainers": [{"name": "e", "image": "i"}]}),
            vec!["spec.ephemeralContainers: Forbidden: cannot be set on create"],
        ),
        (
            json!({"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "Zork"}]}),
            vec![
                "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
                "spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty",
                "spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: \"Zork\": supported values: \"DoNotSchedule\", \"ScheduleAnyway\"",
            ],
        ),
    ] {
        let pod = created("Pod", pod(spec.clone()));
        assert_eq!(texts(&(strategy("Pod").validate)(&pod)), expected, "{spec}");
    }
}

#[test]
fn little_of_a_pod_may_change() {
    const OTHER: &str = "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
    let toleration = json!({"key": "a", "operator": "Exists"});
    let old = created("Pod", pod(json!({"activeDeadlineSeconds": 10, "tolerations": [toleration]})));
    let first_lines = |spec: Value| -> Vec<String> {
        let mut whole = json!({"activeDeadlineSeconds": 10, "tolerations": [toleration]});
        for (name, value) in spec.as_object().into_iter().flatten() {
            whole[name.as_str()] = value.clone();
        }
        let new = updated("Pod", pod(whole), &old);
        let errors = texts(&(strategy("Pod").validate_update)(&new, &old));
        errors.iter().map(|text| text.lines().next().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(first_lines(json!({})), Vec::<String>::new());
    assert_eq!(
        first_lines(container(json!({"image": "other:1"}))),
        [OTHER],
        "the pull policy changes with the tag"
    );
    assert_eq!(
        first_lines(container(json!({"image": "other:1", "imagePullPolicy": "Always"}))),
        Vec::<String>::new(),
        "the image alone may change"
    );
    assert_eq!(first_lines(json!({"nodeName": "n"})), [OTHER]);
    assert_eq!(first_lines(json!({"activeDeadlineSeconds": 5})), Vec::<String>::new());
    assert_eq!(
        first_lines(json!({"activeDeadlineSeconds": 20})),
        ["spec.activeDeadlineSeconds: Invalid value: 20: must be less than or equal to previous value"]
    );
    assert_eq!(
        first_lines(json!({"tolerations": []})),
        ["spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"]
    );
    assert_eq!(
        first_lines(json!({"tolerations": [toleration, {"key": "b", "operator": "Exists"}]})),
        Vec::<String>::new()
    );
    assert_eq!(
        first_lines(json!({"containers": []})),
        [
            "spec.containers: Required value",
            "spec.containers: Forbidden: pod updates may not add or remove containers"
        ]
    );
}

#[test]
fn the_status_of_a_pod_keeps_both_names_of_its_address() {
    let old = created("Pod", pod(json!({})));
    let mut new = old.clone();
    new["status"] = json!({"phase": "Running", "podIP": "10.1.1.1"});
    (strategy("Pod").prepare_status_update)(&mut new, &old);
    assert_eq!(
        new["status"],
        json!({"phase": "Running", "podIP": "10.1.1.1", "podIPs": [{"ip": "10.1.1.1"}], "qosClass": "BestEffort"})
    );
    let mut bad = old.clone();
    bad["status"] = json!({"podIP": "zork", "podIPs": [{"ip": "zork"}], "qosClass": "Guaranteed"});
    assert_eq!(
        texts(&(strategy("Pod").validate_status_update)(&bad, &old)),
        [
            "status.qosClass: Invalid value: \"Guaranteed\": field is immutable",
            "status.podIPs[0]: Invalid value: \"zork\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        ]
    );
}

#[test]
fn a_resize_changes_resources_and_nothing_else() {
    let resources = json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}});
    let old = created("Pod", pod(container(json!({"resources": resources}))));
    let mut new = old.clone();
    new["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "150m".into();
    new["spec"]["containers"][0]["image"] = "other".into();
    let resize = subresource("Pod", "resize");
    (resize.prepare_update)(&mut new, &old);
    assert_eq!(new["spec"]["containers"][0]["image"], "img");
    assert_eq!(new["spec"]["containers"][0]["resources"]["requests"]["cpu"], "150m");
    assert_eq!(texts(&(resize.validate_update)(&new, &old)), Vec::<String>::new());
    assert!(resize.generation.is_some_and(|rises| rises(&new, &old)));
}

#[test]
fn pods_are_warned_of_what_hides_or_is_old() {
    let env = json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]);
    let mut pod = pod(container(json!({"env": env})));
    pod["spec"]["nodeSelector"] = json!({"beta.kubernetes.io/os": "linux"});
    pod["metadata"]["annotations"] = json!({"seccomp.security.alpha.kubernetes.io/pod": "x"});
    assert_eq!(
        (strategy("Pod").warnings)(&pod, None),
        [
            "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
            "metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; use the \"seccompProfile\" field instead",
            "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply",
        ]
    );
    assert!((strategy("Pod").warnings)(&pod, Some(&pod)).is_empty());
}

fn service(spec: Value) -> Value {
    json!({"metadata": {"name": "s"}, "spec": spec})
}

#[test]
fn a_service_is_filled_in() {
    let plain = created("Service", service(json!({"ports": [{"port": 80}], "clusterIP": "10.0.0.1"})));
    assert_eq!(
        plain["spec"],
        json!({
            "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "internalTrafficPolicy": "Cluster",
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}], "sessionAffinity": "None", "type": "ClusterIP",
        })
    );
    assert_eq!(plain["status"], json!({"loadBalancer": {}}));
    let balanced =
        created("Service", service(json!({"type": "LoadBalancer", "sessionAffinity": "ClientIP"})));
    assert_eq!(balanced["spec"]["externalTrafficPolicy"], "Cluster");
    assert_eq!(balanced["spec"]["allocateLoadBalancerNodePorts"], true);
    assert_eq!(balanced["spec"]["sessionAffinityConfig"], json!({"clientIP": {"timeoutSeconds": 10800}}));
}

#[test]
fn what_is_wrong_with_a_service_is_said_where_it_is() {
    for (spec, expected) in [
        (json!({}), vec!["spec.ports: Required value"]),
        (json!({"clusterIP": "None"}), vec![]),
        (
            json!({"type": "Zork", "ports": [{"port": 80}]}),
            vec![
                "spec.type: Unsupported value: \"Zork\": supported values: \"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\"",
            ],
        ),
        (
            json!({"ports": [{"port": 0}]}),
            vec![
                "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive",
            ],
        ),
        (
            json!({"ports": [{"port": 80}, {"port": 80}]}),
            vec![
                "spec.ports[0].name: Required value",
                "spec.ports[1].name: Required value",
                "spec.ports[1]: Duplicate value: {\"Name\":\"\",\"Protocol\":\"TCP\",\"AppProtocol\":null,\"Port\":80,\"TargetPort\":0,\"NodePort\":0}",
            ],
        ),
        (
            json!({"ports": [{"port": 80, "nodePort": 30000}]}),
            vec!["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
        ),
        (
            json!({"type": "NodePort", "clusterIP": "None", "ports": [{"port": 80}]}),
            vec![
                "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services",
            ],
        ),
        (json!({"type": "ExternalName"}), vec!["spec.externalName: Required value"]),
        (
            json!({"type": "ExternalName", "externalName": "A_b"}),
            vec![
                "spec.externalName: Invalid value: \"A_b\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ],
        ),
        (
            json!({"clusterIP": "10.0.0.1", "ipFamilies": ["IPv6"], "ports": [{"port": 80}]}),
            vec![
                "spec.clusterIPs[0]: Invalid value: \"10.0.0.1\": expected an IPv6 value as indicated by `ipFamilies[0]`",
            ],
        ),
        (
            json!({"ports": [{"port": 80}], "externalTrafficPolicy": "Local"}),
            vec![
                "spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible services",
            ],
        ),
        (
            json!({"ports": [{"port": 80}], "loadBalancerSourceRanges": ["10.0.0.0/8"]}),
            vec!["spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'"],
        ),
    ] {
        let service = created("Service", service(spec.clone()));
        assert_eq!(texts(&(strategy("Service").validate)(&service)), expected, "{spec}");
    }
}

#[test]
fn what_a_service_was_given_stays_until_its_type_changes() {
    let allocated = json!({
        "type": "NodePort", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack", "ports": [{"port": 80, "nodePort": 30001}],
    });
    let old = created("Service", service(allocated));
    let again = updated("Service", service(json!({"type": "NodePort", "ports": [{"port": 80}]})), &old);
    assert_eq!(again["spec"], old["spec"], "a client that leaves out what was allocated keeps it");
    let mut plain = old.clone();
    plain["spec"]["type"] = "ClusterIP".into();
    let plain = updated("Service", plain, &old);
    assert!(plain["spec"]["ports"][0].get("nodePort").is_none());
    assert!(plain["spec"].get("externalTrafficPolicy").is_none());
    assert_eq!(texts(&(strategy("Service").validate_update)(&plain, &old)), Vec::<String>::new());
    let mut moved = old.clone();
    moved["spec"]["clusterIP"] = "10.0.0.2".into();
    let moved = updated("Service", moved, &old);
    assert_eq!(
        texts(&(strategy("Service").validate_update)(&moved, &old)),
        ["spec.clusterIPs[0]: Invalid value: [\"10.0.0.2\"]: may not change once set"]
    );
}

fn claim(spec: Value) -> Value {
    let mut all = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    for (name, value) in spec.as_object().into_iter().flatten() {
        all[name.as_str()] = value.clone();
    }
    json!({"metadata": {"name": "c"}, "spec": all})
}

#[test]
fn what_is_wrong_with_a_claim_is_said_where_it_is() {
    for (spec, expected) in [
        (json!({}), vec![]),
        (
            json!({"accessModes": []}),
            vec!["spec.accessModes: Required value: at least 1 access mode is required"],
        ),
        (
            json!({"accessModes": ["Zork"]}),
            vec![
                "spec.accessModes: Unsupported value: \"Zork\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"",
            ],
        ),
        (json!({"resources": {}}), vec!["spec.resources[storage]: Required value"]),
        (
            json!({"resources": {"requests": {"storage": "0"}}}),
            vec!["spec.resources[storage]: Invalid value: \"0\": must be greater than zero"],
        ),
        (
            json!({"volumeMode": "Zork"}),
            vec!["spec.volumeMode: Unsupported value: \"Zork\": supported values: \"Block\", \"Filesystem\""],
        ),
    ] {
        let claim = created("PersistentVolumeClaim", claim(spec.clone()));
        assert_eq!(claim["status"], json!({"phase": "Pending"}));
        assert_eq!(texts(&(strategy("PersistentVolumeClaim").validate)(&claim)), expected, "{spec}");
    }
}

#[test]
fn a_bound_claim_may_grow() {
    let kind = strategy("PersistentVolumeClaim");
    let mut old = created("PersistentVolumeClaim", claim(json!({"storageClassName": "x"})));
    let bigger = claim(json!({"storageClassName": "x", "resources": {"requests": {"storage": "2Gi"}}}));
    let pending = updated("PersistentVolumeClaim", bigger.clone(), &old);
    let errors = (kind.validate_update)(&pending, &old);
    assert_eq!(errors.len(), 1);
    assert!(errors[0].detail.starts_with("spec is immutable after creation except resources.requests"));
    old["status"] = json!({"phase": "Bound", "capacity": {"storage": "1Gi"}});
    let grown = updated("PersistentVolumeClaim", bigger, &old);
    assert_eq!(texts(&(kind.validate_update)(&grown, &old)), Vec::<String>::new());
    let smaller = claim(json!({"storageClassName": "x", "resources": {"requests": {"storage": "1Mi"}}}));
    let shrunk = updated("PersistentVolumeClaim", smaller, &old);
    assert_eq!(
        texts(&(kind.validate_update)(&shrunk, &old)),
        ["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"]
    );
    let late = created("PersistentVolumeClaim", claim(json!({})));
    let named =
        updated("PersistentVolumeClaim", claim(json!({"storageClassName": "x", "volumeName": "v"})), &late);
    assert_eq!(
        texts(&(kind.validate_update)(&named, &late)),
        Vec::<String>::new(),
        "a class may be named later"
    );
}

#[test]
fn a_namespace_has_its_label_and_finalizer() {
    let namespace =
        created("Namespace", json!({"metadata": {"name": "n"}, "status": {"phase": "Terminating"}}));
    assert_eq!(
        namespace,
        json!({
            "metadata": {"name": "n", "labels": {"kubernetes.io/metadata.name": "n"}},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
        })
    );
    let cleared = updated("Namespace", json!({"metadata": {"name": "n"}, "spec": {}}), &namespace);
    assert_eq!(cleared["spec"]["finalizers"], json!(["kubernetes"]), "only /finalize removes it");
    let finalize = subresource("Namespace", "finalize");
    let mut empty = json!({"metadata": {"name": "n"}, "spec": {"finalizers": ["zork"]}});
    (finalize.prepare_update)(&mut empty, &namespace);
    assert_eq!(
        texts(&(finalize.validate_update)(&empty, &namespace)),
        [
            "spec.finalizers[0]: Invalid value: \"zork\": name is neither a standard finalizer name nor is it fully qualified"
        ]
    );
}

#[test]
fn the_default_of_a_limit_range_follows_from_its_bounds() {
    let item = json!({"type": "Container", "default": {"cpu": "500m"}, "max": {"memory": "1Gi"}});
    let range = created("LimitRange", json!({"spec": {"limits": [item]}}));
    assert_eq!(
        range["spec"]["limits"][0],
        json!({
            "type": "Container", "max": {"memory": "1Gi"}, "default": {"cpu": "500m", "memory": "1Gi"},
            "defaultRequest": {"cpu": "500m", "memory": "1Gi"},
        })
    );
    let bad = json!({"spec": {"limits": [{"type": "Pod", "min": {"cpu": "2"}, "max": {"cpu": "1"}, "default": {"cpu": "1"}}]}});
    assert_eq!(
        texts(&(strategy("LimitRange").validate)(&bad)),
        [
            "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
            "spec.limits[0].min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1",
        ]
    );
}

#[test]
fn the_scopes_of_a_quota_fit_and_stay() {
    let quota = |hard: Value, scopes: Value| json!({"spec": {"hard": hard, "scopes": scopes}});
    for (hard, scopes, expected) in [
        (json!({"pods": "1"}), json!(["BestEffort"]), vec![]),
        (
            json!({"zork": "1"}),
            json!([]),
            vec![
                "spec.hard[zork]: Invalid value: \"zork\": must be a standard resource type or fully qualified",
                "spec.hard[zork]: Invalid value: \"zork\": must be a standard resource for quota",
            ],
        ),
        (
            json!({"pods": "1.5"}),
            json!([]),
            vec!["spec.hard[pods]: Invalid value: \"1.5\": must be an integer"],
        ),
        (
            json!({"cpu": "1"}),
            json!(["BestEffort"]),
            vec!["spec.scopes: Invalid value: [\"BestEffort\"]: unsupported scope applied to resource"],
        ),
        (
            json!({"pods": "1"}),
            json!(["BestEffort", "NotBestEffort"]),
            vec!["spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\"]: conflicting scopes"],
        ),
        (json!({"count/deployments.apps": "1"}), json!([]), vec![]),
    ] {
        let quota = quota(hard.clone(), scopes);
        assert_eq!(texts(&(strategy("ResourceQuota").validate)(&quota)), expected, "{hard}");
    }
    let (old, new) = (quota(json!({}), json!(["BestEffort"])), quota(json!({}), json!([])));
    assert_eq!(
        texts(&(strategy("ResourceQuota").validate_update)(&new, &old)),
        ["spec.scopes: Invalid value: []: field is immutable"]
    );
}

#[test]
fn a_replication_controller_selects_what_its_template_says() {
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let controller =
        created("ReplicationController", json!({"metadata": {"name": "r"}, "spec": {"template": template}}));
    assert_eq!(controller["spec"]["selector"], json!({"a": "b"}));
    assert_eq!(controller["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(controller["spec"]["replicas"], 1);
    assert_eq!(texts(&(strategy("ReplicationController").validate)(&controller)), Vec::<String>::new());
    let empty = created("ReplicationController", json!({"spec": {}}));
    assert_eq!(
        texts(&(strategy("ReplicationController").validate)(&empty)),
        ["spec.selector: Required value", "spec.template: Required value"]
    );
}

#[test]
fn nodes_keep_what_identifies_them() {
    let old = created(
        "Node",
        json!({"spec": {"podCIDR": "10.0.0.0/24", "providerID": "a"}, "status": {"capacity": {"cpu": "4"}}}),
    );
    assert_eq!(old["spec"]["podCIDRs"], json!(["10.0.0.0/24"]));
    assert_eq!(old["status"]["allocatable"], json!({"cpu": "4"}));
    let taint = json!({"key": "k", "effect": "NoSchedule"});
    let new = updated(
        "Node",
        json!({"spec": {"podCIDR": "10.1.0.0/24", "providerID": "b", "taints": [taint, taint]}}),
        &old,
    );
    let errors = texts(&(strategy("Node").validate_update)(&new, &old));
    assert!(errors.contains(
        &"spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid".to_owned()
    ));
    assert!(
        errors.contains(
            &"spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid"
                .to_owned()
        )
    );
    assert!(errors.iter().any(|text| text.starts_with("metadata.taints[1]: Duplicate value")
        && text.ends_with("taints must be unique by key and effect pair")));
}

#[test]
fn a_volume_has_one_source_and_keeps_it() {
    let volume = |spec: Value| {
        let mut all = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/d"}});
        for (name, value) in spec.as_object().into_iter().flatten() {
            all[name.as_str()] = value.clone();
        }
        created("PersistentVolume", json!({"metadata": {"name": "v"}, "spec": all}))
    };
    let kind = strategy("PersistentVolume");
    for (spec, expected) in [
        (json!({}), vec![]),
        (
            json!({"capacity": {}}),
            vec![
                "spec.capacity: Required value",
                "spec.capacity: Unsupported value: {}: supported values: \"storage\"",
            ],
        ),
        (json!({"hostPath": null}), vec!["spec: Required value: must specify a volume type"]),
        (
            json!({"nfs": {"server": "s", "path": "/"}}),
            vec!["spec.nfs: Forbidden: may not specify more than 1 volume type"],
        ),
        (
            json!({"persistentVolumeReclaimPolicy": "Zork"}),
            vec![
                "spec.persistentVolumeReclaimPolicy: Unsupported value: \"Zork\": supported values: \"Delete\", \"Recycle\", \"Retain\"",
            ],
        ),
    ] {
        assert_eq!(texts(&(kind.validate)(&volume(spec.clone()))), expected, "{spec}");
    }
    let old = volume(json!({}));
    let moved = volume(json!({"hostPath": {"path": "/e"}}));
    let errors = texts(&(kind.validate_update)(&moved, &old));
    assert_eq!(errors.len(), 1);
    assert!(errors[0].starts_with(
        "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation"
    ));
}

#[test]
fn events_belong_to_the_namespace_of_what_they_are_about() {
    let event = |namespace: &str, of: &str, more: Value| {
        let mut event =
            json!({"metadata": {"name": "e", "namespace": namespace}, "involvedObject": {"namespace": of}});
        for (name, value) in more.as_object().into_iter().flatten() {
            event[name.as_str()] = value.clone();
        }
        texts(&(strategy("Event").validate)(&event))
    };
    assert_eq!(event("a", "a", json!({})), Vec::<String>::new());
    assert_eq!(event("default", "", json!({})), Vec::<String>::new());
    assert_eq!(
        event("a", "b", json!({})),
        ["involvedObject.namespace: Invalid value: \"b\": does not match event.namespace"]
    );
    assert_eq!(
        event("a", "a", json!({"eventTime": "2020-01-01T00:00:00.000000Z", "reportingComponent": "c.io/x"})),
        ["reportingInstance: Required value", "action: Required value", "reason: Required value"]
    );
}

#[test]
fn any_json_whatsoever_is_survived() {
    let odd = [
        json!(null),
        json!([]),
        json!("x"),
        json!({"spec": 7, "status": [], "metadata": "x"}),
        json!({"spec": {"containers": {"a": 1}, "template": [], "ports": "x", "volumes": [null, 7], "hard": [1]}}),
        json!({"spec": {"containers": [null, 7, []], "limits": [1, {"max": 3}], "template": {"spec": []}}}),
        json!({"spec": {"jobTemplate": 3, "selector": "x", "strategy": 1, "volumeClaimTemplates": [1]}}),
    ];
    for (kind, strategy) in
        STRATEGIES.iter().chain(super::super::apps::STRATEGIES).chain(super::super::batch::STRATEGIES)
    {
        for object in &odd {
            let mut object = object.clone();
            (strategy.default)(&mut object);
            let old = object.clone();
            (strategy.prepare_create)(&mut object);
            (strategy.validate)(&object);
            (strategy.prepare_update)(&mut object, &old);
            (strategy.validate_update)(&object, &old);
            (strategy.prepare_status_update)(&mut object, &old);
            (strategy.validate_status_update)(&object, &old);
            (strategy.warnings)(&object, None);
            assert!(!kind.is_empty());
        }
    }
}
