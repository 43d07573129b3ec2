//! The certificates an operator makes for itself: authorities that the API server is told to trust, and the certificate
//! that the newest of them has signed. Everything is renewed when two thirds of its time are over. A new authority signs
//! nothing before it is trusted everywhere, and an old one is trusted until its own time is over, so that at no time a
//! certificate is shown that is not trusted.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use k8s_openapi::ByteString;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};

use crate::error::{Error, Result};

/// How much longer an authority lasts than what it signs.
const AUTHORITY: u32 = 4;
/// How far the clocks of others may be behind.
const SKEW: Duration = Duration::from_secs(60 * 60);
/// How long everybody may take to notice that an authority is trusted.
const SETTLING: Duration = Duration::from_secs(60 * 60);

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const AUTHORITIES: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";

/// For whom certificates are, and for how long.
#[derive(Debug, Clone)]
pub(super) struct Purpose {
    pub(super) operator: Arc<str>,
    /// What callers know the operator by.
    pub(super) names: Vec<String>,
    pub(super) life: Duration,
}

/// What a Secret holds of certificates, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Keyring {
    pub(super) certificate: String,
    pub(super) key: String,
    /// Those to trust, the newest first.
    pub(super) authorities: String,
    /// Of the newest.
    authority_key: String,
}

impl Keyring {
    /// New ones.
    pub(super) fn new(purpose: &Purpose, now: Timestamp) -> Result<Self> {
        let (authority, authority_key) = authority(purpose, now)?;
        let (certificate, key) = serving(&authority, &authority_key, purpose, now)?;
        Ok(Self { certificate, key, authorities: authority, authority_key })
    }

    /// What the data of a Secret holds, if that is all there.
    pub(super) fn read(data: &BTreeMap<String, ByteString>) -> Option<Self> {
        let text = |name: &str| String::from_utf8(data.get(name)?.0.clone()).ok();
        Some(Self {
            certificate: text(CERTIFICATE)?,
            key: text(KEY)?,
            authorities: text(AUTHORITIES)?,
            authority_key: text(AUTHORITY_KEY)?,
        })
    }

    /// The data of a Secret that holds them.
    pub(super) fn data(&self) -> BTreeMap<String, ByteString> {
        let entry = |name: &str, text: &str| (name.to_owned(), ByteString(text.as_bytes().to_vec()));
        BTreeMap::from([
            entry(CERTIFICATE, &self.certificate),
            entry(KEY, &self.key),
            entry(AUTHORITIES, &self.authorities),
            entry(AUTHORITY_KEY, &self.authority_key),
        ])
    }

    /// What they must become now, if anything; `is_trusted` says whether the API server has been told all authorities.
    pub(super) fn renewed(
        &self,
        purpose: &Purpose,
        now: Timestamp,
        is_trusted: bool,
    ) -> Result<Option<Self>> {
        let authorities = certificates(&self.authorities);
        let is_trusted_still = |der: &CertificateDer<'_>| facts(der).is_some_and(|facts| facts.until > now);
        let trusted: Vec<_> = authorities.iter().filter(|(_, der)| is_trusted_still(der)).collect();
        let trusted_text: String = trusted.iter().map(|(text, _)| *text).collect();
        let serving = CertificateDer::from_pem_slice(self.certificate.as_bytes()).ok();
        let serving = serving.as_ref().and_then(|der| facts(der)).filter(|facts| facts.until > now);
        let newest = trusted.first().and_then(|(_, der)| facts(der));
        let (Some(serving), Some(newest)) = (serving, newest) else {
            let mut new = Self::new(purpose, now)?;
            new.authorities += &trusted_text;
            return Ok(Some(new));
        };
        if newest.is_due(now) {
            let (authority, authority_key) = authority(purpose, now)?;
            let authorities = authority + &trusted_text;
            return Ok(Some(Self { authorities, authority_key, ..self.clone() }));
        }
        let is_settled = is_trusted && now >= newest.from + SKEW + SETTLING;
        let is_first = trusted.len() == 1;
        if (serving.is_due(now) || serving.issuer != newest.subject) && (is_settled || is_first) {
            let (certificate, key) = self::serving(&self.authorities, &self.authority_key, purpose, now)?;
            return Ok(Some(Self { certificate, key, ..self.clone() }));
        }
        let is_outlived = trusted.len() < authorities.len();
        Ok(is_outlived.then(|| Self { authorities: trusted_text, ..self.clone() }))
    }
}

