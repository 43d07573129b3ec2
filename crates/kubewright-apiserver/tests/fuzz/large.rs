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
        ("pods", "/spec/hostAliases", Box::new(|size| filled(size, |_| json!({"ip": "x"})))),
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
    let (parent, field) = pointer.rsplit_once('/').expect("a pointer has a last step");
    let mut at = object;
    for step in parent.split('/').skip(1) {
        at = match step.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[step],
        };
    }
    at[field] = value;
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
