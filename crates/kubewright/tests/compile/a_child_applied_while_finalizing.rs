use k8s_openapi::api::core::v1::ConfigMap;
use kubewright::{Finalized, Finalizing, Result};

async fn finalize(cx: Finalizing<ConfigMap>) -> Result<Finalized> {
    cx.apply(ConfigMap::default()).await?;
    Ok(cx.done())
}

fn main() {}
