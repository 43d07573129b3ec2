//! Requests: real paths, queries and headers, and what somebody could make of them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    choices::Choices,
    client::Call,
    mutate::{self, Shape},
    objects::{self, Sample},
};

/// What requests are made of.
pub struct Grammar {
    samples: Vec<Sample>,
    /// The schemas of each group and version.
    schemas: BTreeMap<String, Map<String, Value>>,
}

impl Grammar {
    /// `document` gives the OpenAPI document of a path such as `apis/apps/v1`.
    pub async fn new(document: impl AsyncFn(String) -> Value) -> Self {
        let samples = objects::samples();
        let mut schemas = BTreeMap::new();
        for sample in &samples {
            let root = objects::root(sample.group_version);
            if !schemas.contains_key(sample.group_version) {
                let mut document = document(format!("/openapi/v3{root}")).await;
                let found = document.pointer_mut("/components/schemas").map(Value::take).unwrap_or_default();
                let found = if let Value::Object(found) = found { found } else { Map::new() };
                schemas.insert(sample.group_version.to_owned(), found);
            }
        }
        Self { samples, schemas }
    }

    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    fn bent(&self, sample: &Sample, choices: &mut Choices<'_>) -> Value {
        let mut object = sample.object.clone();
        let schemas = &self.schemas[sample.group_version];
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let named = schemas.iter().find(|(name, _)| name.rsplit('.').next() == Some(kind.as_str()));
        let shape = Shape { schemas, at: named.map_or(&Value::Null, |(_, schema)| schema) };
        for _ in 0..choices.below(5) {
            mutate::bend(&mut object, &shape, choices);
        }
        object
    }

    /// A request, valid or not.
    pub fn request(&self, choices: &mut Choices<'_>) -> Call {
        let sample = choices.pick(&self.samples);
        let mut call = if choices.one_in(30) { self.document(choices) } else { self.verb(sample, choices) };
        self.decorate(&mut call, choices);
        call
    }

    fn document(&self, choices: &mut Choices<'_>) -> Call {
        let paths = [
            "/",
            "/api",
            "/apis",
            "/api/v1",
            "/apis/apps",
            "/apis/apps/v1",
            "/apis/nope",
            "/apis/apps/v9",
            "/version",
            "/healthz",
            "/livez/ping",
            "/readyz?verbose",
            "/openapi/v3",
            "/openapi/v3/apis/fuzz.example.com/v1",
            "/openid/v1/jwks",
            "/.well-known/openid-configuration",
            "/metrics",
            "/api/v1/",
            "//api//v1",
            "/logs",
            "/apis/fuzz.example.com/v1",
        ];
        let method = choices.pick(&["GET", "GET", "GET", "POST", "HEAD", "OPTIONS", "DELETE"]);
        Call::new(method, *choices.pick(&paths))
    }

    fn verb(&self, sample: &Sample, choices: &mut Choices<'_>) -> Call {
        let namespace =
            *choices.pick(&["n", "n", "n", "n", "n", "n", "m", "default", "kube-system", "", "a%2Fb", "N"]);
        let collection = sample.collection(namespace);
        let given = sample.object["metadata"]["name"].as_str().filter(|name| !name.is_empty()).unwrap_or("a");
        let name = match choices.below(12) {
            0 => "b",
            1 => *choices.pick(&["c", "missing", "%00", "%2e%2e", "a%2Fb", "é", "A"]),
            _ => given,
        };
        let subresource = match choices.below(5) {
            0 if !sample.subresources.is_empty() => format!("/{}", choices.pick(sample.subresources)),
            _ => String::new(),
        };
        let one = format!("{collection}/{name}{subresource}");
        let body = |choices: &mut Choices<'_>| {
            let mut object = self.bent(sample, choices);
            if name == "b" && object["metadata"].is_object() {
                object["metadata"]["name"] = "b".into();
            }
            match subresource.as_str() {
                "/scale" => {
                    object = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name}, "spec": {"replicas": choices.byte()}})
                }
                "/eviction" => {
                    object = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": {"gracePeriodSeconds": choices.byte()}})
                }
                "/binding" => {
                    object = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": "a"}})
                }
                "/token" => {
                    object = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["a"], "expirationSeconds": choices.number() >> choices.below(64)}})
                }
                _ => {}
            }
            object
        };
        match choices.below(20) {
            0..5 => {
                let object = body(choices);
                let target = if subresource.is_empty() { &collection } else { &one };
                write("POST", target, &object, choices)
            }
            5..8 => write("PUT", &one, &body(choices), choices),
            8..10 => Call::new("PATCH", one).content(
                "application/json-patch+json",
                text(&mutate::json_patch(&sample.object, choices), choices),
            ),
            10 => {
                let object = body(choices);
                Call::new("PATCH", one).content("application/merge-patch+json", text(&object, choices))
            }
            11..13 => {
                let mut object = body(choices);
                mutate::directives(&mut object, choices, 0);
                Call::new("PATCH", one)
                    .content("application/strategic-merge-patch+json", text(&object, choices))
            }
            13..16 => {
                let object = body(choices);
                let force = if choices.one_in(2) { "&force=true" } else { "" };
                let manager = choices.pick(&["m", "o", "kubectl", "", "é"]);
                let body = if choices.one_in(2) { block(&object, choices) } else { text(&object, choices) };
                Call::new("PATCH", format!("{one}?fieldManager={manager}{force}"))
                    .content("application/apply-patch+yaml", body)
            }
            16 => {
                let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": choices.below(3),
                    "propagationPolicy": choices.pick(&["Background", "Foreground", "Orphan", "x"])});
                let call = Call::new("DELETE", if choices.one_in(12) { collection } else { one });
                if choices.one_in(2) {
                    call
                } else {
                    call.content("application/json", text(&options, choices))
                }
            }
            17 => Call::new("GET", format!("{collection}{}", query(choices))),
            18 => Call::new(
                "GET",
                format!("{}/{}{}", objects::root(sample.group_version), sample.plural, query(choices)),
            ),
            _ => Call::new(choices.pick::<&str>(&["GET", "GET", "HEAD", "POST", "OPTIONS", "BREW"]), one),
        }
    }

    fn decorate(&self, call: &mut Call, choices: &mut Choices<'_>) {
        if choices.one_in(6) {
            let extra = query(choices);
            let joint = if call.uri.contains('?') { "&" } else { "?" };
            call.uri.push_str(&extra.replacen('?', joint, 1));
        }
        if choices.one_in(10) {
            let accept = choices.pick(&[
                "application/yaml",
                "application/json;as=Table;g=meta.k8s.io;v=v1",
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                "*/*;q=x",
                "text/html",
                "application/vnd.kubernetes.protobuf",
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                ",;=",
                "application/cbor, application/json;q=0.1",
                "gzip",
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            ]);
            call.headers.push(("accept".to_owned(), (*accept).to_owned()));
        }
        if choices.one_in(25) {
            let (name, value) = choices.pick(&[
                ("impersonate-user", "u"),
                ("impersonate-group", "g"),
                ("impersonate-uid", "1"),
                ("impersonate-extra-a%2fb", "x"),
                ("user-agent", "kubectl/v1"),
                ("user-agent", "curl/8 é"),
                ("content-type", "application/json;;"),
                ("content-type", "text/plain"),
                ("accept-encoding", "gzip"),
                ("if-none-match", "\"x\""),
                ("impersonate-user", "system:serviceaccount:n:a"),
            ]);
            call.headers.push(((*name).to_owned(), (*value).to_owned()));
        }
        if choices.one_in(60) {
            let mut path = std::mem::take(&mut call.uri).into_bytes();
            mutate::damage(&mut path, choices);
            call.uri = String::from_utf8_lossy(&path).replace(char::is_control, "%0A");
        }
    }
}

