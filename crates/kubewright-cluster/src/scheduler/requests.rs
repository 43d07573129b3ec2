//! How much of a node's resources a pod asks for.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Container, Pod},
    apimachinery::pkg::api::resource::Quantity as Text,
};
use kubewright_apiserver::quantity::Quantity;

use crate::pods;

/// Amounts by the names of resources: processors in thousandths, everything else in whole units.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Resources(BTreeMap<String, i64>);

impl Resources {
    /// Amounts as objects carry them. What can't be read counts as nothing: the API server lets no such thing in.
    pub(super) fn of(amounts: Option<&BTreeMap<String, Text>>) -> Self {
        let read = |(name, text): (&String, &Text)| {
            let amount = Quantity::parse(&text.0).ok()?;
            Some((name.clone(), if name == "cpu" { amount.milli_value() } else { amount.value() }))
        };
        Self(amounts.into_iter().flatten().filter_map(read).collect())
    }

    /// What a pod asks for: its containers together, or more if one that runs before them needs more; and one place.
    pub(super) fn of_pod(pod: &Pod) -> Self {
        let spec = pods::spec(pod);
        let of = |container: &Container| {
            Self::of(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()))
        };
        let mut total = Self::default();
        spec.containers.iter().for_each(|container| total.add(&of(container)));
        let (mut staying, mut before) = (Self::default(), Self::default());
        for container in spec.init_containers.iter().flatten() {
            if container.restart_policy.as_deref() == Some("Always") {
                total.add(&of(container));
                staying.add(&of(container));
                before.raise(&staying);
            } else {
                let mut needed = of(container);
                needed.add(&staying);
                before.raise(&needed);
            }
        }
        total.raise(&before);
        total.add(&Self::of(spec.overhead.as_ref()));
        total.0.insert("pods".to_owned(), 1);
        total
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let sum = self.0.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
    }

    fn raise(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let most = self.0.entry(name.clone()).or_default();
            *most = (*most).max(*amount);
        }
    }

    fn get(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// The resources of which there is not enough: `wanted` on top of `used` is more than this.
    pub(super) fn lacking(&self, used: &Self, wanted: &Self) -> Vec<String> {
        let is_lacking = |(name, amount): &(&String, &i64)| {
            **amount > 0 && used.get(name).saturating_add(**amount) > self.get(name)
        };
        wanted.0.iter().filter(is_lacking).map(|(name, _)| name.clone()).collect()
    }

    /// How much of this is used, in thousandths of processors and memory together: less is better.
    pub(super) fn load(&self, used: &Self) -> i64 {
        let share = |name: &str| match self.get(name) {
            0 => 0,
            all => i64::try_from(i128::from(used.get(name)) * 1000 / i128::from(all)).unwrap_or(i64::MAX),
        };
        share("cpu") + share("memory")
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
    fn what_lacks_is_named() {
        let all = Resources([("cpu".to_owned(), 1000), ("pods".to_owned(), 2)].into());
        let used = Resources([("cpu".to_owned(), 600), ("pods".to_owned(), 2)].into());
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