/// An authority of its own, and its key.
fn authority(purpose: &Purpose, now: Timestamp) -> Result<(String, String)> {
    let mut parameters = CertificateParams::default();
    // The time in its name tells it from those before it.
    parameters.distinguished_name = named(format!("{} authority of {now}", purpose.operator));
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    lasting(&mut parameters, now - SKEW, now + purpose.life * AUTHORITY);
    let key = KeyPair::generate()?;
    let certificate = parameters.self_signed(&key)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

/// A certificate of the first of some authorities, and its key.
fn serving(
    authorities: &str,
    authority_key: &str,
    purpose: &Purpose,
    now: Timestamp,
) -> Result<(String, String)> {
    let unreadable = || Error::new("the authority is no certificate");
    let authority = CertificateDer::from_pem_slice(authorities.as_bytes()).map_err(|_| unreadable())?;
    let authority = facts(&authority).ok_or_else(unreadable)?;
    let mut issued_by = CertificateParams::default();
    issued_by.distinguished_name = named(authority.name().ok_or_else(unreadable)?);
    let issuer = Issuer::new(issued_by, KeyPair::from_pem(authority_key)?);

    let mut parameters = CertificateParams::new(purpose.names.as_slice())?;
    parameters.distinguished_name = named(purpose.operator.to_string());
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    lasting(&mut parameters, now - SKEW, (now + purpose.life).min(authority.until));
    let key = KeyPair::generate()?;
    let certificate = parameters.signed_by(&key, &issuer)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn named(name: String) -> DistinguishedName {
    let mut named = DistinguishedName::new();
    named.push(DnType::CommonName, name);
    named
}

fn lasting(parameters: &mut CertificateParams, from: Timestamp, until: Timestamp) {
    let at = |time: Timestamp| {
        let seconds = u64::try_from(time.as_second()).unwrap_or(0);
        rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds)
    };
    (parameters.not_before, parameters.not_after) = (at(from), at(until));
}

/// The certificates that a text has one after another, and the text of each.
fn certificates(pem: &str) -> Vec<(&str, CertificateDer<'static>)> {
    let read = |text| Some((text, CertificateDer::from_pem_slice(str::as_bytes(text)).ok()?));
    pem.split_inclusive("-----END CERTIFICATE-----\n").filter_map(read).collect()
}

/// What has to be known of a certificate.
struct Facts<'a> {
    issuer: &'a [u8],
    subject: &'a [u8],
    from: Timestamp,
    until: Timestamp,
}

impl Facts<'_> {
    /// Whether two thirds of its time are over.
    fn is_due(&self, now: Timestamp) -> bool {
        let life = self.from.duration_until(self.until);
        now >= self.from + life * 2 / 3
    }

    /// Its common name, which is all of its subject.
    fn name(&self) -> Option<String> {
        let mut attribute = Der(self.subject).within(0x30)?.within(0x31)?.within(0x30)?;
        attribute.next()?;
        let (_, name) = attribute.next()?;
        String::from_utf8(name.to_vec()).ok()
    }
}

/// Reads it from the encoding of a certificate (RFC 5280): its first field is what is signed, and of that the fields
/// after version, serial number and algorithm are issuer, validity and subject.
fn facts(certificate: &[u8]) -> Option<Facts<'_>> {
    let mut signed = Der(certificate).within(0x30)?.within(0x30)?;
    let (tag, _) = signed.next()?;
    if tag == 0xa0 {
        signed.next()?;
    }
    signed.next()?;
    let issuer = signed.whole()?;
    let mut validity = signed.within(0x30)?;
    let (from, until) = (instant(validity.next()?)?, instant(validity.next()?)?);
    Some(Facts { issuer, subject: signed.whole()?, from, until })
}

/// A time of two digits for the year, in this and the last century, or of four.
fn instant((tag, text): (u8, &[u8])) -> Option<Timestamp> {
    let text = std::str::from_utf8(text).ok()?;
    let whole = match (tag, text.get(..2)?.parse::<u8>().ok()?) {
        (0x17, 0..50) => format!("20{text}"),
        (0x17, _) => format!("19{text}"),
        _ => text.to_owned(),
    };
    let civil = DateTime::strptime("%Y%m%d%H%M%SZ", whole).ok()?;
    TimeZone::UTC.to_timestamp(civil).ok()
}

