use std::io::{Read, Write};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConnection};

use super::*;
use crate::auth::user::AUTHENTICATED;

fn now() -> Timestamp {
    "2026-06-01T12:00:00Z".parse().unwrap()
}

fn chain(certificate: &KeyedCertificate) -> Vec<CertificateDer<'static>> {
    vec![CertificateDer::from_pem_slice(certificate.certificate.as_bytes()).unwrap()]
}

#[derive(Debug)]
struct Noon;

impl rustls::time_provider::TimeProvider for Noon {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(std::time::Duration::from_secs(now().as_second() as u64)))
    }
}

/// A handshake in memory; gives the certificates the server saw, and the protocol agreed on.
fn handshake(
    authority: &CertificateAuthority,
    host: &str,
    client: Option<&KeyedCertificate>,
    version: &'static rustls::SupportedProtocolVersion,
) -> Result<(Vec<CertificateDer<'static>>, Vec<u8>), String> {
    let serving = authority.serving(&["extra.example".to_owned(), "192.0.2.7".to_owned()], now()).unwrap();
    let server = authority.server_config(&serving).unwrap();
    let mut roots = RootCertStore::empty();
    let pem = authority.certificate_pem();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_details(Arc::clone(&authority.provider), Arc::new(Noon))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match client {
        None => config.with_no_client_auth(),
        Some(client) => {
            let key = PrivateKeyDer::from_pem_slice(client.key.as_bytes()).unwrap();
            config.with_client_auth_cert(chain(client), key).unwrap()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let name = ServerName::try_from(host.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut server = ServerConnection::new(Arc::new(server)).unwrap();
    client.writer().write_all(b"hello").unwrap();
    for _ in 0..8 {
        let mut wire = Vec::new();
        client.write_tls(&mut wire).unwrap();
        server.read_tls(&mut wire.as_slice()).unwrap();
        server.process_new_packets().map_err(|why| why.to_string())?;
        let mut wire = Vec::new();
        server.write_tls(&mut wire).unwrap();
        client.read_tls(&mut wire.as_slice()).unwrap();
        client.process_new_packets().map_err(|why| why.to_string())?;
    }
    let mut heard = [0; 5];
    server.reader().read_exact(&mut heard).map_err(|why| why.to_string())?;
    let certificates = server.peer_certificates().unwrap_or_default().to_vec();
    Ok((certificates, server.alpn_protocol().unwrap_or_default().to_vec()))
}

#[test]
fn a_client_certificate_names_user_and_groups() {
    let authority = CertificateAuthority::generate(now()).unwrap();
    let groups: Vec<String> = ["system:masters", "b", "c"].map(str::to_owned).into();
    let client = authority.client("jürgen", &groups, now()).unwrap();
    let Peer::Known(user) = authority.identify(&chain(&client), now()) else { panic!("must be known") };
    assert_eq!(user.name, "jürgen");
    assert_eq!(user.groups, ["system:masters", "b", "c", AUTHENTICATED]);
    assert!(user.extra[CREDENTIAL_ID][0].starts_with("X509SHA256="));
    assert_eq!(user.extra[CREDENTIAL_ID][0].len(), 11 + 64);
}

#[test]
fn only_valid_client_certificates_of_the_authority_count() {
    let authority = CertificateAuthority::generate(now()).unwrap();
    let other = CertificateAuthority::generate(now()).unwrap();
    let client = chain(&authority.client("bob", &[], now()).unwrap());
    let year: jiff::SignedDuration = jiff::SignedDuration::from_hours(366 * 24);
    for (what, presented, at, expected) in [
        ("nothing", vec![], now(), Peer::Nobody),
        ("nameless", chain(&authority.client("", &[], now()).unwrap()), now(), Peer::Nobody),
        ("foreign", chain(&other.client("bob", &[], now()).unwrap()), now(), Peer::Rejected),
        ("a server's", chain(&authority.serving(&[], now()).unwrap()), now(), Peer::Rejected),
        ("expired", client.clone(), now() + year, Peer::Rejected),
        ("future", client, now() - year, Peer::Rejected),
        ("garbage", vec![CertificateDer::from(vec![0x30, 0x03, 1, 2, 3])], now(), Peer::Rejected),
    ] {
        assert_eq!(authority.identify(&presented, at), expected, "{what}");
    }
}

#[test]
fn a_kept_authority_goes_on_signing() {
    let authority = CertificateAuthority::generate(now()).unwrap();
    let kept = authority.to_pem();
    let again = CertificateAuthority::from_pem(&kept).unwrap();
    assert_eq!(again.to_pem(), kept);
    let client = again.client("bob", &[], now()).unwrap();
    assert!(matches!(authority.identify(&chain(&client), now()), Peer::Known(_)));
    let foreign =
        KeyedCertificate { key: CertificateAuthority::generate(now()).unwrap().to_pem().key, ..kept };
    assert!(matches!(CertificateAuthority::from_pem(&foreign), Err(CredentialError::Mismatch)));
    let empty = KeyedCertificate { certificate: String::new(), key: String::new() };
    assert!(matches!(CertificateAuthority::from_pem(&empty), Err(CredentialError::NoPem("CERTIFICATE"))));
}

#[test]
fn tls_serves_every_name_and_takes_certificates_it_will_reject_later() {
    let authority = CertificateAuthority::generate(now()).unwrap();
    let stranger = CertificateAuthority::generate(now()).unwrap();
    let known = authority.client("bob", &[], now()).unwrap();
    let foreign = stranger.client("eve", &[], now()).unwrap();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        for host in [
            "127.0.0.1",
            "::1",
            "localhost",
            "kubernetes.default.svc",
            "10.96.0.1",
            "extra.example",
            "192.0.2.7",
        ] {
            let (certificates, protocol) = handshake(&authority, host, None, version).unwrap();
            assert!(certificates.is_empty());
            assert_eq!(protocol, b"h2");
        }
        assert!(handshake(&authority, "example.org", None, version).is_err());
        let (seen, _) = handshake(&authority, "localhost", Some(&known), version).unwrap();
        assert!(matches!(authority.identify(&seen, now()), Peer::Known(_)));
        // The client offers nothing if the hints of the server do not name its authority; both are called
        // `kubernetes` here, so it does.
        let (seen, _) = handshake(&authority, "localhost", Some(&foreign), version).unwrap();
        assert_eq!(authority.identify(&seen, now()), Peer::Rejected);
    }
}

#[test]
fn times_beyond_2049_have_four_digits() {
    for (at, expected) in [
        ("2049-12-31T23:59:59Z", [&[tag::UTC_TIME, 13][..], b"491231235959Z"].concat()),
        ("2050-01-01T00:00:00Z", [&[tag::GENERALIZED_TIME, 15][..], b"20500101000000Z".as_slice()].concat()),
    ] {
        assert_eq!(time(at.parse::<Timestamp>().unwrap().as_second()), expected);
    }
    assert_eq!(time(i64::MAX)[0], tag::GENERALIZED_TIME);
}

#[test]
fn an_ambiguous_or_unreadable_name_names_nobody() {
    let user = |attributes: &[(&[u8], &str)]| named_user(&name(attributes));
    assert_eq!(user(&[(COMMON_NAME, "a"), (COMMON_NAME, "b")]).unwrap().name, "b");
    assert_eq!(user(&[(COMMON_NAME, "a"), (USER_UID, "1")]).unwrap().uid, "1");
    assert_eq!(user(&[(COMMON_NAME, "a"), (USER_UID, "1"), (USER_UID, "2")]), None);
    assert_eq!(user(&[(COMMON_NAME, "a"), (USER_UID, "")]), None);
    let mut bytes = name(&[(COMMON_NAME, "ab")]);
    *bytes.last_mut().unwrap() = 0xff;
    assert_eq!(named_user(&bytes), None);
    assert_eq!(named_user(&bytes[..bytes.len() - 1]), None);
}
