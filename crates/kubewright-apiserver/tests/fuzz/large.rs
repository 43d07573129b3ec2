//! Bodies as large as a server takes: whatever they are full of, the answer takes about as long as reading
//! them. The times are told; only what takes far too long fails, as the machine may be busy.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    client::{self, Call},
    objects::{Sample, samples},
    setting,
};

/// What a whole body of three megabytes may take, unoptimised.
const FAR_TOO_LONG: Duration = Duration::from_secs(30);

fn sample(plural: &str) -> Sample {
    samples().into_iter().find(|sample| sample.plural == plural).expect("a sample of each kind")
}

/// As many items as fill `size` bytes.
fn filled(size: usize, item: impl Fn(usize) -> Value) -> Value {
    let mut length = 0;
    (0..).map(item).take_while(|item| (length += item.to_string().len() + 1, length < size).1).collect()
}

fn filled_map(size: usize, key: impl Fn(usize) -> String, value: &Value) -> Value {
    let each = value.to_string().len() + 4;
    let mut length = 0;
    let keys = (0..).map(key).take_while(|key| (length += key.len() + each, length < size).1);
    Value::Object(keys.map(|key| (key, value.clone())).collect())
}

type Body = (&'static str, &'static str, Box<dyn Fn(usize) -> Value>);

