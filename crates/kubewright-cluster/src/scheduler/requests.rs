//! How much of a node's resources a pod asks for.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Container, Pod},
    apimachinery::pkg::api::resource::Quantity as Text,
};
use kubewright_apiserver::quantity::Quantity;

use crate::pods;

/// What a container that does not say so is taken to need where nodes are compared: a tenth of a processor, 200 MiB.
const LIKELY: Demand = Demand { cpu: 100, memory: 200 << 20 };

/// Amounts of resources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Resources {
    pods: i64,
    told: Demand,
    /// By their names, in whole units.
    others: BTreeMap<String, i64>,
    /// What counts where nodes are compared: who asks for nothing will need something, too.
    likely: Demand,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Demand {
    /// In thousandths of processors.
    cpu: i64,
    memory: i64,
}

impl Resources {
    /// Amounts as objects carry them. What can't be read counts as nothing: the API server lets no such thing in.
    pub(super) fn of(amounts: Option<&BTreeMap<String, Text>>) -> Self {
        let mut all = Self::default();
        for (name, text) in amounts.into_iter().flatten() {
            let Ok(amount) = Quantity::parse(&text.0) else { continue };
            match name.as_str() {
                "pods" => all.pods = amount.value(),
                "cpu" => all.told.cpu = amount.milli_value(),
                "memory" => all.told.memory = amount.value(),
                name => {
                    all.others.insert(name.to_owned(), amount.value());
                }
            }
        }
        all.likely = all.told;
        all
    }

    fn of_container(container: &Container) -> Self {
        let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        let says = |name| requests.is_some_and(|requests| requests.contains_key(name));
        let mut all = Self::of(requests);
        if !says("cpu") {
            all.likely.cpu = LIKELY.cpu;
        }
        if !says("memory") {
            all.likely.memory = LIKELY.memory;
        }
        all
    }

    /// What a pod asks for: its containers together, or more if one that runs before them needs more; and one place.
    pub(super) fn of_pod(pod: &Pod) -> Self {
        let spec = pods::spec(pod);
        let mut total = Self::default();
        spec.containers.iter().for_each(|container| total.add(&Self::of_container(container)));
        let (mut staying, mut before) = (Self::default(), Self::default());
        for container in spec.init_containers.iter().flatten() {
            let mut needed = Self::of_container(container);
            if container.restart_policy.as_deref() == Some("Always") {
                total.add(&needed);
                staying.add(&needed);
                before.raise(&staying);
            } else {
                needed.add(&staying);
                before.raise(&needed);
            }
        }
        total.raise(&before);
        total.add(&Self::of(spec.overhead.as_ref()));
        total.pods = 1;
        total
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.combine(other, i64::saturating_add);
    }

    fn raise(&mut self, other: &Self) {
        self.combine(other, i64::max);
    }

    fn combine(&mut self, other: &Self, with: fn(i64, i64) -> i64) {
        self.pods = with(self.pods, other.pods);
        self.told = self.told.combined(other.told, with);
        self.likely = self.likely.combined(other.likely, with);
        for (name, amount) in &other.others {
            let own = self.others.entry(name.clone()).or_default();
            *own = with(*own, *amount);
        }
    }

    fn get(&self, name: &str) -> i64 {
        match name {
            "pods" => self.pods,
            "cpu" => self.told.cpu,
            "memory" => self.told.memory,
            name => self.others.get(name).copied().unwrap_or(0),
        }
    }

    /// The resources of which there is not enough: `wanted` on top of `used` is more than this.
    pub(super) fn lacking<'w>(&self, used: &Self, wanted: &'w Self) -> Vec<&'w str> {
        let is_lacking = |name: &&str| {
            let amount = wanted.get(name);
            amount > 0 && used.get(name).saturating_add(amount) > self.get(name)
        };
        let others = wanted.others.keys().map(String::as_str);
        ["cpu", "memory", "pods"].into_iter().chain(others).filter(is_lacking).collect()
    }

    /// How much of this is likely to be used, in thousandths of processors and memory together: less is better.
    pub(super) fn load(&self, used: &Self) -> i64 {
        let share = |used: i64, all: i64| match all {
            0 => 0,
            all => i64::try_from(i128::from(used) * 1000 / i128::from(all)).unwrap_or(i64::MAX),
        };
        share(used.likely.cpu, self.told.cpu) + share(used.likely.memory, self.told.memory)
    }
}

impl Demand {
    fn combined(self, other: Self, with: fn(i64, i64) -> i64) -> Self {
        Self { cpu: with(self.cpu, other.cpu), memory: with(self.memory, other.memory) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn requests(spec: serde_json::Value) -> Resources {
        let pod: Pod = serde_json::from_value(json!({"spec": spec})).expect("it is a pod");
        Resources::of_pod(&pod)
    }

    fn container(cpu: &str) -> serde_json::Value {
        json!({"name": "c", "resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn what_runs_before_counts_only_if_it_is_more() {
        let spec = |init: &str| json!({"containers": [container("1"), container("500m")], "initContainers": [container(init)]});
        assert_eq!(requests(spec("1")).get("cpu"), 1500);
        assert_eq!(requests(spec("2")).get("cpu"), 2000);
    }

    #[test]
    fn what_stays_counts_with_what_runs_beside_and_after_it() {
        let mut stays = container("1");
        stays["restartPolicy"] = "Always".into();
        let spec = json!({"containers": [container("1")], "initContainers": [stays, container("3")]});
        assert_eq!(requests(spec).get("cpu"), 4000);
    }

    #[test]
    fn a_container_that_asks_for_nothing_counts_where_nodes_are_compared_and_nowhere_else() {
        let idle = json!({"name": "c"});
        let pod = requests(json!({"containers": [idle, container("1")]}));
        assert_eq!((pod.get("cpu"), pod.get("memory")), (1000, 0));
        assert_eq!(pod.likely, Demand { cpu: 1100, memory: 400 << 20 });
    }

    #[test]
    fn what_lacks_is_named() {
        let amounts = |cpu: i64, pods: i64| {
            let told = Demand { cpu, memory: 0 };
            Resources { pods, told, ..Resources::default() }
        };
        let (all, used) = (amounts(1000, 2), amounts(600, 2));
        assert_eq!(
            all.lacking(&used, &requests(json!({"containers": [container("500m")]}))),
            ["cpu", "pods"]
        );
        assert_eq!(
            all.lacking(&Resources::default(), &requests(json!({"containers": [container("1")]}))),
            [""; 0]
        );
    }
}
