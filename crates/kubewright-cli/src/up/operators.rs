//! The operators that come along, and what they are shown with.

use kubewright::Operator;

/// An operator with resources to look after.
pub(super) struct Sample {
    /// What people call it.
    pub(super) name: &'static str,
    pub(super) operator: fn() -> Operator,
    /// As YAML.
    pub(super) resources: &'static str,
}

/// In the order in which they are shown.
pub(super) const OPERATORS: &[Sample] = &[Sample {
    name: "memcached",
    operator: memcached_operator::operator,
    resources: memcached_operator::SAMPLE,
}];