/// A place in a sample, and what to fill it with.
fn bodies() -> Vec<Body> {
    let numbered = |index: usize| format!("k{index}");
    vec![
        ("configmaps", "/data", Box::new(move |size| filled_map(size, numbered, &json!("")))),
        (
            "configmaps",
            "/data",
            Box::new(move |size| filled_map(size, |index| format!("ü{index}"), &json!(1))),
        ),
        ("configmaps", "/unknown", Box::new(|size| filled(size, |_| json!({})))),
        ("configmaps", "/metadata/labels", Box::new(move |size| filled_map(size, numbered, &json!("")))),
        (
            "configmaps",
            "/metadata/labels",
            Box::new(move |size| filled_map(size, |index| format!("-{index}"), &json!("?"))),
        ),
        (
            "configmaps",
            "/metadata/finalizers",
            Box::new(|size| filled(size, |index| json!(format!("a.b/{index}")))),
        ),
        (
            "configmaps",
            "/metadata/finalizers",
            Box::new(|size| filled(size, |index| json!(index.to_string()))),
        ),
        (
            "configmaps",
            "/metadata/ownerReferences",
            Box::new(|size| {
                filled(
                    size,
                    |index| json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": index.to_string()}),
                )
            }),
        ),
        ("configmaps", "/metadata/ownerReferences", Box::new(|size| filled(size, |_| json!({"uid": "1"})))),
        (
            "configmaps",
            "/metadata/managedFields",
            Box::new(|size| {
                filled(
                    size,
                    |index| json!({"manager": index.to_string(), "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}}),
                )
            }),
        ),
        (
            "pods",
            "/spec/containers",
            Box::new(|size| filled(size, |index| json!({"name": format!("c{index}"), "image": "i"}))),
        ),
        ("pods", "/spec/containers", Box::new(|size| filled(size, |_| json!({"name": "c", "image": "i"})))),
        ("pods", "/spec/containers", Box::new(|size| filled(size, |_| json!({})))),
        (
            "pods",
            "/spec/volumes",
            Box::new(|size| filled(size, |index| json!({"name": format!("v{index}"), "emptyDir": {}}))),
        ),
        (
            "pods",
            "/spec/containers/0/env",
            Box::new(|size| {
                filled(
                    size,
                    |index| json!({"name": format!("E{index}"), "value": format!("$(E{})", index + 1)}),
                )
            }),
        ),
        ("pods", "/spec/containers/0/env", Box::new(|size| filled(size, |_| json!({"name": "E"})))),
        (
            "pods",
            "/spec/containers/0/ports",
            Box::new(|size| filled(size, |index| json!({"containerPort": index % 65536}))),
        ),
        (
            "pods",
            "/spec/containers/0/volumeMounts",
            Box::new(|size| filled(size, |index| json!({"name": "v", "mountPath": format!("/{index}")}))),
        ),
        (
            "pods",
            "/spec/tolerations",
            Box::new(|size| filled(size, |index| json!({"key": format!("k{index}"), "operator": "Exists"}))),
        ),
        ("pods", "/spec/containers/0/ports", Box::new(|size| filled(size, |_| json!({"containerPort": 80})))),
        (
            "pods",
            "/spec/containers/0/ports",
            Box::new(|size| {
                filled(size, |index| {
                    let address = format!("10.0.{}.{}", index / 256 % 256, index % 256);
                    json!({"containerPort": 80, "hostPort": 80, "hostIP": address})
                })
            }),
        ),
        (
            "pods",
            "/spec/containers/0",
            Box::new(|size| {
                let place = |index: usize| format!("/{index}");
                json!({
                    "name": "c", "image": "i",
                    "volumeMounts": filled(size / 2, |index| json!({"name": "v", "mountPath": place(index)})),
                    "volumeDevices": filled(size / 2, |index| json!({"name": "w", "devicePath": place(index)})),
                })
            }),
        ),
        (
            "pods",
            "/spec/volumes/0",
            Box::new(|size| {
                let items = filled(size, |index| json!({"key": "k", "path": format!("p/{index}")}));
                json!({"name": "v", "configMap": {"name": "c", "items": items}})
            }),
        ),
        (
            "pods",
            "/spec/volumes",
            Box::new(|size| {
                filled(size, |index| match index % 2 {
                    0 => {
                        json!({"name": format!("v{index}"), "persistentVolumeClaim": {"claimName": format!("a-v{}", index + 1)}})
                    }
                    _ => json!({"name": format!("v{index}"), "ephemeral": {}}),
                })
            }),
        ),
        (
            "pods",
            "/spec/resourceClaims",
            Box::new(|size| filled(size, |index| json!({"name": format!("c{index}")}))),
        ),
        ("pods", "/spec/hostAliases", Box::new(|size| filled(size, |_| json!({"ip": "x"})))),
        (
            "deployments",
            "/spec/template/spec/containers",
            Box::new(|size| filled(size, |index| json!({"name": format!("c{index}"), "image": "i"}))),
        ),
        (
            "runtimeclasses",
            "/scheduling",
            Box::new(
                |size| json!({"tolerations": filled(size, |index| json!({"key": format!("k{index}"), "operator": "Exists"}))}),
            ),
        ),
        (
            "certificatesigningrequests",
            "/spec/usages",
            Box::new(|size| filled(size, |index| json!(format!("u{index}")))),
        ),
        (
            "validatingadmissionpolicies",
            "/spec/matchConstraints/resourceRules/0/resourceNames",
            Box::new(|size| filled(size, |index| json!(format!("n{index}")))),
        ),
        (
            "pods",
            "/spec/imagePullSecrets",
            Box::new(|size| filled(size, |index| json!({"name": format!("s{index}")}))),
        ),
        (
            "pods",
            "/spec/schedulingGates",
            Box::new(|size| filled(size, |index| json!({"name": format!("s{index}")}))),
        ),
        (
            "pods",
            "/status/conditions",
            Box::new(|size| filled(size, |index| json!({"type": index.to_string(), "status": "True"}))),
        ),
        (
            "services",
            "/spec/ports",
            Box::new(|size| {
                filled(size, |index| json!({"port": index % 65536, "name": format!("p{index}")}))
            }),
        ),
        ("services", "/spec/externalIPs", Box::new(|size| filled(size, |_| json!("10.0.0.1")))),
        (
            "nodes",
            "/spec/taints",
            Box::new(|size| {
                filled(size, |index| json!({"key": format!("k{index}"), "effect": "NoSchedule"}))
            }),
        ),
        (
            "roles",
            "/rules",
            Box::new(|size| {
                filled(size, |_| json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}))
            }),
        ),
        (
            "rolebindings",
            "/subjects",
            Box::new(|size| filled(size, |index| json!({"kind": "User", "name": index.to_string()}))),
        ),
        (
            "endpointslices",
            "/endpoints",
            Box::new(|size| filled(size, |_| json!({"addresses": ["10.0.0.1"]}))),
        ),
        (
            "endpointslices",
            "/ports",
            Box::new(|size| filled(size, |index| json!({"name": format!("p{index}")}))),
        ),
        (
            "networkpolicies",
            "/spec/ingress",
            Box::new(|size| filled(size, |_| json!({"from": [{"podSelector": {}}]}))),
        ),
        (
            "ingresses",
            "/spec/rules",
            Box::new(|size| filled(size, |index| json!({"host": format!("h{index}.example.com")}))),
        ),
        (
            "storageclasses",
            "/allowedTopologies",
            Box::new(|size| {
                filled(
                    size,
                    |index| json!({"matchLabelExpressions": [{"key": "k", "values": [index.to_string()]}]}),
                )
            }),
        ),
        (
            "validatingwebhookconfigurations",
            "/webhooks",
            Box::new(|size| filled(size, |index| json!({"name": format!("w{index}.example.com")}))),
        ),
        (
            "validatingadmissionpolicies",
            "/spec/variables",
            Box::new(|size| filled(size, |index| json!({"name": format!("v{index}"), "expression": "1"}))),
        ),
        (
            "validatingadmissionpolicies",
            "/spec/validations/0/expression",
            Box::new(|size| json!("1+".repeat(size / 2))),
        ),
        (
            "customresourcedefinitions",
            "/spec/names/shortNames",
            Box::new(|size| filled(size, |index| json!(format!("s{index}")))),
        ),
        (
            "customresourcedefinitions",
            "/spec/versions",
            Box::new(|size| {
                filled(size, |index| json!({"name": format!("v{index}"), "served": true, "storage": false}))
            }),
        ),
        (
            "customresourcedefinitions",
            "/spec/versions/0/schema/openAPIV3Schema/properties",
            Box::new(move |size| filled_map(size, numbered, &json!({"type": "string"}))),
        ),
        (
            "customresourcedefinitions",
            "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations",
            Box::new(|size| filled(size, |index| json!({"rule": format!("self.text != '{index}'")}))),
        ),
        ("things", "/spec/set", Box::new(|size| filled(size, |index| json!(index.to_string())))),
        ("things", "/spec/list", Box::new(|size| filled(size, |index| json!({"k": index.to_string()})))),
        ("things", "/spec/set", Box::new(|size| filled(size, |_| json!("a")))),
        ("things", "/spec/list", Box::new(|size| filled(size, |_| json!({"k": "a"})))),
        ("things", "/spec/map", Box::new(move |size| filled_map(size, numbered, &json!("")))),
        ("things", "/spec/map", Box::new(move |size| filled_map(size, numbered, &json!(1)))),
        ("things", "/spec/free", Box::new(move |size| filled_map(size, numbered, &json!({"a": [1]})))),
        ("things", "/spec/text", Box::new(|size| json!("a".repeat(size)))),
        ("things", "/unknown", Box::new(move |size| filled_map(size, numbered, &json!(1)))),
        (
            "things",
            "/status/conditions",
            Box::new(|size| filled(size, |index| json!({"type": index.to_string()}))),
        ),
    ]
}

