//! Bringing an image to its registry, as the distribution specification has it: what is missing of its blobs, then its
//! manifests, and last the one that the tag stands for, so that the tag never stands for something incomplete.

mod credentials;

use http::{
    Method, Request, StatusCode, Uri,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, LOCATION, WWW_AUTHENTICATE},
};
use kube::{Client, Config, client::Body};
use serde_json::Value;

use self::credentials::Credentials;
use super::image::{Blob, Image};
use crate::terminal::note;

/// Where the registry of Docker answers.
const DOCKER: (&str, &str) = ("docker.io", "registry-1.docker.io");
/// How much is read of an answer that says why something went wrong.
const REASON_MAX: usize = 300;

/// Brings an image to the registry that its name says.
pub(super) async fn push(image: &Image) -> Result<(), String> {
    let name = &image.name;
    let mut registry = Registry::new(name.registry(), name.repository())?;
    for variant in &image.variants {
        for blob in [&variant.config, &variant.layer] {
            registry.upload(blob).await?;
        }
    }
    if image.index.is_some() {
        for variant in &image.variants {
            registry.put_manifest(&variant.manifest, &variant.manifest.digest).await?;
        }
    }
    registry.put_manifest(image.top(), name.tag()).await?;
    note(&format!("pushed {name}"));
    Ok(())
}

/// One repository of a registry.
struct Registry {
    home: Uri,
    client: Client,
    repository: String,
    credentials: Option<Credentials>,
    /// What the registry asked for, once it has.
    authorization: Option<String>,
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Registry {
    fn new(registry: &str, repository: String) -> Result<Self, String> {
        let host = if registry == DOCKER.0 { DOCKER.1 } else { registry };
        let is_here = host.starts_with("127.") || host == "localhost" || host.starts_with("localhost:");
        let scheme = if is_here { "http" } else { "https" };
        let home = parse(&format!("{scheme}://{host}/"))?;
        let credentials = Credentials::of(registry)?;
        Ok(Self { client: client(&home)?, home, repository, credentials, authorization: None })
    }

    /// Uploads a blob, unless it is there.
    async fn upload(&mut self, blob: &Blob) -> Result<(), String> {
        let (repository, digest) = (self.repository.clone(), &blob.digest);
        let there = self.at(&format!("/v2/{repository}/blobs/{digest}"))?;
        let answer = self.send(&Method::HEAD, &there, None).await?;
        // Some say where else it is.
        if answer.status.is_success() || answer.status.is_redirection() {
            return Ok(());
        }
        note(&format!("pushing {digest}, {} kB", blob.bytes.len().div_ceil(1000)));
        let begin = self.at(&format!("/v2/{repository}/blobs/uploads/"))?;
        let begun = self.send(&Method::POST, &begin, None).await?.expect(StatusCode::ACCEPTED, &begin)?;
        let place = begun.headers.get(LOCATION).and_then(|value| value.to_str().ok());
        let place = place.ok_or_else(|| format!("{begin} does not say where to upload to"))?;
        let separator = if place.contains('?') { '&' } else { '?' };
        let place = self.at(&format!("{place}{separator}digest={digest}"))?;
        let body = Some(("application/octet-stream", blob.bytes.as_slice()));
        self.send(&Method::PUT, &place, body).await?.expect(StatusCode::CREATED, &place)?;
        Ok(())
    }

    async fn put_manifest(&mut self, manifest: &Blob, reference: &str) -> Result<(), String> {
        let place = self.at(&format!("/v2/{}/manifests/{reference}", self.repository))?;
        let body = Some((manifest.media_type, manifest.bytes.as_slice()));
        self.send(&Method::PUT, &place, body).await?.expect(StatusCode::CREATED, &place)?;
        Ok(())
    }

    /// A place that is either complete, or in this registry.
    fn at(&self, place: &str) -> Result<Uri, String> {
        match place.starts_with('/') {
            true => parse(&format!("{}{place}", self.home.to_string().trim_end_matches('/'))),
            false => parse(place),
        }
    }

    /// Sends a request and, if the registry wants to know who asks, once more.
    async fn send(
        &mut self,
        method: &Method,
        uri: &Uri,
        body: Option<(&str, &[u8])>,
    ) -> Result<Answer, String> {
        if uri.authority() != self.home.authority() {
            // Whoever that is, it is not the one that the credentials are for.
            return send(&client(uri)?, method, uri, None, body).await;
        }
        let answer = send(&self.client, method, uri, self.authorization.as_deref(), body).await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        let challenge = answer.headers.get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
        self.authorization = Some(self.authorize(challenge.unwrap_or_default()).await?);
        send(&self.client, method, uri, self.authorization.as_deref(), body).await
    }

    /// What to say to a registry that has asked who is there.
    async fn authorize(&self, challenge: &str) -> Result<String, String> {
        let basic = self.credentials.as_ref().map(Credentials::basic);
        let (scheme, parameters) = challenge.split_once(' ').unwrap_or((challenge, ""));
        if !scheme.eq_ignore_ascii_case("bearer") {
            return basic.ok_or_else(|| format!("{} wants to know who asks: docker login first", self.home));
        }
        let realm = parameter(parameters, "realm").ok_or("the registry does not say where tokens are")?;
        let scope = format!("repository:{}:pull,push", self.repository);
        let service =
            parameter(parameters, "service").map(|service| format!("service={}&", encoded(service)));
        let separator = if realm.contains('?') { '&' } else { '?' };
        let uri = format!("{realm}{separator}{}scope={}", service.unwrap_or_default(), encoded(&scope));
        let uri = parse(&uri)?;
        let answer = send(&client(&uri)?, &Method::GET, &uri, basic.as_deref(), None).await?;
        let answer = answer.expect(StatusCode::OK, &uri)?;
        let answer: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let token = ["token", "access_token"].into_iter().find_map(|field| answer[field].as_str());
        token.map(|token| format!("Bearer {token}")).ok_or_else(|| format!("{uri} gave no token"))
    }
}

impl Answer {
    /// The answer, if it is the one that was hoped for.
    fn expect(self, status: StatusCode, uri: &Uri) -> Result<Self, String> {
        if self.status == status {
            return Ok(self);
        }
        let hint = match self.status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                ": docker login first, as one who may push there"
            }
            _ => "",
        };
        let reason = String::from_utf8_lossy(&self.body);
        let reason: String = reason.split_whitespace().collect::<Vec<_>>().join(" ");
        let reason: String = reason.chars().take(REASON_MAX).collect();
        let uri = uri.to_string();
        // What is behind it may be a secret.
        let place = uri.split('?').next().unwrap_or_default();
        Err(format!("the registry refuses, with {}{hint}: {place} {reason}", self.status))
    }
}

