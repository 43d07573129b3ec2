//! Valid objects of many kinds, to start from: a fuzzer that has to find `spec.containers` by itself finds
//! little else.

use serde_json::Value;

/// A valid object and where it lives.
pub struct Sample {
    /// The collection, without a namespace.
    pub group_version: &'static str,
    pub plural: &'static str,
    pub namespaced: bool,
    pub subresources: &'static [&'static str],
    pub object: Value,
}

impl Sample {
    /// The path of its collection.
    pub fn collection(&self, namespace: &str) -> String {
        let (root, plural) = (root(self.group_version), self.plural);
        if self.namespaced {
            format!("{root}/namespaces/{namespace}/{plural}")
        } else {
            format!("{root}/{plural}")
        }
    }
}

pub fn root(group_version: &str) -> String {
    if group_version.contains('/') {
        format!("/apis/{group_version}")
    } else {
        format!("/api/{group_version}")
    }
}

pub fn samples() -> Vec<Sample> {
    TABLE
        .iter()
        .map(|(group_version, plural, kind, namespaced, subresources, rest)| {
            let mut object: Value =
                serde_json::from_str(rest).unwrap_or_else(|error| panic!("{kind}: {error}"));
            object["apiVersion"] = (*group_version).into();
            object["kind"] = (*kind).into();
            if object["metadata"]["name"].is_null() {
                object["metadata"]["name"] = "a".into();
            }
            Sample { group_version, plural, namespaced: *namespaced, subresources, object }
        })
        .collect()
}