/// Values of DER, one after another: each a tag, a length, and so many bytes.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (tag, rest) = self.0.split_first()?;
        let (first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(*first), rest),
            0x81..=0x84 => {
                let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, content))
    }

    /// The next value with its tag and its length.
    fn whole(&mut self) -> Option<&'a [u8]> {
        let before = self.0;
        self.next()?;
        Some(&before[..before.len() - self.0.len()])
    }

    /// The values in the next one, which has this tag.
    fn within(&mut self, tag: u8) -> Option<Self> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| Self(content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = "2026-01-01T00:00:00Z";

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn purpose() -> Purpose {
        let names = vec!["example-webhook.example-system.svc".to_owned()];
        Purpose { operator: "example".into(), names, life: DAY * 90 }
    }

    fn issuer_of(ring: &Keyring) -> Vec<u8> {
        facts(&certificates(&ring.certificate)[0].1).unwrap().issuer.to_vec()
    }

    /// Whether the certificate is valid, and signed by one of the authorities.
    fn is_trusted_with(ring: &Keyring, authorities: &str, now: Timestamp) -> bool {
        let serving = certificates(&ring.certificate);
        let serving = facts(&serving[0].1).unwrap();
        serving.from <= now
            && now < serving.until
            && certificates(authorities).iter().any(|(_, der)| {
                let authority = facts(der).unwrap();
                authority.subject == serving.issuer && authority.from <= now && now < authority.until
            })
    }

    #[test]
    fn at_any_time_of_ten_years_the_certificate_is_trusted() {
        let mut now: Timestamp = START.parse().unwrap();
        let mut ring = Keyring::new(&purpose(), now).unwrap();
        let (mut told, mut authorities, mut servings) = (ring.authorities.clone(), 0, 0);
        for _ in 0..10 * 365 * 4 {
            now += DAY / 4;
            if let Some(next) = ring.renewed(&purpose(), now, told == ring.authorities).unwrap() {
                authorities += u32::from(next.authority_key != ring.authority_key);
                servings += u32::from(next.key != ring.key);
                // Who holds the old certificate is as good as who holds the new one, whoever is told what.
                for one in [&ring, &next] {
                    for authorities in [&told, &next.authorities] {
                        assert!(is_trusted_with(one, authorities, now), "at {now}");
                    }
                }
                ring = next;
            } else {
                told = ring.authorities.clone();
            }
            assert!(certificates(&ring.authorities).len() <= 2, "old ones go");
        }
        assert_eq!(authorities, 15, "an authority is used for 240 days");
        assert_eq!(servings, 60, "a certificate is used for 60 days");
    }

    #[test]
    fn nothing_is_signed_by_an_authority_that_is_not_trusted() {
        let mut now: Timestamp = START.parse().unwrap();
        let ring = Keyring::new(&purpose(), now).unwrap();
        now += DAY * 244;
        let ring = ring.renewed(&purpose(), now, true).unwrap();
        // Long over, it is made new as a whole, and the old authority stays trusted.
        let ring = ring.expect("its time is over");
        let before = issuer_of(&ring);
        now += DAY * 50;
        assert!(ring.renewed(&purpose(), now, false).unwrap().is_none());
        now += DAY * 11;
        let due = ring.renewed(&purpose(), now, false).unwrap();
        assert!(due.is_none(), "it is due, but its authority is not trusted");
        let renewed = ring.renewed(&purpose(), now, true).unwrap().unwrap();
        assert_eq!(issuer_of(&renewed), before);
    }

    #[test]
    fn what_is_no_keyring_is_made_anew() {
        let now: Timestamp = START.parse().unwrap();
        let ring = Keyring::new(&purpose(), now).unwrap();
        assert!(Keyring::read(&ring.data()).unwrap() == ring);
        assert!(Keyring::read(&BTreeMap::new()).is_none());
        for broken in ["", "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"] {
            let broken = Keyring { certificate: broken.to_owned(), ..ring.clone() };
            let mended = broken.renewed(&purpose(), now, true).unwrap().unwrap();
            assert!(is_trusted_with(&mended, &mended.authorities, now));
            assert!(mended.authorities.ends_with(&ring.authorities), "what was trusted still is");
        }
    }

    #[test]
    fn no_bytes_are_too_strange() {
        let ring = Keyring::new(&purpose(), START.parse().unwrap()).unwrap();
        let whole = certificates(&ring.certificate)[0].1.to_vec();
        for length in 0..whole.len() {
            assert!(facts(&whole[..length]).is_none());
        }
        for at in 0..whole.len() {
            let mut bent = whole.clone();
            bent[at] ^= 0xff;
            let _ = facts(&bent);
        }
    }
}
