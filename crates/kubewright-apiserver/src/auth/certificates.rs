//! The cluster's certificate authority, the certificates it gives out, and whom a client's certificate names.
//!
//! Times are real times, not the cluster's clock: clients check them against theirs. As on a real server the
//! handshake takes any client certificate whose key the client holds; whether it was given out by the authority
//! is asked afterwards, so that a stranger's certificate is a 401 and a valid token beside it still counts.

#[cfg(test)]
mod tests;

use std::fmt::{self, Write as _};
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ring::signature::ECDSA_P256_SHA256_ASN1_SIGNING as ALGORITHM;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring as ring_provider};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme};

use super::der::{Reader, nested, tag, value};
use super::key::{CredentialError, Key, pem, sha256};
use super::user::{CREDENTIAL_ID, UserInfo};

/// Names a serving certificate is always good for.
const HOSTS: [&str; 8] = [
    "127.0.0.1",
    "::1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "10.96.0.1",
];

const DAY: i64 = 24 * 60 * 60;
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
/// 1.3.6.1.4.1.57683.2, Kubernetes' own attribute for the uid of a user.
const USER_UID: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x83, 0xc2, 0x53, 0x02];
const KEY_IDENTIFIER: &[u8] = &[0x55, 0x1d, 0x0e];

/// A certificate and its private key, each as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyedCertificate {
    /// The certificate.
    pub certificate: String,
    /// The private key, PKCS#8.
    pub key: String,
}

/// Without the key: it must not end up in a log.
impl fmt::Debug for KeyedCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedCertificate").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// Whom a connection's client certificate speaks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// There is no certificate, or it names nobody.
    Nobody,
    /// A user named by a certificate of the authority.
    Known(Arc<UserInfo>),
    /// A certificate that does not hold: not the authority's, expired, or for another use.
    Rejected,
}

/// The authority: whoever trusts its certificate trusts what it signs.
#[derive(Debug)]
pub struct CertificateAuthority {
    key: Key,
    certificate: CertificateDer<'static>,
    /// The authority's name as it stands in its certificate, copied byte for byte into what it signs.
    subject: Vec<u8>,
    key_identifier: Option<Vec<u8>>,
    provider: Arc<CryptoProvider>,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl CertificateAuthority {
    /// A new authority, good for ten years.
    pub fn generate(now: Timestamp) -> Result<Self, CredentialError> {
        let key = Key::generate(&ALGORITHM)?;
        let name = name(&[(COMMON_NAME, "kubernetes")]);
        let identifier = &sha256(key.public_point())[..20];
        let extensions = [
            critical(&[0x55, 0x1d, 0x13], &nested(tag::SEQUENCE, &[&value(tag::BOOLEAN, &[0xff])])),
            // digitalSignature and keyCertSign
            critical(&[0x55, 0x1d, 0x0f], &value(tag::BIT_STRING, &[2, 0b1000_0100])),
            extension(KEY_IDENTIFIER, &value(tag::OCTET_STRING, identifier)),
        ];
        let der = certificate(&key, &name, &key, &name, &extensions, (now, 3650 * DAY))?;
        Self::new(key, der.into())
    }

    /// The authority that was kept.
    pub fn from_pem(kept: &KeyedCertificate) -> Result<Self, CredentialError> {
        let certificate = CertificateDer::from_pem_slice(kept.certificate.as_bytes())
            .map_err(|_| CredentialError::NoPem("CERTIFICATE"))?;
        Self::new(Key::from_pem(&ALGORITHM, &kept.key)?, certificate)
    }

    fn new(key: Key, certificate: CertificateDer<'static>) -> Result<Self, CredentialError> {
        let parsed = Parsed::new(&certificate).ok_or(CredentialError::Certificate)?;
        if parsed.public_info != key.public_info() {
            return Err(CredentialError::Mismatch);
        }
        let (subject, key_identifier) = (parsed.subject.to_vec(), parsed.key_identifier.map(<[u8]>::to_vec));
        let mut provider = ring_provider::default_provider();
        // As kube-apiserver does: the quickest of the good ones first, whatever the client prefers.
        provider.cipher_suites.sort_by_key(|suite| !format!("{:?}", suite.suite()).contains("AES_128_GCM"));
        let provider = Arc::new(provider);
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).map_err(|why| CredentialError::Tls(why.to_string()))?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .map_err(|why| CredentialError::Tls(why.to_string()))?;
        Ok(Self { key, certificate, subject, key_identifier, provider, verifier })
    }

