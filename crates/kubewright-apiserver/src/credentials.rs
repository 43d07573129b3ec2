//! The server's own keys: the authority, the administrator's token, the key that signs service-account tokens.
//! Made at start, or kept in the data directory so that kubeconfigs stay good.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
    sync::Arc,
};

use jiff::Timestamp;

use crate::{
    api::StartError,
    auth::{
        Authenticator, CredentialError, ServiceAccountTokens, UserInfo,
        certificates::{CertificateAuthority, KeyedCertificate},
        token::DEFAULT_ISSUER,
        user::MASTERS,
    },
};

/// The name of the administrator.
pub(crate) const ADMIN: &str = "kubernetes-admin";

/// Everything by which the server proves itself and knows others.
pub(crate) struct Credentials {
    pub(crate) authority: CertificateAuthority,
    pub(crate) token: String,
    pub(crate) authenticator: Arc<Authenticator>,
}

impl Credentials {
    /// Reads what `dir` keeps and makes the rest.
    pub(crate) fn open(
        dir: Option<&Path>,
        token: Option<String>,
        now: Timestamp,
    ) -> Result<Self, StartError> {
        let keep = Keep(dir);
        let authority = match keep.read_pair("ca")? {
            Some(pair) => CertificateAuthority::from_pem(&pair).map_err(|source| keep.bad("ca", source))?,
            None => {
                let made = CertificateAuthority::generate(now).map_err(|source| keep.bad("ca", source))?;
                keep.write_pair("ca", &made.to_pem())?;
                made
            }
        };
        let tokens = match keep.read("service-account.key")? {
            Some(pem) => ServiceAccountTokens::from_pem(DEFAULT_ISSUER, &pem),
            None => ServiceAccountTokens::generate(DEFAULT_ISSUER),
        }
        .map_err(|source| keep.bad("service-account.key", source))?;
        keep.write("service-account.key", &tokens.to_pem())?;
        let token = match (token, keep.read("token")?) {
            (Some(given), _) => given,
            (None, Some(kept)) => kept.trim().to_owned(),
            (None, None) => random_token().map_err(|source| keep.bad("token", source))?,
        };
        keep.write("token", &token)?;
        let authenticator = Authenticator::new(tokens).with_token(&token, UserInfo::new(ADMIN, [MASTERS]));
        Ok(Self { authority, token, authenticator: Arc::new(authenticator) })
    }

    /// A certificate for the administrator.
    pub(crate) fn admin(&self, now: Timestamp) -> Result<KeyedCertificate, CredentialError> {
        self.authority.client(ADMIN, &[MASTERS.to_owned()], now)
    }
}

fn random_token() -> Result<String, CredentialError> {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    use ring::rand::SecureRandom as _;
    let mut bytes = [0; 24];
    ring::rand::SystemRandom::new().fill(&mut bytes).map_err(|_| CredentialError::Random)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// The place where credentials are kept; nowhere for a server in memory.
struct Keep<'a>(Option<&'a Path>);

impl Keep<'_> {
    fn bad(&self, name: &str, source: CredentialError) -> StartError {
        StartError::Credentials { path: self.0.unwrap_or(Path::new("memory")).join("pki").join(name), source }
    }

    fn read(&self, name: &str) -> Result<Option<String>, StartError> {
        let Some(dir) = self.0 else { return Ok(None) };
        let path = dir.join("pki").join(name);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(StartError::File { path, source }),
        }
    }

    fn write(&self, name: &str, text: &str) -> Result<(), StartError> {
        let Some(dir) = self.0 else { return Ok(()) };
        if self.read(name)?.as_deref() == Some(text) {
            return Ok(());
        }
        let path = dir.join("pki").join(name);
        fs::create_dir_all(dir.join("pki"))
            .and_then(|()| replace_private(&path, text, fs::File::sync_all))
            .map_err(|source| StartError::File { path, source })
    }

    fn read_pair(&self, name: &str) -> Result<Option<KeyedCertificate>, StartError> {
        let (certificate, key) = (self.read(&format!("{name}.crt"))?, self.read(&format!("{name}.key"))?);
        Ok(certificate.zip(key).map(|(certificate, key)| KeyedCertificate { certificate, key }))
    }

    fn write_pair(&self, name: &str, pair: &KeyedCertificate) -> Result<(), StartError> {
        self.write(&format!("{name}.key"), &pair.key)?;
        self.write(&format!("{name}.crt"), &pair.certificate)
    }
}

/// Writes a file that only its owner can read. Readers see it whole or not at all; whether it survives a
/// crash of the machine is left to the file system.
pub fn write_private(path: &Path, text: &str) -> io::Result<()> {
    replace_private(path, text, |_| Ok(()))
}

/// Writes a file beside its place, has it settled, and moves it there.
fn replace_private(
    path: &Path,
    text: &str,
    settle: impl FnOnce(&fs::File) -> io::Result<()>,
) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let beside = path.with_extension("tmp");
    let mut file = options.open(&beside)?;
    file.write_all(text.as_bytes())?;
    settle(&file)?;
    fs::rename(&beside, path)
}
