//! Resource quotas: what a namespace may use altogether.
//!
//! What an object uses is added to the `status.used` of the quotas that it counts against before the object is
//! stored, under the condition that nobody else has done so meanwhile: two creates at the same moment can't both
//! take the last place. What goes is taken out again by whoever counts anew, which is a controller's work.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{
    Operation,
    amounts::{self, Amounts},
};
use crate::{
    error::ApiError,
    kinds::{access, core::qos_class},
    quantity::{Format, Quantity},
    rest::{Scope, options::WriteOptions},
};

const PODS: (&str, &str) = ("", "pods");
const SERVICES: (&str, &str) = ("", "services");
const CLAIMS: (&str, &str) = ("", "persistentvolumeclaims");
/// Resources that were counted before there was `count/`, and still are under their own name.
const COUNTED: [&str; 4] = ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];
const OF_PODS: [&str; 11] = [
    "count/pods",
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
];
const OF_SERVICES: [&str; 4] = ["count/services", "services", "services.nodeports", "services.loadbalancers"];
const OF_CLAIMS: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];
const BY_CLASS: &str = ".storageclass.storage.k8s.io/";
/// What every container must say if it is counted. A mistake of old, kept for those who rely on it.
const REQUIRED: [&str; 6] =
    ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// The resource, as group and plural, that an entry of `spec.hard` counts; nothing if it is not known.
///
/// ```
/// use kubewright_apiserver::quota::counted;
///
/// assert_eq!(counted("requests.cpu"), Some((String::new(), "pods".to_owned())));
/// assert_eq!(counted("count/deployments.apps"), Some(("apps".to_owned(), "deployments".to_owned())));
/// ```
pub fn counted(entry: &str) -> Option<(String, String)> {
    if let Some(name) = entry.strip_prefix("count/") {
        let (plural, group) = name.split_once('.').unwrap_or((name, ""));
        return Some((group.to_owned(), plural.to_owned()));
    }
    let known = [PODS, SERVICES, CLAIMS].into_iter().chain(COUNTED.map(|plural| ("", plural)));
    let (group, plural) = known.into_iter().find(|(_, plural)| concerns("", plural, entry))?;
    Some((group.to_owned(), plural.to_owned()))
}

/// What objects of a resource use of the entries of a quota, as `status.used` tells it.
pub fn used<'o>(
    quota: &Value,
    group: &str,
    plural: &str,
    objects: impl IntoIterator<Item = &'o Value>,
    now: Timestamp,
) -> Vec<(String, String)> {
    let entries = access::entries(quota, &["spec", "hard"]).map(|(entry, _)| entry);
    let entries: Vec<&str> = entries.filter(|entry| concerns(group, plural, entry)).collect();
    let mut sum: Amounts =
        entries.iter().map(|entry| ((*entry).to_owned(), Quantity::new(0, Format::DecimalSi))).collect();
    for object in objects {
        if is_within(quota, group, plural, object) {
            let mut usage = usage(group, plural, object, now);
            usage.retain(|name, _| entries.contains(&name.as_str()));
            amounts::add(&mut sum, &usage);
        }
    }
    sum.into_iter().map(|(name, amount)| (name, amount.to_string())).collect()
}

impl Scope {
    /// Counts a new object, or a change of one, against the quotas of its namespace, or refuses it.
    pub(super) async fn charge_quotas(
        &self,
        operation: Operation,
        object: &Value,
        old: Option<&Value>,
        options: &WriteOptions,
    ) -> Result<(), ApiError> {
        if self.namespace.is_empty() || !self.is_charged(operation, object, old) {
            return Ok(());
        }
        let (group, plural) = (&*self.resource.group, &*self.resource.plural);
        let now = self.server.clock.now();
        let mut charges = Vec::new();
        for quota in self.objects_of_namespace("resourcequotas") {
            let entries = access::entries(&quota, &["status", "hard"]).map(|(entry, _)| entry);
            let entries: Vec<&str> = entries.filter(|entry| concerns(group, plural, entry)).collect();
            if entries.is_empty() || !is_within(&quota, group, plural, object) {
                continue;
            }
            let name = access::get_str(&quota, &["metadata", "name"]).to_owned();
            if (group, plural) == PODS
                && let Some(missing) = missing(&entries, object)
            {
                return Err(self.over_quota(object, format!("failed quota: {name}: must specify {missing}")));
            }
            if entries.iter().any(|entry| !access::has(&quota, &["status", "used", entry])) {
                let why = format!("status unknown for quota: {name}, resources: {}", entries.join(","));
                return Err(self.over_quota(object, why));
            }
            let mut more = usage(group, plural, object, now);
            if let Some(old) = old.filter(|old| is_within(&quota, group, plural, old)) {
                more = increase(&more, &usage(group, plural, old, now));
            }
            more.retain(|name, amount| entries.contains(&name.as_str()) && !amount.is_zero());
            if !more.is_empty() {
                self.fits(object, &name, &quota, &more)?;
                charges.push((name, more));
            }
        }
        if options.dry_run {
            return Ok(());
        }
        for (name, more) in charges {
            Box::pin(self.charge(object, &name, &more)).await?;
        }
        Ok(())
    }

