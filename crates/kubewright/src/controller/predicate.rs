//! Which changes count. A predicate that asks for a change of something lets new and deleted objects pass.

use std::sync::Arc;

use kube::{ResourceExt as _, core::SelectorExt as _};

use crate::{cache::Change, kind::Object, selector};

/// Decides whether a change leads to a reconcile.
///
/// ```
/// use k8s_openapi::api::apps::v1::Deployment;
/// use kubewright::Predicate;
///
/// let spec_or_labels = Predicate::<Deployment>::generation_changed().or(Predicate::labels_changed());
/// ```
pub struct Predicate<K>(Passes<K>);

type Passes<K> = Arc<dyn Fn(&Change<K>) -> bool + Send + Sync>;

impl<K> Clone for Predicate<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Object> Predicate<K> {
    /// Whatever a function says.
    pub fn new(passes: impl Fn(&Change<K>) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(passes))
    }

    /// The specification changed: `metadata.generation`.
    pub fn generation_changed() -> Self {
        Self::differs(|old, new| old.meta().generation != new.meta().generation)
    }

    /// The labels changed.
    pub fn labels_changed() -> Self {
        Self::differs(|old, new| old.labels() != new.labels())
    }

    /// The annotations changed.
    pub fn annotations_changed() -> Self {
        Self::differs(|old, new| old.annotations() != new.annotations())
    }

    /// Anything changed: unlike a resync, which tells of what is as it was.
    pub fn revision_changed() -> Self {
        Self::differs(|old, new| old.resource_version() != new.resource_version())
    }

    /// The labels match a selector, before or after the change.
    ///
    /// # Panics
    /// If the text is not a label selector: that is a mistake in the operator, found when it starts.
    pub fn labels(selector: &str) -> Self {
        #[allow(clippy::panic, reason = "documented: a mistake in the operator itself")]
        let selector = selector::parse(selector).unwrap_or_else(|why| panic!("{why}"));
        Self::new(move |change| {
            [&change.old, &change.new].into_iter().flatten().any(|object| selector.matches(object.labels()))
        })
    }

    /// Both must let the change pass.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::new(move |change| self.passes(change) && other.passes(change))
    }

    /// One of them must let the change pass.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::new(move |change| self.passes(change) || other.passes(change))
    }

    /// Lets pass what this one does not.
    #[must_use]
    #[allow(clippy::should_implement_trait, reason = "beside `and` and `or`, which have no operators")]
    pub fn not(self) -> Self {
        Self::new(move |change| !self.passes(change))
    }

    pub(crate) fn passes(&self, change: &Change<K>) -> bool {
        (self.0)(change)
    }

    fn differs(differ: fn(&K, &K) -> bool) -> Self {
        Self::new(move |change| match (&change.old, &change.new) {
            (Some(old), Some(new)) => differ(old, new),
            _ => true,
        })
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn map(generation: i64, label: &str) -> Arc<ConfigMap> {
        let mut map = ConfigMap::default();
        map.metadata.generation = Some(generation);
        map.labels_mut().insert("app".to_owned(), label.to_owned());
        Arc::new(map)
    }

    fn change(old: Option<Arc<ConfigMap>>, new: Option<Arc<ConfigMap>>) -> Change<ConfigMap> {
        Change { old, new, is_initial: false }
    }

    #[test]
    fn only_a_changed_generation_passes_but_creation_and_deletion_always_do() {
        let predicate = Predicate::generation_changed();
        assert!(!predicate.passes(&change(Some(map(1, "a")), Some(map(1, "b")))));
        assert!(predicate.passes(&change(Some(map(1, "a")), Some(map(2, "a")))));
        assert!(predicate.passes(&change(None, Some(map(1, "a")))));
        assert!(predicate.passes(&change(Some(map(1, "a")), None)));
    }

    #[test]
    fn predicates_combine() {
        let relabelled = change(Some(map(1, "a")), Some(map(1, "b")));
        let generation = Predicate::generation_changed;
        assert!(generation().or(Predicate::labels_changed()).passes(&relabelled));
        assert!(!generation().and(Predicate::labels_changed()).passes(&relabelled));
        assert!(generation().not().passes(&relabelled));
    }

    #[test]
    fn an_object_that_no_longer_matches_a_selector_is_told_of_once_more() {
        let predicate = Predicate::labels("app=a");
        assert!(predicate.passes(&change(Some(map(1, "a")), Some(map(1, "b")))));
        assert!(!predicate.passes(&change(Some(map(1, "b")), Some(map(1, "c")))));
    }
}
