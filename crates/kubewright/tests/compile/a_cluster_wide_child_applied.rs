use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kubewright::{Context, Result};

async fn reconcile(cx: &Context<ConfigMap>) -> Result<()> {
    cx.apply(Namespace::default()).await?;
    Ok(())
}

fn main() {}
