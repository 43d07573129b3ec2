//! What happens to a cluster in a test: steps that proptest makes up, and the requests they become.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::client::Call;

pub const NAMESPACE: &str = "default";
pub const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The kinds that take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    ConfigMap,
    Deployment,
    Pod,
    Widget,
}

pub const KINDS: [Kind; 4] = [Kind::ConfigMap, Kind::Deployment, Kind::Pod, Kind::Widget];

impl Kind {
    pub fn collection(self) -> String {
        let (root, plural) = match self {
            Self::ConfigMap => ("/api/v1", "configmaps"),
            Self::Deployment => ("/apis/apps/v1", "deployments"),
            Self::Pod => ("/api/v1", "pods"),
            Self::Widget => ("/apis/example.com/v1", "widgets"),
        };
        format!("{root}/namespaces/{NAMESPACE}/{plural}")
    }

    pub fn path(self, name: Name) -> String {
        format!("{}/{}", self.collection(), name.text())
    }

    /// The object with that name, in one of a few variants.
    pub fn object(self, name: Name, variant: u8, tier: u8) -> Value {
        let mut object = match self {
            Self::ConfigMap => {
                json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": variant.to_string(), "same": "s"}})
            }
            Self::Deployment => json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {
                "replicas": variant, "selector": {"matchLabels": {"app": "x"}},
                "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": format!("i:{variant}")}]}},
            }}),
            Self::Pod => {
                json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": format!("i:{variant}")}]}})
            }
            Self::Widget => json!({"apiVersion": "example.com/v1", "kind": "Widget", "spec": {
                "size": variant, "parts": [{"name": "p", "count": variant}], "free": {"x": [variant]}}}),
        };
        object["metadata"] = json!({"name": name.text(), "labels": {"tier": tier.to_string()}});
        object
    }

    /// A part of the object, as a merge patch or an apply of few fields would send it.
    pub fn part(self, variant: u8) -> Value {
        match self {
            Self::ConfigMap => json!({"data": {"part": variant.to_string(), "a": null}}),
            Self::Deployment => json!({"spec": {"replicas": variant}}),
            Self::Pod => json!({"metadata": {"annotations": {"part": variant.to_string()}}}),
            Self::Widget => {
                json!({"spec": {"parts": [{"name": format!("q{variant}"), "count": 1}], "size": null}})
            }
        }
    }

    fn replaced_field(self, variant: u8) -> (&'static str, Value) {
        match self {
            Self::ConfigMap => ("/data", json!({"replaced": variant.to_string()})),
            Self::Deployment => ("/spec/replicas", json!(variant)),
            Self::Pod => ("/spec/containers/0/image", json!(format!("j:{variant}"))),
            Self::Widget => ("/spec/free", json!({"y": variant})),
        }
    }

    fn status(self, variant: u8) -> Value {
        match self {
            Self::ConfigMap => json!({}),
            Self::Deployment => json!({"status": {"replicas": variant + 1, "updatedReplicas": variant + 1}}),
            Self::Pod => {
                let phase = ["Pending", "Running", "Failed"][usize::from(variant % 3)];
                json!({"status": {"phase": phase}})
            }
            Self::Widget => json!({"status": {"ready": variant + 1}, "spec": {"size": 99}}),
        }
    }
}

pub fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"}, "versions": [{
            "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {
                    "size": {"type": "integer", "default": 3},
                    "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                        "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "count": {"type": "integer"}}}},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
                "status": {"type": "object", "properties": {"ready": {"type": "integer"}}}}}},
        }]},
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name(pub u8);

impl Name {
    pub fn text(self) -> String {
        format!("o{}", self.0)
    }
}

/// How a write changes an object.
#[derive(Debug, Clone, Copy)]
pub enum Change {
    Merge,
    Json,
    Strategic,
    Apply { manager: u8, force: bool },
    Status,
    ApplyStatus { manager: u8 },
    AddFinalizer,
    RemoveFinalizers,
    Relabel,
}

