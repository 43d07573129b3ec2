//! The way from the API server to the webhooks of an operator.

use serde_json::{Value, json};

/// Where the API server finds the webhooks of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// At a Service in the cluster.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// At an address, as in `https://127.0.0.1:9443`.
    Url(String),
}

impl Reach {
    /// The `clientConfig` of what is served under a path. It does not say whom to trust.
    pub(crate) fn client_config(&self, path: &str) -> Value {
        match self {
            Self::Service { namespace, name } => {
                json!({"service": {"namespace": namespace, "name": name, "path": path, "port": 443}})
            }
            Self::Url(url) => json!({"url": format!("{}{path}", url.trim_end_matches('/'))}),
        }
    }
}