/// Puts `value` at a JSON pointer, whose parents are there or made.
fn put(object: &mut Value, pointer: &str, value: Value) {
    let mut at = object;
    for step in pointer.split('/').skip(1) {
        at = match step.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[step],
        };
    }
    *at = value;
}

#[tokio::test(start_paused = true)]
async fn a_large_body_takes_about_as_long_as_it_takes_to_read() {
    // A body of 3 MiB is the largest: `KUBEWRIGHT_FUZZ_SIZE=3100000` in a release build.
    let size = usize::try_from(setting("KUBEWRIGHT_FUZZ_SIZE", 8_000)).expect("a size");
    let server = client::start().await;
    let definition = sample("customresourcedefinitions");
    client::send(&server, &Call::new("POST", definition.collection("")).json(&definition.object)).await;
    let mut times = Vec::new();
    for (plural, pointer, fill) in bodies() {
        let sample = sample(plural);
        let mut object = sample.object.clone();
        put(&mut object, pointer, fill(size));
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let collection = sample.collection("default");
        let body = object.to_string();
        let merge = Call::new("PATCH", format!("{collection}/{name}"))
            .content("application/merge-patch+json", body.clone());
        let strategic = Call::new("PATCH", format!("{collection}/{name}"))
            .content("application/strategic-merge-patch+json", body.clone());
        let apply = Call::new("PATCH", format!("{collection}/{name}?fieldManager=m&force=true"))
            .content("application/apply-patch+yaml", body.clone());
        let create = Call::new("POST", collection.as_str()).content("application/json", body);
        let valid = Call::new("POST", collection.as_str()).json(&sample.object);
        let there = server.fork();
        client::send(&there, &valid).await;
        for (what, server, call) in [
            ("create", server.fork(), create),
            ("merge", there.fork(), merge),
            ("strategic merge", there.fork(), strategic),
            ("apply", there.fork(), apply),
        ] {
            #[allow(clippy::disallowed_methods, reason = "what is measured is the machine, not virtual time")]
            let start = Instant::now();
            let reply = client::send(&server, &call).await;
            let took = start.elapsed();
            assert!(reply.code < 500 || what != "create", "{plural} {pointer}: {}", reply.text());
            assert!(took < FAR_TOO_LONG, "{took:?} to {what} {plural} with {size} bytes at {pointer}");
            times.push((took, format!("{what} {plural} {pointer}: {}", reply.code)));
        }
    }
    times.sort_by_key(|(took, _)| std::cmp::Reverse(*took));
    for (took, what) in times.iter().take(25) {
        println!("{took:?} {what}");
    }
}