/// One step.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    Create {
        kind: Kind,
        name: Name,
        variant: u8,
        tier: u8,
        dry_run: bool,
    },
    /// Replaces the object, in the state it is in or as if it were older.
    Put {
        kind: Kind,
        name: Name,
        variant: u8,
        tier: u8,
        stale: bool,
    },
    /// Writes the object back as it was read.
    PutBack {
        kind: Kind,
        name: Name,
    },
    Patch {
        kind: Kind,
        name: Name,
        variant: u8,
        change: Change,
        dry_run: bool,
    },
    Delete {
        kind: Kind,
        name: Name,
        propagation: u8,
        grace: Option<u8>,
    },
    DeleteCollection {
        kind: Kind,
        tier: u8,
    },
    Define,
    Undefine,
    /// Reads a list in pages while the steps after it go on.
    Pages {
        kind: Kind,
        limit: u8,
    },
    /// Goes on in a fork; what is left behind must stay as it is.
    Fork,
    Wait,
}

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 4..40)
}

fn step() -> impl Strategy<Value = Step> {
    let kind = || prop::sample::select(&KINDS[..]);
    let name = || (0u8..3).prop_map(Name);
    let change = prop_oneof![
        Just(Change::Merge),
        Just(Change::Json),
        Just(Change::Strategic),
        (0u8..2, any::<bool>()).prop_map(|(manager, force)| Change::Apply { manager, force }),
        (0u8..2, any::<bool>()).prop_map(|(manager, force)| Change::Apply { manager, force }),
        Just(Change::Status),
        (0u8..2).prop_map(|manager| Change::ApplyStatus { manager }),
        Just(Change::AddFinalizer),
        Just(Change::RemoveFinalizers),
        Just(Change::Relabel),
    ];
    prop_oneof![
        6 => (kind(), name(), 0u8..4, 0u8..2, prop::bool::weighted(0.1))
            .prop_map(|(kind, name, variant, tier, dry_run)| Step::Create { kind, name, variant, tier, dry_run }),
        4 => (kind(), name(), 0u8..4, 0u8..2, prop::bool::weighted(0.2))
            .prop_map(|(kind, name, variant, tier, stale)| Step::Put { kind, name, variant, tier, stale }),
        2 => (kind(), name()).prop_map(|(kind, name)| Step::PutBack { kind, name }),
        14 => (kind(), name(), 0u8..4, change, prop::bool::weighted(0.1))
            .prop_map(|(kind, name, variant, change, dry_run)| Step::Patch { kind, name, variant, change, dry_run }),
        3 => (kind(), name(), 0u8..4, prop::option::of(0u8..40))
            .prop_map(|(kind, name, propagation, grace)| Step::Delete { kind, name, propagation, grace }),
        1 => (kind(), 0u8..2).prop_map(|(kind, tier)| Step::DeleteCollection { kind, tier }),
        2 => Just(Step::Define),
        1 => Just(Step::Undefine),
        2 => (kind(), 1u8..3).prop_map(|(kind, limit)| Step::Pages { kind, limit }),
        1 => Just(Step::Fork),
        1 => Just(Step::Wait),
    ]
}

impl Step {
    /// What the step is about.
    pub fn target(&self) -> Option<(Kind, Name)> {
        match *self {
            Self::Create { kind, name, .. }
            | Self::Put { kind, name, .. }
            | Self::PutBack { kind, name }
            | Self::Patch { kind, name, .. }
            | Self::Delete { kind, name, .. } => Some((kind, name)),
            _ => None,
        }
    }

    pub fn is_dry_run(&self) -> bool {
        matches!(self, Self::Create { dry_run: true, .. } | Self::Patch { dry_run: true, .. })
    }

