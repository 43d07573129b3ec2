use k8s_openapi::api::core::v1::ConfigMap;
use kubewright::{Finalized, Finalizing, Result};

async fn finalize(_: Finalizing<ConfigMap>) -> Result<Finalized> {
    Ok(Finalized(None))
}

fn main() {}
