//! Whichever server the tests run on: the embedded one, or, where `KUBEWRIGHT_SERVER` names it, any other.
//!
//! On the embedded server time is paused, and waiting takes none. Any other is shared with the other tests, and time
//! is real there.

use std::env;

use k8s_openapi::api::{authentication::v1::TokenRequest, core::v1::ServiceAccount};
use kube::{
    Api, Client, Config,
    api::{Patch, PatchParams},
};
use kubewright_apiserver::ApiServer;
use serde_json::json;

fn url() -> Option<String> {
    env::var("KUBEWRIGHT_SERVER").ok()
}

pub fn is_embedded() -> bool {
    url().is_none()
}

/// Whether a test is left out because the server is not the embedded one. The comparison of the servers reads why.
pub fn is_left_out(why: &str) -> bool {
    if !is_embedded() {
        println!("only on the embedded server: {why}");
    }
    !is_embedded()
}

pub struct Server {
    /// The client of an administrator.
    pub client: Client,
    embedded: Option<ApiServer>,
}

impl Server {
    pub async fn start() -> Self {
        if !is_embedded() {
            let token = env::var("KUBEWRIGHT_TOKEN").unwrap_or_default();
            return Self { client: connect(token), embedded: None };
        }
        let server = ApiServer::start().await.unwrap();
        Self { client: server.client(), embedded: Some(server) }
    }

    pub async fn client_of_service_account(&self, namespace: &str, name: &str) -> Client {
        if let Some(server) = &self.embedded {
            return server.client_of_service_account(namespace, name);
        }
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
        accounts.patch(name, &PatchParams::apply("test"), &Patch::Apply(account)).await.unwrap();
        let request = TokenRequest::default();
        let granted = accounts.create_token_request(name, &Default::default(), &request).await.unwrap();
        connect(granted.status.unwrap().token.unwrap())
    }

    /// Forgets all states but the newest, and says whether that was possible.
    pub fn compact(&self) -> bool {
        self.embedded.as_ref().map(ApiServer::compact).is_some()
    }
}

/// A client of the server that is named, whose certificate is taken as it is.
fn connect(token: String) -> Client {
    let mut config = Config::new(url().unwrap().parse().unwrap());
    config.accept_invalid_certs = true;
    config.auth_info.token = Some(token.into());
    Client::try_from(config).unwrap()
}
