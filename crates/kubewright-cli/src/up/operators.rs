//! The operators that come along, and what they are shown with.

use std::env;

use kubewright::Operator;

/// An operator with a resource to look after.
pub(super) struct Sample {
    /// What people call it.
    pub(super) name: &'static str,
    pub(super) operator: fn() -> Operator,
    /// As YAML.
    pub(super) resource: &'static str,
}

/// In the order in which they are shown.
pub(super) const OPERATORS: &[Sample] = &[
    Sample { name: "myapp", operator: myapp_operator::operator, resource: myapp_operator::SAMPLE },
    Sample { name: "myweb", operator: myweb_operator::operator, resource: myweb_operator::SAMPLE },
    Sample {
        name: "myresource",
        operator: myresource_operator::operator,
        resource: myresource_operator::SAMPLE,
    },
    Sample { name: "project", operator: project_operator::operator, resource: project_operator::SAMPLE },
    Sample { name: "foobar", operator: foobar, resource: foobar_operator::SAMPLE },
    Sample {
        name: "memcached",
        operator: memcached_operator::operator,
        resource: memcached_operator::SAMPLE,
    },
];

/// Without a system that the environment names, one in memory is as good.
fn foobar() -> Operator {
    match env::var_os(foobar_operator::ADDRESS) {
        Some(_) => foobar_operator::operator(),
        None => foobar_operator::operator_with(foobar_operator::Recorded::default()),
    }
}
