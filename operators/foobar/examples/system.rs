//! An external system to try the operator out, and to test it: keeps records in memory, and shows all of them under
//! `/records`. It knows things of the types `foo` and `bar`. Listens where its argument says.

#![allow(clippy::print_stdout, reason = "it says where it is")]

use std::{convert::Infallible, env, io};

use bytes::Bytes;
use foobar_operator::{Failure, Record, Recorded, System};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let records = Recorded::default();
    let listener = TcpListener::bind(env::args().nth(1).as_deref().unwrap_or("127.0.0.1:8090")).await?;
    println!("http://{}", listener.local_addr()?);
    serve(listener, Choosy(records.clone()), records).await
}

/// Refuses what it does not know.
#[derive(Clone)]
pub struct Choosy(pub Recorded);

impl System for Choosy {
    async fn put(&self, id: &str, record: &Record) -> Result<(), Failure> {
        if record.type_.as_deref().is_some_and(|one| !["foo", "bar"].contains(&one)) {
            return Err(Failure::Refused("the type must be foo or bar".to_owned()));
        }
        self.0.put(id, record).await
    }

    async fn delete(&self, id: &str) -> Result<(), Failure> {
        self.0.delete(id).await
    }
}

/// Answers requests as a system decides, and shows records.
pub async fn serve(listener: TcpListener, system: impl System + Clone, records: Recorded) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let (system, records) = (system.clone(), records.clone());
        let answer = service_fn(move |request: Request<Incoming>| {
            let (system, records) = (system.clone(), records.clone());
            async move {
                let (status, said) = answer(request, &system, &records).await;
                let mut answer = Response::new(Full::<Bytes>::from(said + "\n"));
                *answer.status_mut() = status;
                Ok::<_, Infallible>(answer)
            }
        });
        // A client that goes away is none of our concern.
        tokio::spawn(
            async move { http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await },
        );
    }
}

async fn answer(
    request: Request<Incoming>,
    system: &impl System,
    records: &Recorded,
) -> (StatusCode, String) {
    let (parts, body) = request.into_parts();
    let Ok(body) = body.collect().await else { return (StatusCode::BAD_REQUEST, String::new()) };
    let id = parts.uri.path().strip_prefix("/records/").unwrap_or_default();
    let outcome = match (parts.method, parts.uri.path()) {
        (Method::GET, "/records") => {
            let records = records.records().into_values().collect::<Vec<_>>();
            return (StatusCode::OK, serde_json::to_string(&records).unwrap_or_default());
        }
        (Method::PUT, _) if !id.is_empty() => match serde_json::from_slice(&body.to_bytes()) {
            Ok(record) => system.put(id, &record).await,
            Err(why) => return (StatusCode::BAD_REQUEST, why.to_string()),
        },
        (Method::DELETE, _) if records.records().contains_key(id) => system.delete(id).await,
        _ => return (StatusCode::NOT_FOUND, "there is nothing here".to_owned()),
    };
    match outcome {
        Ok(()) => (StatusCode::OK, "done".to_owned()),
        Err(Failure::Unavailable(why)) => (StatusCode::SERVICE_UNAVAILABLE, why),
        Err(Failure::Refused(why)) => (StatusCode::UNPROCESSABLE_ENTITY, why),
    }
}
