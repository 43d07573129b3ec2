//! A small operator: for every `Page` a ConfigMap that has its text.
//!
//! ```text
//! cargo run --example page -- --help
//! cargo run --example page -- manifests --only crds | kubectl apply -f -
//! cargo run --example page
//! ```

use std::process::ExitCode;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{CustomResource, ResourceExt as _, api::ObjectMeta};
use kubewright::{Context, Controller, Next, Operator, Reconciler, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A page to be published.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "example.kubewright.dev", version = "v1", kind = "Page", namespaced)]
struct PageSpec {
    /// What it says.
    text: String,
}

struct Publish;

impl Reconciler<Page> for Publish {
    async fn reconcile(&self, page: &Page, cx: &Context<Page>) -> Result<Next> {
        cx.apply(ConfigMap {
            metadata: ObjectMeta { name: Some(page.name_any()), ..ObjectMeta::default() },
            data: Some([("index.html".to_owned(), page.spec.text.clone())].into()),
            ..ConfigMap::default()
        })
        .await?;
        Ok(Next::on_change())
    }
}

fn operator() -> Operator {
    Operator::new("page-operator")
        .version(env!("CARGO_PKG_VERSION"))
        .controller(Controller::of::<Page>().owns::<ConfigMap>().run(Publish))
}

fn main() -> ExitCode {
    kubewright::main(operator())
}