    /// The authority as it is to be kept: with its private key.
    pub fn to_pem(&self) -> KeyedCertificate {
        KeyedCertificate { certificate: self.certificate_pem(), key: self.key.to_pem() }
    }

    /// The certificate that clients need: `certificate-authority-data`, `ca.crt`.
    pub fn certificate_pem(&self) -> String {
        pem("CERTIFICATE", &self.certificate)
    }

    /// A certificate for the server, good for a year, for the usual names and `hosts`.
    pub fn serving(&self, hosts: &[String], now: Timestamp) -> Result<KeyedCertificate, CredentialError> {
        let mut names = Vec::new();
        for host in HOSTS.iter().copied().chain(hosts.iter().map(String::as_str)) {
            names.extend(alternative_name(host)?);
        }
        let names = extension(&[0x55, 0x1d, 0x11], &value(tag::SEQUENCE, &names));
        self.issue(&name(&[(COMMON_NAME, "kube-apiserver")]), SERVER_AUTH, Some(names), now)
    }

    /// A certificate that makes its bearer the user `name` in `groups`, good for a year.
    pub fn client(
        &self,
        user: &str,
        groups: &[String],
        now: Timestamp,
    ) -> Result<KeyedCertificate, CredentialError> {
        let mut attributes: Vec<(&[u8], &str)> =
            groups.iter().map(|group| (ORGANIZATION, group.as_str())).collect();
        attributes.push((COMMON_NAME, user));
        self.issue(&name(&attributes), CLIENT_AUTH, None, now)
    }

    fn issue(
        &self,
        subject: &[u8],
        usage: u8,
        more: Option<Vec<u8>>,
        now: Timestamp,
    ) -> Result<KeyedCertificate, CredentialError> {
        let key = Key::generate(&ALGORITHM)?;
        let purpose = value(tag::OID, &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, usage]);
        let mut extensions = vec![
            // digitalSignature
            critical(&[0x55, 0x1d, 0x0f], &value(tag::BIT_STRING, &[7, 0b1000_0000])),
            extension(&[0x55, 0x1d, 0x25], &value(tag::SEQUENCE, &purpose)),
            critical(&[0x55, 0x1d, 0x13], &value(tag::SEQUENCE, &[])),
        ];
        if let Some(identifier) = &self.key_identifier {
            extensions
                .push(extension(&[0x55, 0x1d, 0x23], &nested(tag::SEQUENCE, &[&value(0x80, identifier)])));
        }
        extensions.extend(more);
        let der = certificate(&self.key, &self.subject, &key, subject, &extensions, (now, 365 * DAY))?;
        Ok(KeyedCertificate { certificate: pem("CERTIFICATE", &der), key: key.to_pem() })
    }

    /// TLS 1.2 and 1.3 for HTTP/2 and HTTP/1.1, with `serving` as the server's certificate; clients may show one.
    pub fn server_config(&self, serving: &KeyedCertificate) -> Result<ServerConfig, CredentialError> {
        let chain: Vec<CertificateDer<'static>> =
            CertificateDer::pem_slice_iter(serving.certificate.as_bytes())
                .collect::<Result<_, _>>()
                .map_err(|_| CredentialError::NoPem("CERTIFICATE"))?;
        let key = Key::from_pem(&ALGORITHM, &serving.key)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.pkcs8().to_vec()));
        let verifier = AnyClient {
            algorithms: self.provider.signature_verification_algorithms,
            hints: vec![DistinguishedName::from(self.subject.clone())],
        };
        let tls = |why: rustls::Error| CredentialError::Tls(why.to_string());
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()
            .map_err(tls)?
            .with_client_cert_verifier(Arc::new(verifier))
            .with_single_cert(chain, key)
            .map_err(tls)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.ignore_client_order = true;
        Ok(config)
    }

    /// Whom the certificates of a finished handshake speak for: ask once a connection.
    pub fn identify(&self, presented: &[CertificateDer<'_>], now: Timestamp) -> Peer {
        let Some((own, intermediates)) = presented.split_first() else { return Peer::Nobody };
        let seconds = u64::try_from(now.as_second()).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        if self.verifier.verify_client_cert(own, intermediates, now).is_err() {
            return Peer::Rejected;
        }
        let Some(user) = Parsed::new(own).and_then(|parsed| named_user(parsed.subject)) else {
            return Peer::Rejected;
        };
        if user.name.is_empty() {
            return Peer::Nobody;
        }
        let mut identifier = "X509SHA256=".to_owned();
        for byte in sha256(own) {
            let _ = write!(identifier, "{byte:02x}");
        }
        let extra = [(CREDENTIAL_ID.to_owned(), vec![identifier])].into();
        Peer::Known(Arc::new(UserInfo { extra, ..user }.authenticated()))
    }
}

