//! The certificate with which metrics are served: one made at the start, or one in files that somebody else
//! renews, such as cert-manager.

use std::{
    io,
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

use crate::error::{Error, Result};

const CERTIFICATE_FILE: &str = "tls.crt";
const KEY_FILE: &str = "tls.key";

/// With what an operator shows who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Certificate {
    /// Made and signed by the operator itself when it starts. What is read is hidden from others, but a reader
    /// can't know by it whom it reads from.
    SelfSigned,
    /// `tls.crt` and `tls.key` in this directory. They are read again when they have changed.
    Directory(PathBuf),
}

/// How connections are encrypted.
pub(crate) struct Tls {
    /// Nothing if there are no files.
    directory: Option<PathBuf>,
    loaded: Mutex<Loaded>,
}

struct Loaded {
    config: Arc<ServerConfig>,
    stamp: Stamp,
}

/// When the files were written, and how long they are; nothing for one that is not there.
type Stamp = [Option<(SystemTime, u64)>; 2];

impl Tls {
    pub(crate) fn new(certificate: &Certificate) -> Result<Self> {
        let (directory, config, stamp) = match certificate {
            Certificate::SelfSigned => (None, self_signed()?, Stamp::default()),
            Certificate::Directory(path) => {
                let stamp = stamp(path);
                (Some(path.clone()), read(path).map_err(Error::terminal)?, stamp)
            }
        };
        Ok(Self { directory, loaded: Mutex::new(Loaded { config, stamp }) })
    }

    /// For the next connection: with the files as they are now, or with what was last good in them.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let mut loaded = self.loaded.lock();
        if let Some(directory) = &self.directory {
            let stamp = stamp(directory);
            if stamp != loaded.stamp {
                loaded.stamp = stamp;
                match read(directory) {
                    Ok(config) => loaded.config = config,
                    Err(why) => tracing::warn!("{why}; the certificate before it stays in use"),
                }
            }
        }
        loaded.config.clone().into()
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
    let (chain, key) = (contents(CERTIFICATE_FILE)?, contents(KEY_FILE)?);
    let refuse = |file: &str| format!("{} is not PEM", directory.join(file).display());
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&chain)
        .collect::<Result<_, _>>()
        .map_err(|_| refuse(CERTIFICATE_FILE))?;
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|_| refuse(KEY_FILE))?;
    config(chain, key)
        .map_err(|why| format!("the certificate in {} can't be used: {why}", directory.display()))
}

fn self_signed() -> Result<Arc<ServerConfig>> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).map_err(Error::terminal)?;
    Ok(config(vec![made.cert.into()], key)?)
}

fn config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(Arc::new(config))
}