    /// The request of the step; `current` is the object as it is now.
    pub fn call(&self, current: &Value) -> Option<Call> {
        let dry = |dry_run: bool| if dry_run { "&dryRun=All" } else { "" };
        Some(match *self {
            Self::Create { kind, name, variant, tier, dry_run } => {
                let uri = format!("{}?fieldManager=create{}", kind.collection(), dry(dry_run));
                Call::new("POST", uri).json(&kind.object(name, variant, tier))
            }
            Self::Put { kind, name, variant, tier, stale } => {
                let mut object = kind.object(name, variant, tier);
                object["metadata"]["resourceVersion"] =
                    if stale { "1".into() } else { current["metadata"]["resourceVersion"].clone() };
                Call::new("PUT", format!("{}?fieldManager=put", kind.path(name))).json(&object)
            }
            Self::PutBack { kind, name } => Call::new("PUT", kind.path(name)).json(current),
            Self::Patch { kind, name, variant, change, dry_run } => {
                let path = kind.path(name);
                let dry = dry(dry_run);
                let merge = |uri: String, body: Value| {
                    Call::new("PATCH", uri).content("application/merge-patch+json", body.to_string())
                };
                match change {
                    Change::Merge => merge(format!("{path}?fieldManager=merge{dry}"), kind.part(variant)),
                    Change::Json => {
                        let (field, value) = kind.replaced_field(variant);
                        let body = json!([{"op": "test", "path": "/metadata/name", "value": name.text()}, {"op": "replace", "path": field, "value": value}]);
                        Call::new("PATCH", format!("{path}?fieldManager=json{dry}"))
                            .content("application/json-patch+json", body.to_string())
                    }
                    Change::Strategic => {
                        let body = kind.object(name, variant, variant % 2);
                        Call::new("PATCH", format!("{path}?fieldManager=strategic{dry}"))
                            .content("application/strategic-merge-patch+json", body.to_string())
                    }
                    Change::Apply { manager, force } => {
                        let mut body = kind.object(name, variant / 2, variant % 2);
                        if variant % 2 == 1 {
                            body["metadata"]["annotations"] = json!({format!("by-{manager}"): "x"});
                        }
                        Call::new(
                            "PATCH",
                            format!("{path}?fieldManager=applier-{manager}&force={force}{dry}"),
                        )
                        .content("application/apply-patch+yaml", body.to_string())
                    }
                    Change::Status => {
                        merge(format!("{path}/status?fieldManager=status{dry}"), kind.status(variant))
                    }
                    Change::ApplyStatus { manager } => {
                        let mut body = kind.object(name, 0, 0);
                        body["status"] = kind.status(variant)["status"].clone();
                        Call::new(
                            "PATCH",
                            format!("{path}/status?fieldManager=applier-{manager}&force=true{dry}"),
                        )
                        .content("application/apply-patch+yaml", body.to_string())
                    }
                    Change::AddFinalizer => merge(
                        format!("{path}?{dry}"),
                        json!({"metadata": {"finalizers": ["example.com/hold"]}}),
                    ),
                    Change::RemoveFinalizers => {
                        merge(format!("{path}?{dry}"), json!({"metadata": {"finalizers": null}}))
                    }
                    Change::Relabel => merge(
                        format!("{path}?{dry}"),
                        json!({"metadata": {"labels": {"tier": (variant % 2).to_string()}}}),
                    ),
                }
            }
            Self::Delete { kind, name, propagation, grace } => {
                let mut options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
                if let Some(policy) = ["Background", "Foreground", "Orphan"].get(usize::from(propagation)) {
                    options["propagationPolicy"] = (*policy).into();
                }
                if let Some(grace) = grace {
                    options["gracePeriodSeconds"] = grace.into();
                }
                Call::new("DELETE", kind.path(name)).json(&options)
            }
            Self::DeleteCollection { kind, tier } => {
                Call::new("DELETE", format!("{}?labelSelector=tier%3D{tier}", kind.collection()))
            }
            Self::Define => Call::new("POST", DEFINITION).json(&definition()),
            Self::Undefine => Call::new("DELETE", format!("{DEFINITION}/widgets.example.com")),
            Self::Pages { .. } | Self::Fork | Self::Wait => return None,
        })
    }
}
