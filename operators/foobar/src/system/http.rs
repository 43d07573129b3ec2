//! The system over HTTP: `PUT` and `DELETE` of `/records/ID`.

use std::{error::Error as StdError, iter, time::Duration};

use bytes::Bytes;
use http::{Method, Request, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::time::timeout;

use super::{Failure, Record, System};

/// How long an answer may take, until its last byte.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many bytes of an answer are read.
const LONGEST_ANSWER: usize = 64 << 10;
/// How much of what the system said is told.
const LONGEST_WORD: usize = 200;

/// A system that is reached by HTTP.
#[derive(Clone, Debug)]
pub struct Http {
    address: String,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Http {
    /// The system at an address such as `http://records.example.com`.
    pub fn new(address: &str) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { address: address.trim_end_matches('/').to_owned(), client }
    }

    /// Asks for something, and says what the answer is and what was said with it.
    async fn ask(&self, method: Method, id: &str, body: Vec<u8>) -> Result<(StatusCode, String), Failure> {
        let what = format!("{method} {}/records/{id}", self.address);
        let failed = |why: String| Failure::Unavailable(format!("{what}: {why}"));
        let request = Request::builder()
            .method(&method)
            .uri(format!("{}/records/{id}", self.address))
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(body))
            .map_err(|why| failed(why.to_string()))?;
        let exchange = async {
            let answer = self.client.request(request).await.map_err(|why| failed(chain(&why)))?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), LONGEST_ANSWER).collect().await;
            let body = body.map_err(|why| failed(chain(&*why)))?.to_bytes();
            Ok::<_, Failure>((status, String::from_utf8_lossy(&body).trim().to_owned()))
        };
        let (status, mut said) = timeout(PATIENCE, exchange)
            .await
            .map_err(|_| failed(format!("no answer within {PATIENCE:?}")))??;
        said.truncate(said.floor_char_boundary(LONGEST_WORD));
        Ok((status, format!("{what}: {status}: {said}")))
    }
}

impl System for Http {
    async fn put(&self, id: &str, record: &Record) -> Result<(), Failure> {
        let body = serde_json::to_vec(record).map_err(|why| Failure::Refused(why.to_string()))?;
        let (status, said) = self.ask(Method::PUT, id, body).await?;
        judged(status, said)
    }

    async fn delete(&self, id: &str) -> Result<(), Failure> {
        match self.ask(Method::DELETE, id, Vec::new()).await? {
            (StatusCode::NOT_FOUND | StatusCode::GONE, _) => Ok(()),
            (status, said) => judged(status, said),
        }
    }
}

/// Whether the answer is a yes, and if not, whether it may be another one later.
fn judged(status: StatusCode, said: String) -> Result<(), Failure> {
    match status {
        status if status.is_success() => Ok(()),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => Err(Failure::Unavailable(said)),
        status if status.is_server_error() => Err(Failure::Unavailable(said)),
        _ => Err(Failure::Refused(said)),
    }
}

/// An error and what led to it.
fn chain(error: &(dyn StdError + 'static)) -> String {
    let all = iter::successors(Some(error), |error: &&(dyn StdError + 'static)| (*error).source());
    all.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_not_get_better_is_a_refusal() {
        for (status, expected) in [
            (200, "done"),
            (201, "done"),
            (204, "done"),
            (301, "refused"),
            (400, "refused"),
            (403, "refused"),
            (404, "refused"),
            (408, "unavailable"),
            (409, "refused"),
            (422, "refused"),
            (429, "unavailable"),
            (500, "unavailable"),
            (503, "unavailable"),
        ] {
            let judged = match judged(StatusCode::from_u16(status).unwrap(), String::new()) {
                Ok(()) => "done",
                Err(Failure::Unavailable(_)) => "unavailable",
                Err(Failure::Refused(_)) => "refused",
            };
            assert_eq!(judged, expected, "{status}");
        }
    }
}
