//! How a resource behaves on the way to the store, whether it is built in or custom.
//!
//! The functions of a [`Strategy`](crate::kinds::Strategy) see one object; here is what the generic verbs
//! need to know of a kind besides: names, unconditional updates, what a delete gives back.

use serde_json::Value;

use super::{Origin, Resource};
use crate::{
    crd::{self, Verdict},
    decode,
    error::ApiError,
    field::{FieldError, Path},
    fields::{FieldSet, Match, ResetFields},
    kinds::{Strategy, access, certificates, core, fields},
    names::{self, NameCheck},
    rest::options::Propagation,
};

impl Resource {
    /// Fills unset fields.
    pub(crate) fn default(&self, object: &mut Value) {
        match &self.origin {
            Origin::BuiltIn(strategy) => (strategy.default)(object),
            Origin::Custom(custom) => custom.default(&self.version, object),
        }
    }

    /// Clears what a creator may not set, and leaves the zeros that Go writes in its place.
    pub(crate) fn prepare_create(&self, object: &mut Value) -> Result<(), ApiError> {
        match &self.origin {
            Origin::BuiltIn(strategy) => {
                (strategy.prepare_create)(object);
                if strategy.generation.is_some() {
                    access::set(object, &["metadata", "generation"], 1);
                }
                self.normalise(object)
            }
            Origin::Custom(custom) => {
                custom.prepare_create(&self.version, object);
                Ok(())
            }
        }
    }

    /// Gives a built-in object the form in which Go would write it.
    pub(crate) fn normalise(&self, object: &mut Value) -> Result<(), ApiError> {
        let (value, _) = decode::typed(std::mem::take(object), &self.schema).map_err(ApiError::internal)?;
        *object = value;
        Ok(())
    }

