//! A cluster on a port of this machine, as several commands start it.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    time::Duration,
};

use clap::Args;
use kubewright_apiserver::{ApiServer, Listening, write_private};
use kubewright_cluster::Services;
use tokio::time::Instant;

/// Where a local cluster is, and where it keeps things.
#[derive(Args)]
pub(crate) struct Place {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0", env = "KUBEWRIGHT_LISTEN")]
    listen: SocketAddr,

    /// Keep everything in this directory; in memory without it
    #[arg(long, value_name = "DIR", env = "KUBEWRIGHT_DATA_DIR")]
    data_dir: Option<PathBuf>,

    /// Bearer token of the administrator; a random one without it
    #[arg(long, value_name = "TOKEN", env = "KUBEWRIGHT_TOKEN", hide_env_values = true)]
    token: Option<String>,

    /// Where to write the kubeconfig
    #[arg(long, value_name = "FILE", default_value = "kubewright.kubeconfig", env = "KUBEWRIGHT_KUBECONFIG")]
    pub(crate) kubeconfig: PathBuf,
}

/// A running cluster.
pub(crate) struct Local {
    pub(crate) server: ApiServer,
    /// Who answers for Services: operators on this machine do for those of their webhooks.
    pub(crate) services: Services,
    /// Where an operator in a process of its own serves its webhooks.
    pub(crate) webhooks: SocketAddr,
    /// How long it took until it could be used.
    pub(crate) ready: Duration,
    listening: Listening,
    /// Nothing if the API server runs alone.
    controllers: Option<kubewright_cluster::Cluster>,
}

impl Place {
    /// Starts a cluster with some nodes, or the API server alone, and writes the kubeconfig.
    pub(crate) async fn start(&self, nodes: Option<usize>) -> Result<Local, String> {
        let started = Instant::now();
        let services = Services::default();
        let mut builder = ApiServer::builder().service_resolver(services.clone());
        if let Some(dir) = &self.data_dir {
            builder = builder.data_dir(dir);
        }
        if let Some(token) = &self.token {
            builder = builder.token(token);
        }
        let server = builder.start().await.map_err(|why| why.to_string())?;
        let controllers = match nodes {
            None => None,
            Some(nodes) => {
                let cluster = kubewright_cluster::Cluster::builder().nodes(nodes).services(services.clone());
                Some(cluster.start_on(server.clone()).await.map_err(|why| why.to_string())?)
            }
        };
        let listening = server.listen(self.listen).await.map_err(|why| match why.kind() {
            io::ErrorKind::AddrInUse => {
                format!("{} is in use: choose another port with --listen, or 0 for a free one", self.listen)
            }
            _ => format!("can't listen on {}: {why}", self.listen),
        })?;
        // Free again at once, and given to nobody else for a while.
        let webhooks = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let webhooks = webhooks.map_err(|why| format!("there is no free port: {why}"))?;
        write_private(&self.kubeconfig, &listening.kubeconfig())
            .map_err(|why| format!("can't write the kubeconfig {}: {why}", self.kubeconfig.display()))?;
        Ok(Local { server, services, webhooks, ready: started.elapsed(), listening, controllers })
    }
}

impl Local {
    /// Where it can be reached.
    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.listening.address())
    }

    /// How the administrator reaches it.
    pub(crate) fn kubeconfig(&self) -> String {
        self.listening.kubeconfig()
    }

    /// Waits until the controllers have ended by themselves, and says why; never if there are none.
    pub(crate) async fn ended(&mut self) -> String {
        let Some(controllers) = &mut self.controllers else { return std::future::pending().await };
        let why = controllers.ended().await.err().map_or_else(String::new, |why| why.to_string());
        format!("the controllers have ended: {why}")
    }

    pub(crate) async fn stop(self) {
        if let Some(controllers) = self.controllers {
            // What they do comes to its end while the server still answers.
            let _ = controllers.stop().await;
        }
        self.listening.stop().await;
    }
}