    /// Whether an operation may change what the object uses.
    fn is_charged(&self, operation: Operation, object: &Value, old: Option<&Value>) -> bool {
        let is_create = operation == Operation::Create;
        match (&*self.resource.group, &*self.resource.plural, self.subresource.as_str()) {
            (_, "events", _) | ("", "bindings", _) => false,
            ("", "pods", "") => is_create || old.is_some_and(|old| has_deadline(old) != has_deadline(object)),
            ("", "pods", "resize") => true,
            ("", "services" | "persistentvolumeclaims", "") => true,
            (_, _, subresource) => is_create && subresource.is_empty(),
        }
    }

    /// Adds to what a quota has as used, unless that is too much by now.
    async fn charge(&self, object: &Value, name: &str, more: &Amounts) -> Result<(), ApiError> {
        let Some(scope) = self.server.internal("", "resourcequotas", &self.namespace, name, "status") else {
            return Ok(());
        };
        let mut verdict = Ok(());
        let mut edit = |quota: &mut Value| {
            verdict = self.fits(object, name, quota, more);
            if verdict.is_ok() {
                let mut used = amounts::listed(quota, &["status", "used"]);
                amounts::add(&mut used, more);
                for (entry, amount) in used.iter().filter(|(entry, _)| more.contains_key(*entry)) {
                    access::set(quota, &["status", "used", entry], json!(amount.to_string()));
                }
            }
        };
        scope.change("kube-apiserver", &mut edit).await?;
        verdict
    }

    /// Refuses what a quota has no room for.
    fn fits(&self, object: &Value, name: &str, quota: &Value, more: &Amounts) -> Result<(), ApiError> {
        let (hard, used) =
            (amounts::listed(quota, &["status", "hard"]), amounts::listed(quota, &["status", "used"]));
        let exceeded = |entry: &str| {
            let total = used.get(entry).map_or_else(|| more[entry].clone(), |used| used.add(&more[entry]));
            hard.get(entry).is_some_and(|hard| total > *hard)
        };
        let over: Vec<&String> = more.keys().filter(|entry| exceeded(entry)).collect();
        if over.is_empty() {
            return Ok(());
        }
        let only = |amounts: &Amounts| {
            let chosen = amounts.iter().filter(|(entry, _)| over.contains(entry));
            amounts::shown(&chosen.map(|(entry, amount)| (entry.clone(), amount.clone())).collect())
        };
        let why = format!(
            "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
            only(more),
            only(&used),
            only(&hard)
        );
        Err(self.over_quota(object, why))
    }

    fn over_quota(&self, object: &Value, why: String) -> ApiError {
        ApiError::forbidden(&self.resource.subject(), access::get_str(object, &["metadata", "name"]), why)
    }
}

/// Whether an entry of a quota is about objects of a resource.
fn concerns(group: &str, plural: &str, entry: &str) -> bool {
    let is_extended = |name: &str| name.contains('/') && !name.contains("kubernetes.io/");
    match (group, plural) {
        PODS => {
            let request = entry.strip_prefix("requests.");
            OF_PODS.contains(&entry)
                || request.unwrap_or(entry).starts_with("hugepages-")
                || request.is_some_and(is_extended)
        }
        SERVICES => OF_SERVICES.contains(&entry),
        CLAIMS => {
            let of_class = entry.split_once(BY_CLASS).map_or(entry, |(_, rest)| rest);
            entry == "count/persistentvolumeclaims" || OF_CLAIMS.contains(&of_class)
        }
        (group, plural) => {
            entry == count_name(group, plural)
                || (group.is_empty() && COUNTED.contains(&plural) && entry == plural)
        }
    }
}

