//! The private keys of a cluster, ECDSA on the curve P-256: of the certificate authority and of tokens.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair as _};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;

use super::der::{nested, tag, value};

/// Why keys or certificates can't be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// No such section in the text.
    #[error("expected PEM with a section \"{0}\", found none")]
    NoPem(&'static str),
    /// A private key of another kind.
    #[error("expected an ECDSA P-256 private key in PKCS#8 that holds its public key, found another: {0}")]
    Key(String),
    /// A certificate that can't be understood.
    #[error("expected an X.509 certificate, found bytes that are none")]
    Certificate,
    /// The authority's certificate is for another key.
    #[error(
        "certificate and private key of the certificate authority do not belong together; remove both to have new ones made"
    )]
    Mismatch,
    /// A user or host name that has no place in a certificate.
    #[error("expected a host name or an IP address, found {0:?}")]
    Host(String),
    /// The operating system's randomness failed.
    #[error("the operating system gave no random bytes")]
    Random,
    /// TLS does not take the configuration.
    #[error("TLS refuses the certificates: {0}")]
    Tls(String),
}

/// A private key, kept with its encoded form.
pub(super) struct Key {
    pair: EcdsaKeyPair,
    pkcs8: Vec<u8>,
    random: SystemRandom,
}

/// Without the key itself: it must not end up in a log.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("public", &self.pair.public_key()).finish_non_exhaustive()
    }
}

impl Key {
    pub(super) fn generate(algorithm: &'static EcdsaSigningAlgorithm) -> Result<Self, CredentialError> {
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &SystemRandom::new())
            .map_err(|_| CredentialError::Random)?;
        Self::from_pkcs8(algorithm, pkcs8.as_ref())
    }

    pub(super) fn from_pem(
        algorithm: &'static EcdsaSigningAlgorithm,
        pem: &str,
    ) -> Result<Self, CredentialError> {
        let key = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| CredentialError::NoPem("PRIVATE KEY"))?;
        Self::from_pkcs8(algorithm, key.secret_pkcs8_der())
    }

    fn from_pkcs8(algorithm: &'static EcdsaSigningAlgorithm, pkcs8: &[u8]) -> Result<Self, CredentialError> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8, &random)
            .map_err(|why| CredentialError::Key(why.to_string()))?;
        Ok(Self { pair, pkcs8: pkcs8.to_vec(), random })
    }

    pub(super) fn to_pem(&self) -> String {
        pem("PRIVATE KEY", &self.pkcs8)
    }

    pub(super) fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }

    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, CredentialError> {
        let signature = self.pair.sign(&self.random, message).map_err(|_| CredentialError::Random)?;
        Ok(signature.as_ref().to_vec())
    }

    pub(super) fn random<const N: usize>(&self) -> Result<[u8; N], CredentialError> {
        let mut bytes = [0; N];
        self.random.fill(&mut bytes).map_err(|_| CredentialError::Random)?;
        Ok(bytes)
    }

    /// The public key as an uncompressed point: 4, then 32 bytes for each coordinate.
    pub(super) fn public_point(&self) -> &[u8] {
        self.pair.public_key().as_ref()
    }

    /// The public key as a SubjectPublicKeyInfo.
    pub(super) fn public_info(&self) -> Vec<u8> {
        const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
        const PRIME256V1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
        let algorithm =
            nested(tag::SEQUENCE, &[&value(tag::OID, EC_PUBLIC_KEY), &value(tag::OID, PRIME256V1)]);
        let point = nested(tag::BIT_STRING, &[&[0], self.public_point()]);
        nested(tag::SEQUENCE, &[&algorithm, &point])
    }
}

pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}

/// `der` as a PEM section.
pub(super) fn pem(label: &str, der: &[u8]) -> String {
    let body = STANDARD.encode(der);
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in body.as_bytes().chunks(64) {
        text.extend(line.iter().map(|byte| char::from(*byte)));
        text.push('\n');
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}
