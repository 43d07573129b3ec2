use k8s_openapi::api::core::v1::ConfigMap;
use kubewright::{Finalized, Finalizing, Result};

async fn finalize(cx: Finalizing<ConfigMap>) -> Result<Finalized> {
    let done = cx.done();
    cx.children::<ConfigMap>()?;
    Ok(done)
}

fn main() {}