/// What is wrong with a sample that has `value` at `pointer`.
async fn complaints(
    server: &kubewright_apiserver::ApiServer,
    plural: &str,
    pointer: &str,
    value: Value,
) -> Vec<String> {
    let sample = sample(plural);
    let mut object = sample.object.clone();
    put(&mut object, pointer, value);
    let reply = client::send(server, &Call::new("POST", sample.collection("default")).json(&object)).await;
    let status = reply.json();
    let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
    let told = |cause: &Value, field: &str| cause[field].as_str().unwrap_or_default().to_owned();
    causes.iter().map(|cause| format!("{}: {}", told(cause, "field"), told(cause, "message"))).collect()
}

#[tokio::test(start_paused = true)]
async fn what_comes_twice_is_named_each_further_time() {
    let server = client::start().await;
    let definition = sample("customresourcedefinitions");
    client::send(&server, &Call::new("POST", definition.collection("")).json(&definition.object)).await;
    let toleration = json!({"key": "k", "operator": "Exists"});
    let topology = json!({"matchLabelExpressions": [{"key": "k", "values": ["b", "a"]}]});
    let same_topology = json!({"matchLabelExpressions": [{"key": "k", "values": ["a", "b"]}]});
    let mounts = json!([{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}]);
    for (plural, pointer, value, expected) in [
        (
            "certificatesigningrequests",
            "/spec/usages",
            json!(["any", "any", "any"]),
            vec!["spec.usages[1]: Duplicate value: \"any\"", "spec.usages[2]: Duplicate value: \"any\""],
        ),
        (
            "runtimeclasses",
            "/scheduling",
            json!({"tolerations": [toleration, toleration]}),
            vec!["scheduling.tolerations[1]: Duplicate value: {\"key\":\"k\",\"operator\":\"Exists\"}"],
        ),
        (
            "storageclasses",
            "/allowedTopologies",
            json!([topology, same_topology]),
            vec!["allowedTopologies[1].matchLabelExpressions: Duplicate value: \"\""],
        ),
        (
            "storageclasses",
            "/allowedTopologies",
            json!([{"matchLabelExpressions": [{"key": "k", "values": ["a", "a"]}, {"key": "k", "values": ["b"]}]}]),
            vec![
                "allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: \"a\"",
                "allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: \"k\"",
            ],
        ),
        (
            "validatingadmissionpolicybindings",
            "/spec/validationActions",
            json!(["Deny", "Audit", "Deny"]),
            vec!["spec.validationActions[2]: Duplicate value: \"Deny\""],
        ),
        (
            "validatingadmissionpolicies",
            "/spec/matchConstraints/resourceRules/0/resourceNames",
            json!(["a", "b", "a"]),
            vec!["spec.matchConstraints.resourceRules[0].resourceNames[2]: Duplicate value: \"a\""],
        ),
        (
            "validatingwebhookconfigurations",
            "/webhooks/0/admissionReviewVersions",
            json!(["v1", "v2", "v1"]),
            vec!["webhooks[0].admissionReviewVersions[2]: Invalid value: \"v1\": duplicate version"],
        ),
        (
            "validatingwebhookconfigurations",
            "/webhooks/0/rules/0/resources",
            json!(["a/*", "a/b", "*/c", "d/c"]),
            vec![
                "webhooks[0].rules[0].resources[1]: Invalid value: \"a/b\": if 'a/*' is present, must not specify a/b",
                "webhooks[0].rules[0].resources[3]: Invalid value: \"d/c\": if '*/c' is present, must not specify d/c",
            ],
        ),
        (
            "pods",
            "/spec/resourceClaims",
            json!([{"name": "c", "resourceClaimName": "c"}, {"name": "c", "resourceClaimName": "c"}]),
            vec!["spec.resourceClaims[1].name: Duplicate value: \"c\""],
        ),
        (
            "pods",
            "/spec/containers/0/volumeMounts",
            mounts,
            vec!["spec.containers[0].volumeMounts[1].mountPath: Invalid value: \"/a\": must be unique"],
        ),
        (
            "pods",
            "/spec/containers/0/volumeDevices",
            json!([{"name": "v", "devicePath": "/v"}]),
            vec![
                "spec.containers[0].volumeMounts[0].name: Invalid value: \"v\": must not already exist in volumeDevices",
                "spec.containers[0].volumeMounts[0].mountPath: Invalid value: \"/v\": must not already exist as a path in volumeDevices",
                "spec.containers[0].volumeDevices[0].name: Invalid value: \"v\": can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
                "spec.containers[0].volumeDevices[0].name: Invalid value: \"v\": must not already exist in volumeMounts",
                "spec.containers[0].volumeDevices[0].devicePath: Invalid value: \"/v\": must not already exist as a path in volumeMounts",
            ],
        ),
        ("things", "/spec/set", json!(["a", "b", "a", "a"]), vec!["spec.set[2]: Duplicate value: \"a\""]),
        (
            "things",
            "/spec/list",
            json!([{"k": "a"}, {"k": "a"}]),
            vec!["spec.list[1]: Duplicate value: {\"k\":\"a\"}"],
        ),
    ] {
        assert_eq!(complaints(&server, plural, pointer, value).await, expected, "{plural} {pointer}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_overlaps_is_warned_of_in_order() {
    let server = client::start().await;
    let mut object = sample("pods").object;
    put(&mut object, "/spec/containers/0/livenessProbe", Value::Null);
    put(
        &mut object,
        "/spec/containers/0/ports",
        json!([
            {"containerPort": 80}, {"containerPort": 80}, {"containerPort": 80, "hostPort": 1},
            {"containerPort": 80, "hostPort": 1, "hostIP": "10.0.0.1"},
            {"containerPort": 80, "hostPort": 1, "hostIP": "10.0.0.2"}, {"containerPort": 81, "hostPort": 2},
        ]),
    );
    let items = json!([{"key": "k", "path": "a/b"}, {"key": "k", "path": "a-b"}, {"key": "k", "path": "a"}, {"key": "k", "path": "a/b/c"}]);
    put(&mut object, "/spec/volumes/0", json!({"name": "v", "configMap": {"name": "m", "items": items}}));
    let call = Call::new("POST", sample("pods").collection("default")).json(&object);
    let reply = client::send(&server, &call).await;
    assert_eq!(reply.code, 201, "{}", reply.text());
    let warnings: Vec<String> = reply
        .headers
        .get_all("warning")
        .iter()
        .map(|text| text.to_str().unwrap().trim_start_matches("299 - ").replace("\\\"", "'").replace('"', ""))
        .collect();
    let port = |index: usize| format!("spec.containers[0].ports[{index}]");
    let clash = |one: usize, how: &str, other: usize| {
        format!("{}: {how} port definition with {}", port(one), port(other))
    };
    let volume = "volume 'v' (ConfigMap 'm'): overlapping paths:";
    assert_eq!(
        warnings,
        [
            format!("{volume} 'a' with 'a/b'"),
            format!("{volume} 'a/b/c' with 'a/b'"),
            format!("{volume} 'a/b/c' with 'a'"),
            clash(1, "duplicate", 0),
            clash(2, "overlapping", 0),
            clash(2, "overlapping", 1),
            clash(3, "overlapping", 0),
            clash(3, "overlapping", 1),
            clash(3, "dangerously ambiguous", 2),
            clash(4, "overlapping", 0),
            clash(4, "overlapping", 1),
            clash(4, "dangerously ambiguous", 2),
        ]
    );
}