const SERVER_AUTH: u8 = 1;
const CLIENT_AUTH: u8 = 2;

/// A certificate for `key` under the name `subject`, signed by `issuer_key`.
fn certificate(
    issuer_key: &Key,
    issuer: &[u8],
    key: &Key,
    subject: &[u8],
    extensions: &[Vec<u8>],
    (now, seconds): (Timestamp, i64),
) -> Result<Vec<u8>, CredentialError> {
    const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
    let algorithm = nested(tag::SEQUENCE, &[&value(tag::OID, ECDSA_WITH_SHA256)]);
    let mut serial: [u8; 16] = issuer_key.random()?;
    // Positive, and of full length without a leading zero.
    serial[0] = (serial[0] & 0x7f) | 0x40;
    // Clocks of clients may be a little behind.
    let validity = nested(
        tag::SEQUENCE,
        &[&time(now.as_second().saturating_sub(DAY)), &time(now.as_second().saturating_add(seconds))],
    );
    let content = nested(
        tag::SEQUENCE,
        &[
            &nested(tag::EXPLICIT_0, &[&value(tag::INTEGER, &[2])]),
            &value(tag::INTEGER, &serial),
            &algorithm,
            issuer,
            &validity,
            subject,
            &key.public_info(),
            &nested(tag::EXPLICIT_3, &[&value(tag::SEQUENCE, &extensions.concat())]),
        ],
    );
    let signature = issuer_key.sign(&content)?;
    Ok(nested(tag::SEQUENCE, &[&content, &algorithm, &nested(tag::BIT_STRING, &[&[0], &signature])]))
}

fn time(second: i64) -> Vec<u8> {
    let limit = if second < 0 { Timestamp::UNIX_EPOCH } else { Timestamp::MAX };
    let time = TimeZone::UTC.to_datetime(Timestamp::from_second(second).unwrap_or(limit));
    let (date, clock) = (time.date(), time.time());
    let rest = format!(
        "{:02}{:02}{:02}{:02}{:02}Z",
        date.month(),
        date.day(),
        clock.hour(),
        clock.minute(),
        clock.second()
    );
    // X.509 wants two digits for the year until 2049.
    match date.year() {
        year @ 1950..=2049 => value(tag::UTC_TIME, format!("{:02}{rest}", year % 100).as_bytes()),
        year => value(tag::GENERALIZED_TIME, format!("{year:04}{rest}").as_bytes()),
    }
}

fn name(attributes: &[(&[u8], &str)]) -> Vec<u8> {
    let parts: Vec<Vec<u8>> = attributes
        .iter()
        .map(|(kind, text)| {
            let pair = [value(tag::OID, kind), value(tag::UTF8_STRING, text.as_bytes())].concat();
            value(tag::SET, &value(tag::SEQUENCE, &pair))
        })
        .collect();
    value(tag::SEQUENCE, &parts.concat())
}