type Row = (&'static str, &'static str, &'static str, bool, &'static [&'static str], &'static str);

const TABLE: &[Row] = &[
    ("v1", "configmaps", "ConfigMap", true, &[], r#"{"data":{"k":"v","l":"w"},"binaryData":{"b":"AAEC"}}"#),
    ("v1", "secrets", "Secret", true, &[], r#"{"stringData":{"k":"v"},"data":{"l":"dw=="},"type":"Opaque"}"#),
    (
        "v1",
        "pods",
        "Pod",
        true,
        &["status", "log", "binding", "eviction", "ephemeralcontainers", "resize", "exec", "proxy"],
        r#"{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"c","image":"i","ports":[{"containerPort":80,"name":"http"}],
        "env":[{"name":"A","value":"1"},{"name":"B","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}],
        "resources":{"requests":{"cpu":"100m","memory":"64Mi"},"limits":{"cpu":"1"}},
        "livenessProbe":{"httpGet":{"path":"/","port":"http"}},"volumeMounts":[{"name":"v","mountPath":"/v"}]}],
        "volumes":[{"name":"v","emptyDir":{"sizeLimit":"1Gi"}}],"tolerations":[{"key":"k","operator":"Exists"}],
        "affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"x","operator":"In","values":["y"]}]}]}}}}}"#,
    ),
    (
        "v1",
        "services",
        "Service",
        true,
        &["status", "proxy"],
        r#"{"spec":{"selector":{"app":"a"},"type":"NodePort","ports":[{"name":"http","port":80,"targetPort":"http","protocol":"TCP"}]}}"#,
    ),
    (
        "v1",
        "namespaces",
        "Namespace",
        false,
        &["status", "finalize"],
        r#"{"metadata":{"labels":{"team":"a"}}}"#,
    ),
    (
        "v1",
        "nodes",
        "Node",
        false,
        &["status", "proxy"],
        r#"{"spec":{"podCIDR":"10.0.0.0/24","podCIDRs":["10.0.0.0/24"],"taints":[{"key":"k","effect":"NoSchedule"}]},
        "status":{"capacity":{"cpu":"4","memory":"8Gi"},"conditions":[{"type":"Ready","status":"True"}]}}"#,
    ),
    (
        "v1",
        "serviceaccounts",
        "ServiceAccount",
        true,
        &["token"],
        r#"{"secrets":[{"name":"s"}],"automountServiceAccountToken":true}"#,
    ),
    (
        "v1",
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        true,
        &["status"],
        r#"{"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}"#,
    ),
    (
        "v1",
        "persistentvolumes",
        "PersistentVolume",
        false,
        &["status"],
        r#"{"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/a"}}}"#,
    ),
    (
        "v1",
        "resourcequotas",
        "ResourceQuota",
        true,
        &["status"],
        r#"{"spec":{"hard":{"pods":"10","requests.cpu":"4"},"scopes":["NotTerminating"]}}"#,
    ),
    (
        "v1",
        "limitranges",
        "LimitRange",
        true,
        &[],
        r#"{"spec":{"limits":[{"type":"Container","default":{"cpu":"1"},"defaultRequest":{"cpu":"500m"},"max":{"cpu":"2"}}]}}"#,
    ),
    (
        "v1",
        "events",
        "Event",
        true,
        &[],
        r#"{"involvedObject":{"kind":"Pod","name":"a","namespace":"n"},"reason":"R","message":"m","type":"Normal","count":1,"metadata":{"namespace":"n"}}"#,
    ),
    (
        "v1",
        "endpoints",
        "Endpoints",
        true,
        &[],
        r#"{"subsets":[{"addresses":[{"ip":"10.0.0.1"}],"ports":[{"port":80,"name":"http"}]}]}"#,
    ),
    (
        "v1",
        "replicationcontrollers",
        "ReplicationController",
        true,
        &["status", "scale"],
        r#"{"spec":{"replicas":1,"selector":{"app":"a"},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#,
    ),
    (
        "apps/v1",
        "deployments",
        "Deployment",
        true,
        &["status", "scale"],
        r#"{"metadata":{"labels":{"app":"a"},"annotations":{"n":"1"}},"spec":{"replicas":2,"selector":{"matchLabels":{"app":"a"},"matchExpressions":[{"key":"app","operator":"Exists"}]},
        "strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"25%","maxUnavailable":1}},
        "template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"c","image":"i"},{"name":"d","image":"j"}]}}}}"#,
    ),
    (
        "apps/v1",
        "replicasets",
        "ReplicaSet",
        true,
        &["status", "scale"],
        r#"{"spec":{"replicas":1,"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#,
    ),
    (
        "apps/v1",
        "statefulsets",
        "StatefulSet",
        true,
        &["status", "scale"],
        r#"{"spec":{"serviceName":"s","selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"c","image":"i"}]}},
        "volumeClaimTemplates":[{"metadata":{"name":"d"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}]}}"#,
    ),
    (
        "apps/v1",
        "daemonsets",
        "DaemonSet",
        true,
        &["status"],
        r#"{"spec":{"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#,
    ),
    (
        "apps/v1",
        "controllerrevisions",
        "ControllerRevision",
        true,
        &[],
        r#"{"revision":1,"data":{"any":{"thing":[1,2]}}}"#,
    ),
    (
        "batch/v1",
        "jobs",
        "Job",
        true,
        &["status"],
        r#"{"spec":{"completions":2,"parallelism":1,"backoffLimit":3,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}"#,
    ),
    (
        "batch/v1",
        "cronjobs",
        "CronJob",
        true,
        &["status"],
        r#"{"spec":{"schedule":"*/5 * * * *","timeZone":"Europe/Zurich","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}}"#,
    ),
    (
        "networking.k8s.io/v1",
        "ingresses",
        "Ingress",
        true,
        &["status"],
        r#"{"spec":{"rules":[{"host":"a.example.com","http":{"paths":[{"path":"/","pathType":"Prefix","backend":{"service":{"name":"s","port":{"number":80}}}}]}}],"tls":[{"hosts":["a.example.com"],"secretName":"s"}]}}"#,
    ),
    (
        "networking.k8s.io/v1",
        "networkpolicies",
        "NetworkPolicy",
        true,
        &[],
        r#"{"spec":{"podSelector":{"matchLabels":{"app":"a"}},"policyTypes":["Ingress"],"ingress":[{"from":[{"ipBlock":{"cidr":"10.0.0.0/8","except":["10.1.0.0/16"]}},{"namespaceSelector":{}}],"ports":[{"port":80,"endPort":90,"protocol":"TCP"}]}]}}"#,
    ),
    (
        "policy/v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        true,
        &["status"],
        r#"{"spec":{"minAvailable":"50%","selector":{"matchLabels":{"app":"a"}}}}"#,
    ),
    (
        "autoscaling/v2",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        true,
        &["status"],
        r#"{"spec":{"scaleTargetRef":{"kind":"Deployment","name":"a","apiVersion":"apps/v1"},"minReplicas":1,"maxReplicas":5,
        "metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}]}}"#,
    ),
    (
        "autoscaling/v1",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        true,
        &["status"],
        r#"{"metadata":{"name":"old"},"spec":{"scaleTargetRef":{"kind":"Deployment","name":"a","apiVersion":"apps/v1"},"maxReplicas":5,"targetCPUUtilizationPercentage":70}}"#,
    ),
    (
        "rbac.authorization.k8s.io/v1",
        "roles",
        "Role",
        true,
        &[],
        r#"{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get","list"]}]}"#,
    ),
    (
        "rbac.authorization.k8s.io/v1",
        "clusterroles",
        "ClusterRole",
        false,
        &[],
        r#"{"rules":[{"nonResourceURLs":["/healthz"],"verbs":["get"]}],"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"x":"y"}}]}}"#,
    ),
    (
        "rbac.authorization.k8s.io/v1",
        "rolebindings",
        "RoleBinding",
        true,
        &[],
        r#"{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"a"},"subjects":[{"kind":"ServiceAccount","name":"s","namespace":"n"}]}"#,
    ),
    (
        "coordination.k8s.io/v1",
        "leases",
        "Lease",
        true,
        &[],
        r#"{"spec":{"holderIdentity":"h","leaseDurationSeconds":15,"renewTime":"2026-01-01T00:00:00.000001Z"}}"#,
    ),
    (
        "discovery.k8s.io/v1",
        "endpointslices",
        "EndpointSlice",
        true,
        &[],
        r#"{"addressType":"IPv4","endpoints":[{"addresses":["10.0.0.1"],"conditions":{"ready":true}}],"ports":[{"name":"http","port":80}]}"#,
    ),
    (
        "events.k8s.io/v1",
        "events",
        "Event",
        true,
        &[],
        r#"{"eventTime":"2026-01-01T00:00:00.000000Z","reportingController":"c.example.com/x","reportingInstance":"i","action":"Act","reason":"R","type":"Normal","regarding":{"kind":"Pod","namespace":"n","name":"a"},"metadata":{"namespace":"n","name":"new"}}"#,
    ),
    (
        "storage.k8s.io/v1",
        "storageclasses",
        "StorageClass",
        false,
        &[],
        r#"{"provisioner":"example.com/p","parameters":{"a":"b"},"reclaimPolicy":"Delete"}"#,
    ),
    (
        "scheduling.k8s.io/v1",
        "priorityclasses",
        "PriorityClass",
        false,
        &[],
        r#"{"value":1000,"globalDefault":false}"#,
    ),
    ("node.k8s.io/v1", "runtimeclasses", "RuntimeClass", false, &[], r#"{"handler":"h"}"#),
    (
        "certificates.k8s.io/v1",
        "certificatesigningrequests",
        "CertificateSigningRequest",
        false,
        &["status", "approval"],
        r#"{"spec":{"signerName":"example.com/s","usages":["digital signature"],"request":"LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIRk1HNENBUUF3RERFS01BZ0dBMVVFQXd3QllUQlpNQk1HQnlxR1NNNDlBZ0VHQ0NxR1NNNDlBd0VIQTBJQQpCSkphV1NkU1UxZWpQdThMMit6Z0ozK2h6R2lnNThxSTJWbS9Tb3U1WXc0cG83UEpKN3FUYTNTL1VnaUFmY0xDCmFyZjVJQlNWck5YNXZoT05kaTM2eENLZ0FEQUtCZ2dxaGtqT1BRUURBZ05IQURCRUFpQkpKNWErSGVKUlpnNWEKZ0NEYjJuNGlGaHFSQUlscW9IanY1L24yY055VXdRSWdTcXhYdk1rckVVcGFpTS95ZWJuR2ozMVpnb0RZeU1ScQp6ZkE3ZG11Qkh5QT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg=="}}"#,
    ),
    (
        "flowcontrol.apiserver.k8s.io/v1",
        "flowschemas",
        "FlowSchema",
        false,
        &["status"],
        r#"{"spec":{"matchingPrecedence":100,"priorityLevelConfiguration":{"name":"p"},"rules":[{"subjects":[{"kind":"User","user":{"name":"u"}}],"resourceRules":[{"verbs":["get"],"apiGroups":[""],"resources":["pods"],"clusterScope":true}]}]}}"#,
    ),
    (
        "admissionregistration.k8s.io/v1",
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        false,
        &["status"],
        r#"{"spec":{"failurePolicy":"Fail","matchConstraints":{"resourceRules":[{"apiGroups":["apps"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["deployments"]}]},
        "matchConditions":[{"name":"m","expression":"object.metadata.name != 'x'"}],"variables":[{"name":"r","expression":"object.spec.replicas"}],
        "validations":[{"expression":"variables.r <= 50 && object.metadata.name.matches('^[a-z]+$')","messageExpression":"'too many: ' + string(variables.r)"}]}}"#,
    ),
    (
        "admissionregistration.k8s.io/v1",
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        false,
        &[],
        r#"{"spec":{"policyName":"a","validationActions":["Deny"],"matchResources":{"namespaceSelector":{"matchLabels":{"team":"a"}}}}}"#,
    ),
    (
        "admissionregistration.k8s.io/v1",
        "mutatingadmissionpolicies",
        "MutatingAdmissionPolicy",
        false,
        &[],
        r#"{"spec":{"reinvocationPolicy":"Never","matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}]},
        "mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{metadata: Object.metadata{labels: {'a':'b'}}}"}}]}}"#,
    ),
    (
        "admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        false,
        &[],
        r#"{"webhooks":[{"name":"w.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://127.0.0.1:1/x"},"failurePolicy":"Ignore","timeoutSeconds":1,
        "rules":[{"apiGroups":["nowhere.example.com"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["nothings"]}]}]}"#,
    ),
    (
        "apiextensions.k8s.io/v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        false,
        &["status"],
        r#"{"metadata":{"name":"things.fuzz.example.com"},"spec":{"group":"fuzz.example.com","scope":"Namespaced","names":{"plural":"things","singular":"thing","kind":"Thing","shortNames":["th"]},
        "versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas","labelSelectorPath":".status.selector"}},
        "additionalPrinterColumns":[{"name":"N","type":"integer","jsonPath":".spec.number"},{"name":"L","type":"string","jsonPath":".spec.list[?(@.k==\"a\")].v"}],
        "selectableFields":[{"jsonPath":".spec.text"}],
        "schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","required":["text"],
        "x-kubernetes-validations":[{"rule":"!has(self.number) || self.number < 100","message":"too big"},{"rule":"self.text == oldSelf.text || true"}],
        "properties":{"text":{"type":"string","maxLength":100,"pattern":"^[a-z]*$","default":"x"},"number":{"type":"integer","format":"int32","minimum":-5,"multipleOf":1},"replicas":{"type":"integer"},
        "real":{"type":"number"},"flag":{"type":"boolean","nullable":true},"when":{"type":"string","format":"date-time"},"choice":{"type":"string","enum":["a","b"]},
        "list":{"type":"array","maxItems":20,"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string","maxLength":20},"v":{"type":"integer","default":3}}}},
        "set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
        "port":{"x-kubernetes-int-or-string":true},"map":{"type":"object","additionalProperties":{"type":"string"}},
        "pod":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}}},
        "status":{"type":"object","properties":{"replicas":{"type":"integer"},"selector":{"type":"string"},"conditions":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["type"],"items":{"type":"object","required":["type"],"properties":{"type":{"type":"string"},"status":{"type":"string"}}}}}}}}}}]}}"#,
    ),
    (
        "fuzz.example.com/v1",
        "things",
        "Thing",
        true,
        &["status", "scale"],
        r#"{"spec":{"text":"hello","number":5,"real":1.5,"flag":true,"choice":"a","list":[{"k":"a","v":1},{"k":"b"}],"set":["x","y"],"free":{"any":{"thing":[1,{"deep":null}]}},"port":"http","map":{"a":"b"},
        "pod":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}},"status":{"replicas":1,"selector":"a=b","conditions":[{"type":"Ready","status":"True"}]}}"#,
    ),
    (
        "authorization.k8s.io/v1",
        "subjectaccessreviews",
        "SubjectAccessReview",
        false,
        &[],
        r#"{"metadata":{"name":""},"spec":{"user":"u","groups":["g"],"resourceAttributes":{"verb":"get","resource":"pods","namespace":"n"}}}"#,
    ),
    (
        "authorization.k8s.io/v1",
        "selfsubjectrulesreviews",
        "SelfSubjectRulesReview",
        false,
        &[],
        r#"{"metadata":{"name":""},"spec":{"namespace":"n"}}"#,
    ),
    (
        "authentication.k8s.io/v1",
        "tokenreviews",
        "TokenReview",
        false,
        &[],
        r#"{"metadata":{"name":""},"spec":{"token":"t","audiences":["a"]}}"#,
    ),
    (
        "authentication.k8s.io/v1",
        "selfsubjectreviews",
        "SelfSubjectReview",
        false,
        &[],
        r#"{"metadata":{"name":""}}"#,
    ),
    (
        "resource.k8s.io/v1",
        "resourceclaims",
        "ResourceClaim",
        true,
        &["status"],
        r#"{"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"c","selectors":[{"cel":{"expression":"device.driver == 'd'"}}]}}]}}}"#,
    ),
];
