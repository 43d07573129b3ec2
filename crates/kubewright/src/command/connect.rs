//! The way to a cluster, as every command line takes it.

use std::{path::Path, time::Duration};

use http::Uri;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use tokio::time::timeout;

use crate::error::{Error, Result};

/// How long the cluster may take to answer the first request.
const PATIENCE: Duration = Duration::from_secs(10);

const HINT: &str = "start one on this machine with `kubewright cluster --kubeconfig dev.yaml`, and pass \
                    --kubeconfig dev.yaml";

/// A client of the cluster, which has answered, and where that is. Without a kubeconfig it is found as kubectl finds it,
/// or by the service account of the pod this runs in; without a context it is the current one. What this fails with is
/// for people, and tells what was tried.
pub async fn connect(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<(Client, Uri)> {
    let options = KubeConfigOptions { context: context.map(ToOwned::to_owned), ..Default::default() };
    let (config, from) = match kubeconfig {
        Some(path) => (read(path, &options).await?, format!("from {}", path.display())),
        None => (infer(&options).await?, "from the kubeconfig or the pod it runs in".to_owned()),
    };
    let url = config.cluster_url.clone();
    let client = Client::try_from(config)?;
    let trouble = match timeout(PATIENCE, client.apiserver_version()).await {
        Ok(Ok(_)) => return Ok((client, url)),
        Ok(Err(why)) => innermost(&why),
        Err(_) => format!("no answer within {PATIENCE:?}"),
    };
    Err(Error::new(format!("the cluster can't be reached: tried {url} ({from}): {trouble}; {HINT}")))
}

async fn read(path: &Path, options: &KubeConfigOptions) -> Result<Config> {
    let refuse = |why: String| Error::new(format!("{} is no kubeconfig: {why}", path.display()));
    let kubeconfig = Kubeconfig::read_from(path).map_err(|why| refuse(reason(&why)))?;
    Config::from_custom_kubeconfig(kubeconfig, options).await.map_err(|why| refuse(reason(&why)))
}

async fn infer(options: &KubeConfigOptions) -> Result<Config> {
    match Kubeconfig::read() {
        // There is one, so what is wrong with it counts.
        Ok(kubeconfig) => Config::from_custom_kubeconfig(kubeconfig, options)
            .await
            .map_err(|why| Error::new(format!("the kubeconfig can't be used: {}", reason(&why)))),
        Err(why) => Config::incluster().map_err(|_| {
            let tried = "tried --kubeconfig, the files of KUBECONFIG, ~/.kube/config, and the service account of a pod";
            Error::new(format!("there is no cluster to work with: {tried}: {}; {HINT}", reason(&why)))
        }),
    }
}

/// Why a kubeconfig can't be read. Never what is in it: that may be a secret.
fn reason(why: &KubeconfigError) -> String {
    match why {
        KubeconfigError::ReadConfig(why, path) => format!("{}: {why}", path.display()),
        KubeconfigError::Parse(_) => "it is not the YAML of a kubeconfig".to_owned(),
        KubeconfigError::CurrentContextNotSet => "it has no current context".to_owned(),
        other => other.to_string(),
    }
}

/// The cause at the bottom, which says more than those that pass it on.
fn innermost(why: &kube::Error) -> String {
    if let kube::Error::Api(status) = why {
        return status.message.clone();
    }
    let mut cause: &dyn std::error::Error = why;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
