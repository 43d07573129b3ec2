//! The certificate with which something is served: one made at the start, one in files that somebody else renews, such
//! as cert-manager, or one that is handed over when there is one.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use parking_lot::Mutex;
use rustls::{
    ServerConfig,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tokio_rustls::TlsAcceptor;

use crate::{
    error::{Error, Result},
    metrics::Metrics,
};

const CERTIFICATE_FILE: &str = "tls.crt";
const KEY_FILE: &str = "tls.key";

/// With what an operator shows who it is.
#[derive(Clone, PartialEq, Eq)]
pub enum Certificate {
    /// Made and signed by the operator itself when it starts. What is read is hidden from others, but a reader
    /// can't know by it whom it reads from.
    SelfSigned,
    /// `tls.crt` and `tls.key` in this directory. They are read again when they have changed.
    Directory(PathBuf),
    /// These, as PEM.
    Given {
        /// The certificate, and those that lead from it to the one that readers trust.
        certificate: String,
        /// Its key.
        key: String,
    },
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SelfSigned => f.write_str("SelfSigned"),
            Self::Directory(path) => f.debug_tuple("Directory").field(path).finish(),
            Self::Given { certificate, .. } => {
                f.debug_struct("Given").field("certificate", certificate).finish_non_exhaustive()
            }
        }
    }
}

/// How connections are encrypted.
pub(crate) struct Tls {
    /// Nothing if there are no files.
    directory: Option<PathBuf>,
    loaded: Mutex<Loaded>,
    metrics: Metrics,
}

struct Loaded {
    /// Nothing until it was handed over.
    config: Option<Arc<ServerConfig>>,
    stamp: Stamp,
}

/// When the files were written, and how long they are; nothing for one that is not there.
type Stamp = [Option<(SystemTime, u64)>; 2];

impl Tls {
    pub(crate) fn new(certificate: &Certificate, metrics: Metrics) -> Result<Self> {
        let (directory, config, stamp) = match certificate {
            Certificate::SelfSigned => (None, self_signed()?, Stamp::default()),
            Certificate::Directory(path) => {
                let stamp = stamp(path);
                let config = read(path);
                metrics.certificate_read(config.is_ok());
                (Some(path.clone()), config.map_err(Error::terminal)?, stamp)
            }
            Certificate::Given { certificate, key } => {
                let config = config(certificate.as_bytes(), key.as_bytes());
                let config =
                    config.map_err(|why| Error::terminal(format!("the certificate can't be used: {why}")))?;
                (None, config, Stamp::default())
            }
        };
        let loaded = Mutex::new(Loaded { config: Some(config), stamp });
        Ok(Self { directory, loaded, metrics })
    }

    /// Without a certificate: nobody is let in before there is one.
    pub(crate) fn awaiting(metrics: Metrics) -> Self {
        let loaded = Mutex::new(Loaded { config: None, stamp: Stamp::default() });
        Self { directory: None, loaded, metrics }
    }

    pub(crate) fn is_loaded(&self) -> bool {
        self.loaded.lock().config.is_some()
    }

    /// Takes a certificate and its key, as PEM, for connections from now on.
    pub(crate) fn load(&self, certificate: &[u8], key: &[u8]) -> Result<(), String> {
        let config = config(certificate, key);
        self.metrics.certificate_read(config.is_ok());
        self.loaded.lock().config = Some(config?);
        Ok(())
    }

    /// For the next connection: with the files as they are now, or with what was last good in them.
    pub(super) fn acceptor(&self) -> Option<TlsAcceptor> {
        let mut loaded = self.loaded.lock();
        if let Some(directory) = &self.directory {
            let stamp = stamp(directory);
            if stamp != loaded.stamp {
                loaded.stamp = stamp;
                let config = read(directory);
                self.metrics.certificate_read(config.is_ok());
                match config {
                    Ok(config) => loaded.config = Some(config),
                    Err(why) => tracing::warn!("{why}; the certificate before it stays in use"),
                }
            }
        }
        loaded.config.clone().map(TlsAcceptor::from)
    }
}

fn stamp(directory: &Path) -> Stamp {
    [CERTIFICATE_FILE, KEY_FILE].map(|file| {
        let file = std::fs::metadata(directory.join(file)).ok()?;
        Some((file.modified().ok()?, file.len()))
    })
}

fn read(directory: &Path) -> Result<Arc<ServerConfig>, String> {
    let contents = |file: &str| -> Result<Vec<u8>, String> {
        let path = directory.join(file);
        std::fs::read(&path).map_err(|why: io::Error| format!("{} can't be read: {why}", path.display()))
    };
    config(&contents(CERTIFICATE_FILE)?, &contents(KEY_FILE)?)
        .map_err(|why| format!("the certificate in {} can't be used: {why}", directory.display()))
}

fn self_signed() -> Result<Arc<ServerConfig>> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).map_err(Error::terminal)?;
    Ok(config_of(vec![made.cert.into()], key)?)
}

fn config(certificate: &[u8], key: &[u8]) -> Result<Arc<ServerConfig>, String> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<_, _>>()
        .map_err(|_| format!("{CERTIFICATE_FILE} is not PEM"))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| format!("{KEY_FILE} is not PEM"))?;
    config_of(chain, key).map_err(|why| why.to_string())
}

fn config_of(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