    /// The rules of a subresource that has its own.
    fn subresource_strategy(&self, subresource: &str) -> Option<&'static Strategy> {
        if !self.group.is_empty() || subresource.is_empty() {
            return None;
        }
        let known =
            core::SUBRESOURCES.iter().find(|(kind, name, _)| *kind == &*self.kind && *name == subresource);
        known.map(|(_, _, strategy)| strategy)
    }

    /// Carries over what an update of the object or of one of its parts may not touch.
    pub(crate) fn prepare_update(&self, object: &mut Value, old: &Value, subresource: &str) {
        if let Some(strategy) = self.subresource_strategy(subresource) {
            (strategy.default)(object);
            (strategy.prepare_update)(object, old);
            return;
        }
        match (&self.origin, subresource) {
            // A binding sets what it sets and nothing else.
            (Origin::BuiltIn(_), "binding") => {}
            (Origin::BuiltIn(strategy), "" | "scale") => (strategy.prepare_update)(object, old),
            (Origin::BuiltIn(_), "approval") => certificates::prepare_approval_update(object, old),
            (Origin::BuiltIn(strategy), _) => (strategy.prepare_status_update)(object, old),
            (Origin::Custom(custom), _) => custom.prepare_update(&self.version, object, old, subresource),
        }
    }

    /// What is wrong with a new object; `errors` are those of its metadata.
    pub(crate) fn validate(&self, object: &Value, mut errors: Vec<FieldError>) -> Verdict {
        match &self.origin {
            Origin::BuiltIn(strategy) => {
                errors.extend((strategy.validate)(object));
                let warnings = if errors.is_empty() { (strategy.warnings)(object, None) } else { Vec::new() };
                Verdict { errors, warnings }
            }
            Origin::Custom(custom) => {
                let mut verdict = custom.validate(&self.version, object, errors);
                verdict.warnings.extend(crd::finalizer_warnings(object, None));
                verdict
            }
        }
    }

    /// What is wrong with an object as the successor of `old`; `errors` are those of its metadata.
    pub(crate) fn validate_update(
        &self,
        object: &Value,
        old: &Value,
        subresource: &str,
        mut errors: Vec<FieldError>,
    ) -> Verdict {
        match &self.origin {
            Origin::BuiltIn(strategy) => {
                errors.extend(match (self.subresource_strategy(subresource), subresource) {
                    (Some(strategy), _) => (strategy.validate_update)(object, old),
                    (None, "binding") => Vec::new(),
                    (None, "approval") => certificates::validate_approval_update(object, old),
                    (None, "" | "scale") => (strategy.validate_update)(object, old),
                    (None, _) => (strategy.validate_status_update)(object, old),
                });
                let quiet = !errors.is_empty() || !subresource.is_empty();
                let warnings = if quiet { Vec::new() } else { (strategy.warnings)(object, Some(old)) };
                Verdict { errors, warnings }
            }
            Origin::Custom(custom) => {
                let mut verdict = custom.validate_update(&self.version, object, old, subresource, errors);
                verdict.warnings.extend(crd::finalizer_warnings(object, Some(old)));
                verdict
            }
        }
    }

    /// Whether the change from `old` raises `metadata.generation`.
    pub(crate) fn raises_generation(&self, object: &Value, old: &Value, subresource: &str) -> bool {
        if let Some(strategy) = self.subresource_strategy(subresource) {
            return strategy.generation.is_some_and(|raises| raises(object, old));
        }
        match &self.origin {
            _ if !matches!(subresource, "" | "scale") => false,
            Origin::BuiltIn(strategy) => strategy.generation.is_some_and(|raises| raises(object, old)),
            // Preparing the update has done it.
            Origin::Custom(_) => false,
        }
    }

    /// How names of the kind look.
    pub(crate) fn name_check(&self) -> NameCheck {
        match (&*self.group, &*self.kind) {
            ("", "Namespace" | "Service") | ("apps", "StatefulSet") => names::name_is_dns_label,
            ("rbac.authorization.k8s.io", _) | ("certificates.k8s.io", _) | ("apiregistration.k8s.io", _) => {
                names::name_is_path_segment
            }
            ("networking.k8s.io", "IPAddress") => names::name_is_path_segment,
            _ => names::name_is_dns_subdomain,
        }
    }

    /// Finalizers of built-in kinds are well known or carry the domain of their owner.
    pub(crate) fn check_finalizer_names(&self, metadata: &Value, path: &Path) -> Vec<FieldError> {
        if self.is_custom() || matches!(&*self.group, "apiextensions.k8s.io" | "apiregistration.k8s.io") {
            return Vec::new();
        }
        let known =
            |name: &str| name.contains('/') || matches!(name, "kubernetes" | "orphan" | "foregroundDeletion");
        access::items(metadata, &["finalizers"])
            .iter()
            .enumerate()
            .filter_map(|(index, name)| Some((index, name.as_str().filter(|name| !known(name))?)))
            .map(|(index, name)| {
                let detail = "name is neither a standard finalizer name nor is it fully qualified";
                FieldError::invalid(&path.child("finalizers").index(index), name, detail)
            })
            .collect()
    }

    /// Whether a PUT of an object that is not there creates it.
    pub(crate) fn creates_on_update(&self) -> bool {
        matches!(
            (&*self.group, &*self.kind),
            ("rbac.authorization.k8s.io", _)
                | ("coordination.k8s.io", "Lease")
                | ("node.k8s.io", "RuntimeClass")
                | ("events.k8s.io", "Event")
                | ("", "LimitRange" | "Event" | "Service" | "Endpoints")
        )
    }

    /// Whether a PUT without resourceVersion replaces whatever is there.
    pub(crate) fn allows_unconditional_update(&self) -> bool {
        !matches!(
            (&*self.group, &*self.kind),
            ("node.k8s.io", "RuntimeClass")
                | ("policy", "PodDisruptionBudget")
                | ("storage.k8s.io", "CSIDriver" | "CSIStorageCapacity" | "VolumeAttachment" | "CSINode")
                | ("coordination.k8s.io", _)
                | ("admissionregistration.k8s.io", _)
                | ("apiextensions.k8s.io", _)
                | ("apiregistration.k8s.io", _)
        ) && !self.is_custom()
    }

    /// Whether a delete gives back the object rather than a `Status`.
    pub(crate) fn returns_deleted(&self) -> bool {
        match &*self.group {
            "" => matches!(
                &*self.kind,
                "ResourceQuota"
                    | "PersistentVolume"
                    | "ServiceAccount"
                    | "PersistentVolumeClaim"
                    | "Namespace"
                    | "Pod"
                    | "Service"
                    | "PodTemplate"
            ),
            "storage.k8s.io" => &*self.kind != "CSIStorageCapacity",
            "resource.k8s.io" => true,
            _ => false,
        }
    }

    /// What happens to dependents when a delete does not say.
    pub(crate) fn default_propagation(&self) -> Option<Propagation> {
        match (&*self.group, &*self.kind) {
            ("batch", "Job") | ("", "ReplicationController") => Some(Propagation::Orphan),
            _ => None,
        }
    }

    /// Whether objects of the kind can have dependents.
    pub(crate) fn is_garbage_collected(&self) -> bool {
        !matches!((&*self.group, &*self.kind), ("" | "events.k8s.io", "Event"))
    }

    /// The grace of a deleted pod; `None` for kinds that have none.
    pub(crate) fn grace_period(&self, object: &Value, wanted: Option<i64>) -> Option<i64> {
        if &*self.kind != "Pod" || !self.group.is_empty() {
            return None;
        }
        let own = access::get_i64(object, &["spec", "terminationGracePeriodSeconds"]).unwrap_or(0);
        let done = matches!(access::get_str(object, &["status", "phase"]), "Failed" | "Succeeded");
        if access::get_str(object, &["spec", "nodeName"]).is_empty() || done {
            return Some(0);
        }
        let grace = wanted.unwrap_or(own);
        Some(if grace < 0 { 1 } else { grace })
    }

    /// Whether a deleted object has something to clean up first although no finalizer says so.
    pub(crate) fn waits_for_content(&self, object: &Value) -> bool {
        match (&*self.group, &*self.kind) {
            ("", "Namespace") => !access::items(object, &["spec", "finalizers"]).is_empty(),
            ("apiextensions.k8s.io", _) => !access::has(object, &["metadata", "deletionTimestamp"]),
            _ => false,
        }
    }

    /// Shows in the status of a deleted object that it is on its way out.
    pub(crate) fn mark_terminating(&self, object: &mut Value, now: &str) {
        match (&*self.group, &*self.kind) {
            ("", "Namespace") => access::set(object, &["status", "phase"], "Terminating"),
            ("apiextensions.k8s.io", "CustomResourceDefinition") => crd::begin_deletion(object, now),
            _ => {}
        }
    }

    /// Whether objects are only ever created and never stored, such as reviews.
    pub(crate) fn is_virtual(&self) -> bool {
        !self.has_verb("list") && !self.has_verb("get")
    }

    /// The warning every request to a deprecated resource gets.
    pub(crate) fn deprecation(&self) -> Option<String> {
        match (&self.origin, &*self.group, &*self.kind) {
            (Origin::Custom(custom), ..) => custom.deprecation(&self.version),
            (_, "", "ComponentStatus") => Some("v1 ComponentStatus is deprecated in v1.19+".to_owned()),
            (_, "", "Endpoints") => {
                Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned())
            }
            _ => None,
        }
    }

    /// The field names that lead to the number of replicas, for each apiVersion; none where there is no `/scale`.
    pub(crate) fn replicas_paths(&self) -> Vec<(String, Option<Vec<String>>)> {
        match &self.origin {
            Origin::BuiltIn(_) => {
                vec![(self.api_version(), Some(vec!["spec".to_owned(), "replicas".to_owned()]))]
            }
            Origin::Custom(custom) => custom.replicas_paths(),
        }
    }

    /// Refuses a field selector on a field that is not indexed.
    pub(crate) fn check_field(&self, field: &str) -> Result<(), ApiError> {
        match &self.origin {
            Origin::BuiltIn(_) => fields::check(&self.group, &self.version, &self.kind, field),
            Origin::Custom(custom) => custom.check_field(&self.version, self.namespaced, field),
        }
    }

    /// What a write to the object or to one of its parts can't change and so can't own.
    pub(crate) fn reset_fields(&self, subresource: &str) -> ResetFields {
        let has_status = self.subresource("status").is_some();
        match (subresource, &*self.kind) {
            ("", _) if has_status => ResetFields::Except(FieldSet::of(&[&["status"]])),
            ("status", _) if self.is_custom() => {
                ResetFields::Except(FieldSet::of(&[&["apiVersion"], &["kind"], &["metadata"], &["spec"]]))
            }
            ("status", "Deployment") => {
                ResetFields::Except(FieldSet::of(&[&["spec"], &["metadata", "labels"]]))
            }
            ("status", "Pod") => ResetFields::Except(FieldSet::of(&[
                &["spec"],
                &["metadata", "deletionTimestamp"],
                &["metadata", "ownerReferences"],
            ])),
            ("status", _) => ResetFields::Except(FieldSet::of(&[&["spec"]])),
            ("resize", _) => ResetFields::Only(
                ["containers", "initContainers"]
                    .iter()
                    .flat_map(|list| ["resources", "resizePolicy"].map(|field| (*list, field)))
                    .map(|(list, field)| {
                        vec![Match::Field("spec"), Match::Field(list), Match::Any, Match::Field(field)]
                    })
                    .collect(),
            ),
            ("ephemeralcontainers", _) => {
                ResetFields::Only(vec![vec![Match::Field("spec"), Match::Field("ephemeralContainers")]])
            }
            _ => ResetFields::None,
        }
    }
}
