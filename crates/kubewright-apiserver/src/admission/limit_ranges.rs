//! Limit ranges: what pods of a namespace ask for if they do not say, and how little and how much they may.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    Operation,
    amounts::{self, Amounts},
};
use crate::{error::ApiError, kinds::access, quantity::Quantity, rest::Scope};

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

impl Scope {
    fn limit_ranges(&self) -> Vec<Value> {
        self.objects_of_namespace("limitranges")
    }

    /// Gives the containers of a pod what they do not say.
    pub(super) fn default_limits(&self, pod: &mut Value) {
        for range in self.limit_ranges() {
            let told: Vec<String> = [("containers", "container"), ("initContainers", "init container")]
                .into_iter()
                .flat_map(|(list, what)| {
                    let containers = access::items_mut(pod, &["spec", list]).iter_mut();
                    containers
                        .flat_map(|container| default_container(container, what, &range))
                        .collect::<Vec<_>>()
                })
                .collect();
            if !told.is_empty() {
                let text = format!("LimitRanger plugin set: {}", told.join("; "));
                access::set(pod, &["metadata", "annotations", ANNOTATION], text);
            }
        }
    }

    /// Refuses what asks for too little or too much.
    pub(super) fn check_limits(
        &self,
        operation: Operation,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), ApiError> {
        let is_pod = match (&*self.resource.group, &*self.resource.kind, self.subresource.as_str()) {
            ("", "Pod", "") if operation == Operation::Create => true,
            ("", "Pod", "resize") if operation == Operation::Update => true,
            ("", "PersistentVolumeClaim", "") => false,
            _ => return Ok(()),
        };
        if old.is_some_and(|old| access::has(old, &["metadata", "deletionTimestamp"])) {
            return Ok(());
        }
        for range in self.limit_ranges() {
            let complaints: BTreeSet<String> = access::items(&range, &["spec", "limits"])
                .iter()
                .flat_map(|limit| if is_pod { check_pod(limit, object) } else { check_claim(limit, object) })
                .collect();
            let complaints: Vec<String> = complaints.into_iter().collect();
            let why = match complaints.as_slice() {
                [] => continue,
                [one] => one.clone(),
                several => format!("[{}]", several.join(", ")),
            };
            let name = access::get_str(object, &["metadata", "name"]);
            return Err(ApiError::forbidden(&self.resource.subject(), name, why));
        }
        Ok(())
    }
}

/// Fills in what a container does not say, and tells what that was.
fn default_container(container: &mut Value, what: &str, range: &Value) -> Vec<String> {
    let name = access::get_str(container, &["name"]).to_owned();
    let mut told = Vec::new();
    for (list, default, part) in [("requests", "defaultRequest", "request"), ("limits", "default", "limit")] {
        let mut set = BTreeSet::new();
        for limit in of_type(range, "Container") {
            for (resource, amount) in access::entries(limit, &[default]) {
                let path = ["resources", list, resource];
                // What an earlier entry has set, a later one may set again.
                if !access::has(container, &path) || set.contains(resource) {
                    access::set(container, &path, amount.clone());
                    set.insert(resource.to_owned());
                }
            }
        }
        if !set.is_empty() {
            let set: Vec<String> = set.into_iter().collect();
            told.push(format!("{} {part} for {what} {name}", set.join(", ")));
        }
    }
    told
}

fn of_type<'r>(range: &'r Value, wanted: &'r str) -> impl Iterator<Item = &'r Value> {
    let limits = access::items(range, &["spec", "limits"]).iter();
    limits.filter(move |limit| access::get_str(limit, &["type"]) == wanted)
}

fn check_pod(limit: &Value, pod: &Value) -> Vec<String> {
    match access::get_str(limit, &["type"]) {
        "Container" => ["containers", "initContainers"]
            .into_iter()
            .flat_map(|list| access::items(pod, &["spec", list]))
            .flat_map(|container| {
                let of = |list| amounts::listed(container, &["resources", list]);
                Asked { what: "Container", requests: of("requests"), limits: of("limits") }.check(limit)
            })
            .collect(),
        "Pod" => {
            let (requests, limits) = (amounts::of_pod(pod, "requests"), amounts::of_pod(pod, "limits"));
            Asked { what: "Pod", requests, limits }.check(limit)
        }
        _ => Vec::new(),
    }
}

/// Of claims only the requests count.
fn check_claim(limit: &Value, claim: &Value) -> Vec<String> {
    const WHAT: &str = "PersistentVolumeClaim";
    if access::get_str(limit, &["type"]) != WHAT {
        return Vec::new();
    }
    let requests = amounts::listed(claim, &["spec", "resources", "requests"]);
    let asked = Asked { what: WHAT, requests, limits: Amounts::new() };
    let least =
        amounts::listed(limit, &["min"]).into_iter().filter_map(|(name, least)| asked.least(&name, &least));
    let most = amounts::listed(limit, &["max"]).into_iter().filter_map(|(name, most)| {
        let head = format!("maximum {name} usage per {WHAT} is {most}");
        match asked.requests.get(&name) {
            None => Some(format!("{head}.  No request is specified")),
            Some(request) => (*request > most).then(|| format!("{head}, but request is {request}")),
        }
    });
    least.chain(most).collect()
}

/// What something asks for.
struct Asked {
    what: &'static str,
    requests: Amounts,
    limits: Amounts,
}

impl Asked {
    fn check(&self, limit: &Value) -> Vec<String> {
        let each = |list: &str, check: &dyn Fn(&str, &Quantity) -> Option<String>| -> Vec<String> {
            let amounts = amounts::listed(limit, &[list]);
            amounts.iter().filter_map(|(name, amount)| check(name, amount)).collect()
        };
        [
            each("min", &|name, least| self.least(name, least)),
            each("max", &|name, most| self.most(name, most)),
            each("maxLimitRequestRatio", &|name, ratio| self.ratio(name, ratio)),
        ]
        .concat()
    }

    fn least(&self, name: &str, least: &Quantity) -> Option<String> {
        let head = format!("minimum {name} usage per {} is {least}", self.what);
        match (self.requests.get(name), self.limits.get(name)) {
            (None, _) => Some(format!("{head}.  No request is specified")),
            (Some(request), _) if request < least => Some(format!("{head}, but request is {request}")),
            (_, Some(limit)) if limit < least => Some(format!("{head}, but limit is {limit}")),
            _ => None,
        }
    }

    fn most(&self, name: &str, most: &Quantity) -> Option<String> {
        let head = format!("maximum {name} usage per {} is {most}", self.what);
        match (self.requests.get(name), self.limits.get(name)) {
            (_, None) => Some(format!("{head}.  No limit is specified")),
            (_, Some(limit)) if limit > most => Some(format!("{head}, but limit is {limit}")),
            (Some(request), _) if request > most => Some(format!("{head}, but request is {request}")),
            _ => None,
        }
    }

    fn ratio(&self, name: &str, most: &Quantity) -> Option<String> {
        let head = format!("{name} max limit to request ratio per {} is {most}", self.what);
        let some = |amounts: &Amounts| amounts.get(name).filter(|amount| !amount.is_zero()).cloned();
        let Some(request) = some(&self.requests) else {
            return Some(format!("{head}, but no request is specified or request is 0"));
        };
        let Some(limit) = some(&self.limits) else {
            return Some(format!("{head}, but no limit is specified or limit is 0"));
        };
        let ratio = limit.as_f64() / request.as_f64();
        (ratio > most.as_f64()).then(|| format!("{head}, but provided ratio is {ratio:.6}"))
    }
}
