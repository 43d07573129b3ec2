//! The account that pods run as unless they name another: every namespace has one.

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::{ResourceExt as _, core::ObjectMeta};
use kubewright::{Context, Controller, Key, Next, Reconciler, Result, Watch};

use super::in_namespace;

/// Its name.
const NAME: &str = "default";

struct ServiceAccounts;

pub(super) fn controller() -> Controller {
    Controller::of_existing::<Namespace>()
        .named("serviceaccount")
        .watches_with(
            Watch::<ServiceAccount>::new().fields(format!("metadata.name={NAME}")),
            in_namespace,
            [],
        )
        .reports_as("service-account-controller")
        .run(ServiceAccounts)
}

impl Reconciler<Namespace> for ServiceAccounts {
    async fn reconcile(&self, namespace: &Namespace, cx: &Context<Namespace>) -> Result<Next> {
        let key = Key::new(&namespace.name_any(), NAME);
        if cx.lookup().get::<ServiceAccount>(&key)?.is_none() {
            cx.create_free(ServiceAccount {
                metadata: ObjectMeta {
                    name: Some(NAME.to_owned()),
                    namespace: namespace.metadata.name.clone(),
                    ..ObjectMeta::default()
                },
                ..ServiceAccount::default()
            })
            .await?;
        }
        Ok(Next::on_change())
    }
}
