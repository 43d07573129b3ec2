//! Ingresses, network policies and the address ranges of services.

mod addresses;
mod ingress;
mod network_policy;
#[cfg(test)]
mod tests;

use super::Strategy;

/// The kinds of the group `networking.k8s.io`.
pub(crate) const STRATEGIES: &[(&str, &str, Strategy)] = &[
    ("v1", "IPAddress", addresses::IP_ADDRESS),
    ("v1", "Ingress", ingress::INGRESS),
    ("v1", "IngressClass", ingress::INGRESS_CLASS),
    ("v1", "NetworkPolicy", network_policy::NETWORK_POLICY),
    ("v1", "ServiceCIDR", addresses::SERVICE_CIDR),
];
