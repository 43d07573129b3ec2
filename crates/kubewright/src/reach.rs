//! How the API server gets to the webhooks of an operator.

use http::{Uri, uri::Scheme};
use serde_json::{Value, json};

use crate::{
    error::{Error, Result},
    webhook::service_name,
};

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

    /// At an address, if the API server takes such a one.
    pub fn at(url: &str) -> Result<Self> {
        let refuse = |why: &str| Err(Error::new(format!("{why}: write it as https://HOST:PORT")));
        let Ok(uri) = url.parse::<Uri>() else { return refuse("this is no address") };
        let Some(authority) = uri.authority() else { return refuse("this is no address") };
        let is_whole = authority.as_str() == authority.host() || authority.port().is_some();
        match () {
            () if uri.scheme() != Some(&Scheme::HTTPS) => refuse("webhooks are called over https only"),
            () if authority.as_str().contains('@') => refuse("the API server can't log in"),
            () if authority.host().is_empty() || !is_whole => refuse("this is no host, or no port"),
            () if url.contains(['?', '#']) => refuse("what is behind ? or # is not for webhooks"),
            () => Ok(Self::Url(url.to_owned())),
        }
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

/// The host in an address, as certificates have it.
pub(crate) fn host_of(url: &str) -> String {
    let uri = url.parse::<Uri>().unwrap_or_default();
    uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_api_server_takes_is_an_address_of_webhooks() {
        for (url, host) in [
            ("https://192.0.2.1:9443", "192.0.2.1"),
            ("https://here.example.com", "here.example.com"),
            ("https://[2001:db8::1]:9443/behind/", "2001:db8::1"),
        ] {
            assert_eq!(Reach::at(url).unwrap(), Reach::Url(url.to_owned()));
            assert_eq!(host_of(url), host);
        }
        for (url, why) in [
            ("http://192.0.2.1:9443", "webhooks are called over https only: write it as https://HOST:PORT"),
            ("192.0.2.1:9443", "webhooks are called over https only"),
            ("here", "webhooks are called over https only"),
            ("", "this is no address"),
            ("https://", "this is no address"),
            ("/mutate", "this is no address"),
            ("https://:9443", "this is no host, or no port"),
            ("https://here:", "this is no host, or no port"),
            ("https://here:99999", "this is no host, or no port"),
            ("https://me@here:9443", "the API server can't log in"),
            ("https://here:9443?a=b", "what is behind ? or # is not for webhooks"),
            ("https://here:9443/#a", "what is behind ? or # is not for webhooks"),
        ] {
            let refused = Reach::at(url).unwrap_err().to_string();
            assert!(refused.starts_with(why), "{url}: {refused}");
        }
    }

    #[test]
    fn an_address_and_a_path_make_one_url() {
        for url in ["https://192.0.2.1:9443", "https://192.0.2.1:9443/"] {
            let config = Reach::Url(url.to_owned()).client_config("/convert");
            assert_eq!(config, json!({"url": "https://192.0.2.1:9443/convert"}));
        }
    }
}