fn extension(oid: &[u8], content: &[u8]) -> Vec<u8> {
    nested(tag::SEQUENCE, &[&value(tag::OID, oid), &value(tag::OCTET_STRING, content)])
}

fn critical(oid: &[u8], content: &[u8]) -> Vec<u8> {
    let yes = value(tag::BOOLEAN, &[0xff]);
    nested(tag::SEQUENCE, &[&value(tag::OID, oid), &yes, &value(tag::OCTET_STRING, content)])
}

fn alternative_name(host: &str) -> Result<Vec<u8>, CredentialError> {
    match host.parse() {
        Ok(IpAddr::V4(address)) => Ok(value(0x87, &address.octets())),
        Ok(IpAddr::V6(address)) => Ok(value(0x87, &address.octets())),
        Err(_) if host.bytes().all(|byte| byte.is_ascii_graphic()) && !host.is_empty() => {
            Ok(value(0x82, host.as_bytes()))
        }
        Err(_) => Err(CredentialError::Host(host.to_owned())),
    }
}

/// The parts of a certificate that matter here.
struct Parsed<'a> {
    /// The name, with tag and length.
    subject: &'a [u8],
    public_info: &'a [u8],
    key_identifier: Option<&'a [u8]>,
}

impl<'a> Parsed<'a> {
    fn new(certificate: &'a [u8]) -> Option<Self> {
        let mut content = Reader::new(certificate).inside(tag::SEQUENCE)?.inside(tag::SEQUENCE)?;
        content.optional(tag::EXPLICIT_0);
        content.content(tag::INTEGER)?;
        for _ in ["algorithm", "issuer", "validity"] {
            content.content(tag::SEQUENCE)?;
        }
        let (subject, public_info) = (content.whole(tag::SEQUENCE)?, content.whole(tag::SEQUENCE)?);
        let mut key_identifier = None;
        while let Some((kind, extensions)) = content.any() {
            if kind != tag::EXPLICIT_3 {
                continue;
            }
            let mut extensions = Reader::new(extensions).inside(tag::SEQUENCE)?;
            while let Some(mut extension) = extensions.inside(tag::SEQUENCE) {
                let oid = extension.content(tag::OID)?;
                extension.optional(tag::BOOLEAN);
                let mut content = extension.inside(tag::OCTET_STRING)?;
                if oid == KEY_IDENTIFIER {
                    key_identifier = content.content(tag::OCTET_STRING);
                }
            }
        }
        Some(Self { subject, public_info, key_identifier })
    }
}

/// The user that the name in a certificate means: the last common name, all organizations as groups. None if the
/// name can't be read or is ambiguous.
fn named_user(subject: &[u8]) -> Option<UserInfo> {
    let mut user = UserInfo::default();
    let mut sets = Reader::new(subject).inside(tag::SEQUENCE)?;
    while !sets.is_empty() {
        let mut set = sets.inside(tag::SET)?;
        while !set.is_empty() {
            let mut attribute = set.inside(tag::SEQUENCE)?;
            let kind = attribute.content(tag::OID)?;
            if ![COMMON_NAME, ORGANIZATION, USER_UID].contains(&kind) {
                continue;
            }
            let text = match attribute.any()? {
                (tag::UTF8_STRING | tag::PRINTABLE_STRING | tag::IA5_STRING, bytes) => {
                    String::from_utf8(bytes.to_vec()).ok()?
                }
                _ => return None,
            };
            match kind {
                COMMON_NAME => user.name = text,
                ORGANIZATION => user.groups.push(text),
                _ if user.uid.is_empty() && !text.is_empty() => user.uid = text,
                _ => return None,
            }
        }
    }
    Some(user)
}

/// Takes any client certificate in the handshake, if the client proves to hold its key.
#[derive(Debug)]
struct AnyClient {
    algorithms: WebPkiSupportedAlgorithms,
    hints: Vec<DistinguishedName>,
}

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
