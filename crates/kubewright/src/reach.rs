//! How the API server gets to the webhooks of an operator.

use serde_json::{Value, json};

use crate::webhook::service_name;

/// Where the API server finds the webhooks of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// Behind a Service of the cluster, at port 443.
    Service {
        /// The namespace of the Service.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// At an address, as in `https://192.0.2.1:9443`: for an operator outside of the cluster.
    Url(String),
}

impl Reach {
    /// The Service `<operator>-webhook` in a namespace.
    pub fn service_of(operator: &str, namespace: impl Into<String>) -> Self {
        Self::Service { namespace: namespace.into(), name: service_name(operator) }
    }

    /// The `clientConfig` of a webhook at a path, without a `caBundle`: that is filled in by whoever has the certificate.
    pub fn client_config(&self, path: &str) -> Value {
        match self {
            Self::Service { namespace, name } => {
                json!({"service": {"namespace": namespace, "name": name, "path": path, "port": 443}})
            }
            Self::Url(url) => json!({"url": format!("{}{path}", url.trim_end_matches('/'))}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_and_a_path_make_one_url() {
        for url in ["https://192.0.2.1:9443", "https://192.0.2.1:9443/"] {
            let config = Reach::Url(url.to_owned()).client_config("/convert");
            assert_eq!(config, json!({"url": "https://192.0.2.1:9443/convert"}));
        }
    }
}
