//! One policy rule: what it allows, what it covers of another rule, and how it reads in a message.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use serde::Serialize;
use serde_json::Value;

use super::{Attributes, Target};

/// One entry of `rules` in a Role or ClusterRole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// What may be done; `*` for everything.
    pub verbs: Vec<String>,
    /// The API groups; `*` for all, empty text for core.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// Resources, `resource/subresource`, `*/subresource` or `*`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Names the rule is limited to; all if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// Paths that are no resources, with `*` at the end for whatever follows.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

fn has(list: &[String], one: &str) -> bool {
    list.iter().any(|item| item == one)
}

fn has_or_star(list: &[String], one: &str) -> bool {
    list.iter().any(|item| item == "*" || item == one)
}

fn path_covers(pattern: &str, path: &str) -> bool {
    pattern == path || (pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*')))
}

impl Rule {
    /// The rule as it stands in an object. What is not a list of strings counts as empty.
    pub fn from_value(rule: &Value) -> Self {
        let strings = |field: &str| -> Vec<String> {
            let list = rule.get(field).and_then(Value::as_array);
            list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            verbs: strings("verbs"),
            api_groups: strings("apiGroups"),
            resources: strings("resources"),
            resource_names: strings("resourceNames"),
            non_resource_urls: strings("nonResourceURLs"),
        }
    }

    /// The `rules` of a Role or ClusterRole.
    pub fn list(role: &Value) -> Vec<Self> {
        let rules = role.get("rules").and_then(Value::as_array);
        rules.into_iter().flatten().map(Self::from_value).collect()
    }

    /// Whether this rule alone allows the request.
    pub fn allows(&self, attributes: &Attributes<'_>) -> bool {
        if !has_or_star(&self.verbs, attributes.verb) {
            return false;
        }
        match &attributes.target {
            Target::Path(path) => self.non_resource_urls.iter().any(|url| path_covers(url, path)),
            Target::Resource(target) => {
                has_or_star(&self.api_groups, target.group)
                    && self.allows_resource(target.resource, target.subresource)
                    && (self.resource_names.is_empty() || has(&self.resource_names, target.name))
            }
        }
    }

    fn allows_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|rule| {
            if rule == "*" {
                return true;
            }
            if subresource.is_empty() {
                return rule == resource;
            }
            rule.strip_suffix(subresource)
                .and_then(|rest| rest.strip_suffix('/'))
                .is_some_and(|rest| rest == resource || rest == "*")
        })
    }

    /// The rule as rules of one verb and one resource, name or path each.
    fn broken_down(&self) -> Vec<Rule> {
        let one = |text: &str| vec![text.to_owned()];
        let mut parts = Vec::new();
        for group in &self.api_groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    let part = Rule {
                        verbs: one(verb),
                        api_groups: one(group),
                        resources: one(resource),
                        ..Rule::default()
                    };
                    if self.resource_names.is_empty() {
                        parts.push(part);
                        continue;
                    }
                    for name in &self.resource_names {
                        parts.push(Rule { resource_names: one(name), ..part.clone() });
                    }
                }
            }
        }
        for url in &self.non_resource_urls {
            for verb in &self.verbs {
                parts.push(Rule { verbs: one(verb), non_resource_urls: one(url), ..Rule::default() });
            }
        }
        parts
    }

    /// Whether this rule gives all that `part` gives, `part` being one of a broken-down rule.
    fn covers(&self, part: &Rule) -> bool {
        let all = |own: &[String], asked: &[String]| has(own, "*") || asked.iter().all(|one| has(own, one));
        let resources = |resource: &String| {
            has_or_star(&self.resources, resource)
                || resource.split_once('/').is_some_and(|(_, sub)| has(&self.resources, &format!("*/{sub}")))
        };
        let names = self.resource_names.is_empty()
            || (!part.resource_names.is_empty()
                && part.resource_names.iter().all(|name| has(&self.resource_names, name)));
        all(&self.verbs, &part.verbs)
            && all(&self.api_groups, &part.api_groups)
            && part.resources.iter().all(resources)
            && part
                .non_resource_urls
                .iter()
                .all(|url| self.non_resource_urls.iter().any(|own| path_covers(own, url)))
            && names
    }
}

/// What of `asked` is not held through `held`, one line a rule, sorted; empty if all is held.
pub(super) fn missing(held: &[&Rule], asked: &[Rule]) -> BTreeSet<String> {
    let mut whole = BTreeSet::new();
    let mut by_resource: BTreeMap<(String, String, Option<String>), Rule> = BTreeMap::new();
    for part in asked.iter().flat_map(Rule::broken_down) {
        if held.iter().any(|own| own.covers(&part)) {
            continue;
        }
        let (Some(group), Some(resource)) = (part.api_groups.first(), part.resources.first()) else {
            whole.insert(part.to_string());
            continue;
        };
        let key = (group.clone(), resource.clone(), part.resource_names.first().cloned());
        match by_resource.get_mut(&key) {
            Some(rule) => rule.verbs.extend(part.verbs),
            None => {
                by_resource.insert(key, part);
            }
        }
    }
    whole.extend(by_resource.values().map(ToString::to_string));
    whole
}

/// `["a" "b"]`, as Go prints a list of quoted strings.
pub(crate) fn quoted(list: &[String]) -> String {
    let mut text = String::from("[");
    for (index, item) in list.iter().enumerate() {
        let space = if index == 0 { "" } else { " " };
        let _ = write!(text, "{space}{item:?}");
    }
    text.push(']');
    text
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let shown: Vec<String> = parts
            .iter()
            .filter(|(_, list)| !list.is_empty())
            .map(|(name, list)| format!("{name}:{}", quoted(list)))
            .collect();
        write!(f, "{{{}}}", shown.join(", "))
    }
}
