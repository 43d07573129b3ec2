//! ClusterRoles that gather the rules of others by label.
//!
//! Kubernetes writes the gathered rules into the aggregating role's own `rules`; [`Rules::stale_aggregates`]
//! says what is to be written, whoever writes it.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Rule, Rules, text};

/// The labels a ClusterRole can be gathered by, and the selectors it gathers others with.
#[derive(Debug, Clone, Default)]
pub(super) struct Aggregation {
    labels: BTreeMap<String, String>,
    selectors: Option<Vec<Selector>>,
}

#[derive(Debug, Clone)]
struct Selector(Vec<Requirement>);

#[derive(Debug, Clone)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl Aggregation {
    pub(super) fn of(role: &Value) -> Self {
        let labels = role.pointer("/metadata/labels").and_then(Value::as_object);
        let labels = labels.into_iter().flatten();
        let rule = role.get("aggregationRule").filter(|rule| !rule.is_null());
        Self {
            labels: labels
                .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                .collect(),
            selectors: rule.map(|rule| {
                let list = rule.get("clusterRoleSelectors").and_then(Value::as_array);
                list.into_iter().flatten().filter_map(Selector::from_value).collect()
            }),
        }
    }
}

impl Selector {
    /// The selector; none if an operator is unknown, so that a bad selector gathers nothing.
    fn from_value(selector: &Value) -> Option<Self> {
        let labels = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
        let mut requirements: Vec<Requirement> = labels
            .map(|(key, value)| Requirement {
                key: key.clone(),
                operator: Operator::In,
                values: value.as_str().into_iter().map(str::to_owned).collect(),
            })
            .collect();
        let expressions = selector.get("matchExpressions").and_then(Value::as_array);
        for expression in expressions.into_iter().flatten() {
            let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
            requirements.push(Requirement {
                key: text(expression, "key").to_owned(),
                operator: match text(expression, "operator") {
                    "In" => Operator::In,
                    "NotIn" => Operator::NotIn,
                    "Exists" => Operator::Exists,
                    "DoesNotExist" => Operator::DoesNotExist,
                    _ => return None,
                },
                values: values.filter_map(Value::as_str).map(str::to_owned).collect(),
            });
        }
        Some(Self(requirements))
    }

    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|requirement| {
            let value = labels.get(&requirement.key);
            let listed = value.is_some_and(|value| requirement.values.contains(value));
            match requirement.operator {
                Operator::In => listed,
                Operator::NotIn => !listed,
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
            }
        })
    }
}

impl Rules {
    /// The rules that the aggregating ClusterRole `name` should have; none if it does not aggregate.
    pub fn aggregate(&self, name: &str) -> Option<Vec<Rule>> {
        self.gathered(name).map(|rules| rules.into_iter().cloned().collect())
    }

    fn gathered(&self, name: &str) -> Option<Vec<&Rule>> {
        let selectors = self.cluster_roles.get(name)?.aggregation.selectors.as_ref()?;
        let mut gathered: Vec<&Rule> = Vec::new();
        for selector in selectors {
            for (other, role) in &self.cluster_roles {
                if other == name || !selector.matches(&role.aggregation.labels) {
                    continue;
                }
                for rule in &role.rules {
                    if !gathered.contains(&rule) {
                        gathered.push(rule);
                    }
                }
            }
        }
        Some(gathered)
    }

    /// The ClusterRoles whose `rules` are not what they aggregate, with the rules they should have.
    /// Writing them can make others stale in turn, as `admin` gathers `edit`: ask again until there are none.
    pub fn stale_aggregates(&self) -> Vec<(String, Vec<Rule>)> {
        self.cluster_roles
            .iter()
            .filter_map(|(name, role)| {
                let rules = self.gathered(name)?;
                let is_stale = !rules.iter().copied().eq(&role.rules);
                is_stale.then(|| (name.clone(), rules.into_iter().cloned().collect()))
            })
            .collect()
    }
}
