//! A registry of images in this process: what the distribution specification asks of one that is pushed to, with
//! tokens, and unforgiving about digests.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{AUTHORIZATION, CONTENT_TYPE, LOCATION, WWW_AUTHENTICATE},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpListener;

const TOKEN: &str = "a-token";
const SCOPE: &str = "repository:team/web:pull,push";

/// It ends with the test.
pub struct Registry {
    pub host: String,
    state: Arc<State>,
}

struct State {
    host: String,
    /// `user:password` of whoever gets a token.
    user: String,
    blobs: Mutex<BTreeMap<String, Bytes>>,
    /// By tag and by digest, with their media types.
    manifests: Mutex<BTreeMap<String, (String, Vec<u8>)>>,
    uploads: Mutex<usize>,
}

impl Registry {
    pub async fn start(user: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let host = listener.local_addr().expect("an address").to_string();
        let state = Arc::new(State {
            host: host.clone(),
            user: user.to_owned(),
            blobs: Mutex::default(),
            manifests: Mutex::default(),
            uploads: Mutex::default(),
        });
        let shared = state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = shared.clone();
                let service = service_fn(move |request| answer(state.clone(), request));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { host, state }
    }

    /// As `docker login` leaves them.
    pub fn credentials(&self) -> String {
        STANDARD.encode(&self.state.user)
    }

    pub fn manifest(&self, reference: &str) -> Option<(String, Vec<u8>)> {
        self.state.manifests.lock().get(reference).cloned()
    }

    pub fn blob(&self, digest: &str) -> Option<Vec<u8>> {
        self.state.blobs.lock().get(digest).map(|bytes| bytes.to_vec())
    }

    pub fn uploads(&self) -> usize {
        *self.state.uploads.lock()
    }
}

async fn answer(state: Arc<State>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let plain = |status: StatusCode| Response::builder().status(status);
    let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
    let authorization = header(AUTHORIZATION);

    let (answer, body) = if path == "/token" {
        let is_known = authorization == format!("Basic {}", STANDARD.encode(&state.user));
        match is_known && query == format!("service=a%20registry&scope={SCOPE}") {
            true => (plain(StatusCode::OK), format!("{{\"token\": \"{TOKEN}\"}}")),
            false => (plain(StatusCode::UNAUTHORIZED), "who are you?".to_owned()),
        }
    } else if authorization != format!("Bearer {TOKEN}") {
        let challenge = format!("Bearer realm=\"http://{}/token\",service=\"a registry\"", state.host);
        (plain(StatusCode::UNAUTHORIZED).header(WWW_AUTHENTICATE, challenge), String::new())
    } else {
        let path = path.strip_prefix("/v2/team/web/").unwrap_or_default();
        let digest = query.split('&').find_map(|pair| pair.strip_prefix("digest=")).unwrap_or_default();
        let answer = match (parts.method, path.split('/').collect::<Vec<_>>().as_slice()) {
            (Method::HEAD, ["blobs", digest]) if state.blobs.lock().contains_key(*digest) => {
                plain(StatusCode::OK)
            }
            (Method::POST, ["blobs", "uploads", ""]) => {
                plain(StatusCode::ACCEPTED).header(LOCATION, "/v2/team/web/blobs/uploads/1?state=begun")
            }
            (Method::PUT, ["blobs", "uploads", "1"])
                if is_digest(digest, &body) && query.contains("state=begun") =>
            {
                state.blobs.lock().insert(digest.to_owned(), body);
                *state.uploads.lock() += 1;
                plain(StatusCode::CREATED)
            }
            (Method::PUT, ["manifests", reference])
                if !reference.contains(':') || is_digest(reference, &body) =>
            {
                let manifest = (header(CONTENT_TYPE).to_owned(), body.to_vec());
                state.manifests.lock().insert((*reference).to_owned(), manifest);
                plain(StatusCode::CREATED)
            }
            _ => plain(StatusCode::NOT_FOUND),
        };
        (answer, String::new())
    };
    Ok(answer.body(Full::from(body)).expect("an answer"))
}

fn is_digest(digest: &str, bytes: &[u8]) -> bool {
    let actual = ring::digest::digest(&ring::digest::SHA256, bytes);
    let actual: String = actual.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    digest == format!("sha256:{actual}")
}
