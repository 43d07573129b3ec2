use k8s_openapi::api::core::v1::ConfigMap;
use kubewright::{Context, Result};

async fn reconcile(cx: &Context<ConfigMap>) -> Result<()> {
    cx.delete(&ConfigMap::default()).await
}

fn main() {}