async fn send(
    client: &Client,
    method: &Method,
    uri: &Uri,
    authorization: Option<&str>,
    body: Option<(&str, &[u8])>,
) -> Result<Answer, String> {
    let unreached = |why: &dyn std::fmt::Display| format!("can't reach the registry at {}: {why}", host(uri));
    let mut request = Request::builder().method(method).uri(uri);
    if let Some(authorization) = authorization {
        request = request.header(AUTHORIZATION, authorization);
    }
    if let Some((media_type, _)) = body {
        request = request.header(CONTENT_TYPE, media_type);
    }
    let body = body.map_or_else(Body::empty, |(_, bytes)| Body::from(bytes.to_vec()));
    let request = request.body(body).map_err(|why| unreached(&why))?;
    let answer = client.send(request).await.map_err(|why| unreached(&why))?;
    let (parts, body) = answer.into_parts();
    let body = body.collect_bytes().await.map_err(|why| unreached(&why))?;
    Ok(Answer { status: parts.status, headers: parts.headers, body: body.to_vec() })
}

/// The client that talks to clusters talks to any server: it verifies certificates as this machine does, and tries
/// again where a server is busy.
fn client(uri: &Uri) -> Result<Client, String> {
    let base = parse(&format!("{}://{}", uri.scheme_str().unwrap_or("https"), host(uri)))?;
    Client::try_from(Config::new(base)).map_err(|why| why.to_string())
}

fn host(uri: &Uri) -> &str {
    uri.authority().map_or("", |authority| authority.as_str())
}

fn parse(uri: &str) -> Result<Uri, String> {
    uri.parse().map_err(|why| format!("{uri:?} is no address: {why}"))
}

/// The value of `key="value"` in a challenge.
fn parameter<'a>(parameters: &'a str, key: &str) -> Option<&'a str> {
    let mut rest = parameters;
    loop {
        let (name, after) = rest.split_once("=\"")?;
        let (value, after) = after.split_once('"')?;
        if name.trim_start_matches([',', ' ']).eq_ignore_ascii_case(key) {
            return Some(value);
        }
        rest = after;
    }
}

/// A value, as it can be part of a query.
fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' | b'/' | b',' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_taken_apart() {
        let challenge =
            r#"realm="https://auth.example/token",service="a registry", scope="repository:a:pull,push""#;
        assert_eq!(parameter(challenge, "realm"), Some("https://auth.example/token"));
        assert_eq!(parameter(challenge, "scope"), Some("repository:a:pull,push"));
        assert_eq!(parameter(challenge, "service").map(encoded).as_deref(), Some("a%20registry"));
        assert_eq!(parameter(challenge, "error"), None);
        assert_eq!(parameter("realm=", "realm"), None);
    }
}