fn write(method: &str, uri: &str, object: &Value, choices: &mut Choices<'_>) -> Call {
    if choices.one_in(5) {
        return Call::new(method, uri).content("application/yaml", block(object, choices));
    }
    Call::new(method, uri).content("application/json", text(object, choices))
}

fn text(value: &Value, choices: &mut Choices<'_>) -> Vec<u8> {
    let mut text = value.to_string().into_bytes();
    if choices.one_in(16) {
        mutate::damage(&mut text, choices);
    }
    text
}

fn block(value: &Value, choices: &mut Choices<'_>) -> Vec<u8> {
    let mut text = String::new();
    mutate::yaml(value, 0, choices, &mut text);
    let mut text = text.into_bytes();
    if choices.one_in(10) {
        mutate::damage(&mut text, choices);
    }
    text
}

fn query(choices: &mut Choices<'_>) -> String {
    const PARTS: &[&str] = &[
        "watch=1",
        "watch=true&timeoutSeconds=1",
        "limit=1",
        "limit=9223372036854775807",
        "limit=-1",
        "limit=x",
        "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0",
        "continue=x",
        "resourceVersion=0",
        "resourceVersion=1",
        "resourceVersion=18446744073709551615",
        "resourceVersion=99999999999999999999",
        "resourceVersion=x",
        "resourceVersionMatch=Exact",
        "resourceVersionMatch=NotOlderThan",
        "sendInitialEvents=true",
        "allowWatchBookmarks=true",
        "timeoutSeconds=9223372036854775807",
        "timeoutSeconds=-1",
        "timeoutSeconds=1",
        "labelSelector=app%3Da",
        "labelSelector=a+in+(b,c),!d,e",
        "labelSelector=((((",
        "labelSelector=a+notin+()",
        "labelSelector=a%3E1",
        "fieldSelector=metadata.name%3Da",
        "fieldSelector=spec.x%3Da",
        "fieldSelector=metadata.name!%3Da,metadata.namespace%3D%3Dn",
        "fieldSelector=a%5C%2Cb%3D",
        "dryRun=All",
        "dryRun=x",
        "fieldValidation=Strict",
        "fieldValidation=x",
        "fieldManager=m",
        "force=true",
        "pretty=true",
        "gracePeriodSeconds=0",
        "gracePeriodSeconds=-9223372036854775808",
        "gracePeriodSeconds=9223372036854775807",
        "propagationPolicy=Orphan",
        "orphanDependents=true",
        "%zz=%",
        "container=c",
        "tailLines=-1",
        "limitBytes=99999999999999999999",
        "includeObject=None",
        "spec.text%3Dhello",
    ];
    let mut parts: Vec<String> = (0..=choices.below(3)).map(|_| (*choices.pick(PARTS)).to_owned()).collect();
    if choices.one_in(20) {
        let key = choices.pick(&["labelSelector", "fieldSelector", "fieldManager", "continue"]);
        let many = choices.pick(&["a,", "(", "a+in+(", "!", "%F0%9F%92%A5", "a%3Db,"]);
        parts.push(format!("{key}={}", many.repeat(1 << choices.below(11))));
    }
    format!("?{}", parts.join("&"))
}