fn count_name(group: &str, plural: &str) -> String {
    match group {
        "" => format!("count/{plural}"),
        group => format!("count/{plural}.{group}"),
    }
}

/// What one object uses.
fn usage(group: &str, plural: &str, object: &Value, now: Timestamp) -> Amounts {
    let number = |count: usize| Quantity::new(i64::try_from(count).unwrap_or(i64::MAX), Format::DecimalSi);
    let mut usage = Amounts::from([(count_name(group, plural), number(1))]);
    match (group, plural) {
        PODS if is_alive(object, now) => usage.extend(of_pod(object)),
        PODS => {}
        SERVICES => {
            let ports = access::items(object, &["spec", "ports"]);
            let kind = access::get_str(object, &["spec", "type"]);
            let allocates =
                access::get(object, &["spec", "allocateLoadBalancerNodePorts"]) != Some(&Value::Bool(false));
            let node_ports = match kind {
                "NodePort" => ports.len(),
                "LoadBalancer" if allocates => ports.len(),
                "LoadBalancer" => ports.iter().filter(|port| access::has(port, &["nodePort"])).count(),
                _ => 0,
            };
            usage.insert("services".to_owned(), number(1));
            usage.insert("services.nodeports".to_owned(), number(node_ports));
            usage.insert("services.loadbalancers".to_owned(), number(usize::from(kind == "LoadBalancer")));
        }
        CLAIMS => {
            let amount = |path: &[&str]| amounts::listed(object, path).remove("storage");
            let requested = amount(&["spec", "resources", "requests"]);
            let allocated = amount(&["status", "allocatedResources"]);
            let mut own = vec![("persistentvolumeclaims", number(1))];
            own.extend(requested.map(|requested| {
                let most = allocated.filter(|allocated| *allocated > requested).unwrap_or(requested);
                ("requests.storage", most.round_up(0))
            }));
            let beta = ["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"];
            let class = match access::get_str(object, &beta) {
                "" => access::get_str(object, &["spec", "storageClassName"]),
                class => class,
            };
            for (name, amount) in own {
                if !class.is_empty() {
                    usage.insert(format!("{class}{BY_CLASS}{name}"), amount.clone());
                }
                usage.insert(name.to_owned(), amount);
            }
        }
        _ => drop(usage.insert(plural.to_owned(), number(1))),
    }
    usage
}

/// What a pod uses while it lives.
fn of_pod(pod: &Value) -> Amounts {
    let overhead = amounts::listed(pod, &["spec", "overhead"]);
    let totals = |list: &str| {
        let mut total = amounts::of_pod(pod, list);
        let counts = |name: &String| list == "requests" || total.contains_key(name);
        let overhead: Amounts = overhead.clone().into_iter().filter(|(name, _)| counts(name)).collect();
        amounts::add(&mut total, &overhead);
        total
    };
    compute(&totals("requests"), &totals("limits"))
}

/// The names under which requests and limits are counted.
fn compute(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut usage = Amounts::from([("pods".to_owned(), Quantity::new(1, Format::DecimalSi))]);
    let is_plain = |name: &str| matches!(name, "cpu" | "memory" | "ephemeral-storage");
    for (name, amount) in requests {
        let is_native = !name.contains('/') || name.contains("kubernetes.io/");
        if is_plain(name) || name.starts_with("hugepages-") {
            usage.insert(name.clone(), amount.clone());
        } else if is_native {
            continue;
        }
        usage.insert(format!("requests.{name}"), amount.clone());
    }
    for (name, amount) in limits.iter().filter(|(name, _)| is_plain(name)) {
        usage.insert(format!("limits.{name}"), amount.clone());
    }
    usage
}

/// Whether a pod still uses something: it has not ended, and is not long overdue to go.
fn is_alive(pod: &Value, now: Timestamp) -> bool {
    if matches!(access::get_str(pod, &["status", "phase"]), "Failed" | "Succeeded") {
        return false;
    }
    let grace = access::get_i64(pod, &["metadata", "deletionGracePeriodSeconds"]);
    let gone = access::get_str(pod, &["metadata", "deletionTimestamp"]).parse::<Timestamp>().ok();
    gone.zip(grace).is_none_or(|(gone, grace)| {
        now <= gone.saturating_add(SignedDuration::from_secs(grace)).unwrap_or(Timestamp::MAX)
    })
}

