//! Which requests a webhook or a policy is for: rules, selectors of objects and of their namespaces.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::attributes::Attributes;
use crate::{
    error::{ApiError, Subject},
    kinds::access,
    registry::Resource,
    selector::LabelSelector,
    store::ResourceId,
};

/// What a webhook, a policy or a binding is for.
#[derive(Debug)]
pub(super) struct Matcher {
    namespaces: Result<LabelSelector, String>,
    objects: Result<LabelSelector, String>,
    /// Without rules, everything matches.
    rules: Option<Vec<Rule>>,
    excluded: Vec<Rule>,
    /// Whether a rule for one version of a resource is also for the others.
    equivalent: bool,
}

#[derive(Debug)]
struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    /// Resource and subresource.
    resources: Vec<(String, String)>,
    scope: String,
    /// Names of the objects; all if there are none.
    names: Vec<String>,
}

/// The objects a request is about.
#[derive(Clone, Copy)]
pub(super) struct Objects<'a> {
    pub(super) object: Option<&'a Value>,
    pub(super) old: Option<&'a Value>,
}

impl Matcher {
    /// What a webhook is for.
    pub(super) fn of_webhook(webhook: &Value) -> Self {
        Self { rules: Some(rules(webhook, "rules")), ..Self::selectors(webhook) }
    }

    /// What a policy or a binding is for, by its `matchConstraints` or `matchResources`.
    pub(super) fn of_resources(resources: &Value) -> Self {
        let rules = self::rules(resources, "resourceRules");
        Self {
            rules: (!rules.is_empty()).then_some(rules),
            excluded: self::rules(resources, "excludeResourceRules"),
            ..Self::selectors(resources)
        }
    }

    fn selectors(object: &Value) -> Self {
        let selector = |name: &str| match object.get(name).filter(|selector| !selector.is_null()) {
            Some(selector) => LabelSelector::from_object(Some(selector)),
            None => Ok(LabelSelector::everything()),
        };
        Self {
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
            rules: None,
            excluded: Vec::new(),
            equivalent: access::get_str(object, &["matchPolicy"]) != "Exact",
        }
    }

    /// The resource in whose terms the request matches, if it does.
    pub(super) fn matches(
        &self,
        request: &Attributes<'_>,
        objects: Objects<'_>,
    ) -> Result<Option<Arc<Resource>>, ApiError> {
        // An unusable selector only matters to requests that match otherwise.
        let namespace = self.matches_namespace(request, objects);
        if matches!(namespace, Ok(false)) {
            return Ok(None);
        }
        let object = self.matches_object(objects);
        if matches!(object, Ok(false)) {
            return Ok(None);
        }
        if self.matching_rule(&self.excluded, request).is_some() {
            return Ok(None);
        }
        let matched = match &self.rules {
            None => Some(request.resource().clone()),
            Some(rules) => self.matching_rule(rules, request),
        };
        if matched.is_some() {
            namespace?;
            object?;
        }
        Ok(matched)
    }

    fn matching_rule(&self, rules: &[Rule], request: &Attributes<'_>) -> Option<Arc<Resource>> {
        if rules.iter().any(|rule| rule.matches(request, request.resource())) {
            return Some(request.resource().clone());
        }
        if !self.equivalent || rules.is_empty() {
            return None;
        }
        let equivalents = request.equivalents();
        rules
            .iter()
            .find_map(|rule| equivalents.iter().find(|resource| rule.matches(request, resource)))
            .cloned()
    }

    fn matches_namespace(&self, request: &Attributes<'_>, objects: Objects<'_>) -> Result<bool, ApiError> {
        let is_namespace = &*request.resource().plural == "namespaces";
        if request.namespace.is_empty() && !is_namespace {
            return Ok(true);
        }
        let selector = self.namespaces.as_ref().map_err(ApiError::internal)?;
        if selector.is_everything() {
            return Ok(true);
        }
        if is_namespace
            && request.subresource().is_empty()
            && let Some(object) = objects.object
        {
            return Ok(selector.matches(labels(object)));
        }
        let namespace =
            request.scope.server.store.get(&ResourceId::new("", "namespaces"), &request.namespace);
        let Some(namespace) = namespace else {
            let subject = Subject { group: "", resource: "namespaces", kind: "Namespace" };
            return Err(ApiError::not_found(&subject, &request.namespace));
        };
        Ok(selector.matches_with(|name| namespace.labels.get(name)))
    }

    fn matches_object(&self, objects: Objects<'_>) -> Result<bool, ApiError> {
        let selector = self.objects.as_ref().map_err(ApiError::internal)?;
        Ok(selector.is_everything()
            || [objects.object, objects.old]
                .into_iter()
                .flatten()
                .any(|object| selector.matches(labels(object))))
    }
}

fn labels(object: &Value) -> Option<&Map<String, Value>> {
    access::get(object, &["metadata", "labels"]).and_then(Value::as_object)
}

fn rules(object: &Value, field: &str) -> Vec<Rule> {
    access::items(object, &[field])
        .iter()
        .map(|rule| {
            let strings = |field: &str| -> Vec<String> {
                access::items(rule, &[field]).iter().filter_map(Value::as_str).map(str::to_owned).collect()
            };
            let split = |text: String| match text.split_once('/') {
                Some((resource, subresource)) => (resource.to_owned(), subresource.to_owned()),
                None => (text, String::new()),
            };
            Rule {
                operations: strings("operations"),
                groups: strings("apiGroups"),
                versions: strings("apiVersions"),
                resources: strings("resources").into_iter().map(split).collect(),
                scope: access::get_str(rule, &["scope"]).to_owned(),
                names: strings("resourceNames"),
            }
        })
        .collect()
}

impl Rule {
    fn matches(&self, request: &Attributes<'_>, resource: &Resource) -> bool {
        let listed = |list: &[String], wanted: &str| list.iter().any(|one| one == "*" || one == wanted);
        let is_namespace =
            resource.group.is_empty() && &*resource.version == "v1" && &*resource.plural == "namespaces";
        let namespaced = !is_namespace && !request.namespace.is_empty();
        let in_scope = match self.scope.as_str() {
            "" | "*" => true,
            "Namespaced" => namespaced,
            "Cluster" => !namespaced,
            _ => false,
        };
        in_scope
            && listed(&self.operations, request.operation.as_str())
            && listed(&self.groups, &resource.group)
            && listed(&self.versions, &resource.version)
            && self.resources.iter().any(|(plural, subresource)| {
                (plural == "*" || **plural == *resource.plural)
                    && (subresource == "*" || subresource == request.subresource())
            })
            && (self.names.is_empty() || self.names.contains(&request.name))
    }
}