/// What containers must say, because a quota counts it, and do not.
fn missing(entries: &[&str], pod: &Value) -> Option<String> {
    if amounts::is_told_by_pod(pod) {
        return None;
    }
    let mut required: Vec<&str> = entries.iter().copied().filter(|entry| REQUIRED.contains(entry)).collect();
    required.sort_unstable();
    let lacking = required.into_iter().filter_map(|entry| {
        let containers = ["containers", "initContainers"].map(|list| access::items(pod, &["spec", list]));
        let mut names: Vec<&str> = containers
            .into_iter()
            .flatten()
            .filter(|container| {
                let of = |list| amounts::listed(container, &["resources", list]);
                !compute(&of("requests"), &of("limits")).contains_key(entry)
            })
            .map(|container| access::get_str(container, &["name"]))
            .collect();
        names.sort_unstable();
        (!names.is_empty()).then(|| format!("{entry} for: {}", names.join(",")))
    });
    Some(lacking.collect::<Vec<_>>().join("; ")).filter(|text| !text.is_empty())
}

/// How much more is used than before; less is nothing.
fn increase(now: &Amounts, before: &Amounts) -> Amounts {
    let mut more = Amounts::new();
    for (name, amount) in now {
        let Some(before) = before.get(name) else {
            more.insert(name.clone(), amount.clone());
            continue;
        };
        if amount > before {
            more.insert(name.clone(), amount.subtract(before));
        }
    }
    more
}

fn has_deadline(pod: &Value) -> bool {
    access::get_i64(pod, &["spec", "activeDeadlineSeconds"]).is_some_and(|seconds| seconds >= 0)
}

/// Whether an object is in all scopes of a quota.
fn is_within(quota: &Value, group: &str, plural: &str, object: &Value) -> bool {
    let plain = access::items(quota, &["spec", "scopes"]).iter().filter_map(Value::as_str);
    let selected = access::items(quota, &["spec", "scopeSelector", "matchExpressions"]);
    plain.into_iter().all(|scope| is_in_scope(scope, "Exists", &[], group, plural, object))
        && selected.iter().all(|selector| {
            let (scope, operator) =
                (access::get_str(selector, &["scopeName"]), access::get_str(selector, &["operator"]));
            let values = access::items(selector, &["values"]);
            is_in_scope(scope, operator, values, group, plural, object)
        })
}

fn is_in_scope(
    scope: &str,
    operator: &str,
    values: &[Value],
    group: &str,
    plural: &str,
    object: &Value,
) -> bool {
    let is_named = |path: &[&str]| {
        let name = access::get_str(object, path);
        let listed = values.iter().any(|value| value == name);
        match operator {
            "Exists" => !name.is_empty(),
            "DoesNotExist" => name.is_empty(),
            "In" => listed,
            _ => !listed,
        }
    };
    match ((group, plural), scope) {
        (PODS, "Terminating") => has_deadline(object),
        (PODS, "NotTerminating") => !has_deadline(object),
        (PODS, "BestEffort") => qos_class(object) == "BestEffort",
        (PODS, "NotBestEffort") => qos_class(object) != "BestEffort",
        (PODS, "PriorityClass") => is_named(&["spec", "priorityClassName"]),
        (PODS, "CrossNamespacePodAffinity") => reaches_other_namespaces(object),
        (CLAIMS, "VolumeAttributesClass") => is_named(&["spec", "volumeAttributesClassName"]),
        _ => false,
    }
}

fn reaches_other_namespaces(pod: &Value) -> bool {
    let reaches = |term: &Value| {
        access::has(term, &["namespaceSelector"]) || !access::items(term, &["namespaces"]).is_empty()
    };
    ["podAffinity", "podAntiAffinity"].into_iter().any(|kind| {
        let terms = |list| access::items(pod, &["spec", "affinity", kind, list]).iter();
        terms("requiredDuringSchedulingIgnoredDuringExecution").any(reaches)
            || terms("preferredDuringSchedulingIgnoredDuringExecution")
                .any(|term| term.get("podAffinityTerm").is_some_and(reaches))
    })
}
