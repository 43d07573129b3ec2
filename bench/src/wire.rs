//! The least a client can do for a request: one write, one answer read to its end. What a load program spends
//! is missing on a machine with few cores, and both servers would look more alike than they are.

use std::fmt::Write as _;

use bytes::Bytes;
use http::Method;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;

use crate::Result;

/// An open HTTP/1.1 connection that carries one request after the other.
pub(crate) struct Wire {
    stream: TlsStream<TcpStream>,
    /// Headers that every request has.
    headers: String,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Wire {
    pub(crate) fn new(stream: TlsStream<TcpStream>, authority: &str, token: &str) -> Self {
        let headers = format!(
            "Host: {authority}\r\nAuthorization: Bearer {token}\r\nAccept: application/json\r\n\
             User-Agent: kubewright-bench\r\nContent-Type: application/json\r\n"
        );
        Self { stream, headers, request: Vec::new(), answer: Vec::new() }
    }

    /// Sends a request and reads the whole answer, which must have the status `expected`.
    pub(crate) async fn call(
        &mut self,
        method: &Method,
        path: &str,
        body: &Bytes,
        expected: u16,
    ) -> Result<()> {
        let mut head = String::with_capacity(64 + path.len());
        write!(head, "{method} {path} HTTP/1.1\r\nContent-Length: {}\r\n", body.len())?;
        self.request.clear();
        for part in [head.as_bytes(), self.headers.as_bytes(), b"\r\n", body] {
            self.request.extend_from_slice(part);
        }
        self.stream.write_all(&self.request).await?;
        self.answer.clear();
        loop {
            if self.stream.read_buf(&mut self.answer).await? == 0 {
                return Err(format!("{path}: the server closed the connection").into());
            }
            let Some(status) = complete(&self.answer)? else { continue };
            if status == expected {
                return Ok(());
            }
            let text = String::from_utf8_lossy(&self.answer);
            return Err(format!("{path}: expected {expected}, got {text}").into());
        }
    }
}

/// The status of an answer once all of it is there.
fn complete(answer: &[u8]) -> Result<Option<u16>> {
    const END: &[u8] = b"\r\n\r\n";
    let Some(at) = answer.windows(END.len()).position(|part| part == END) else { return Ok(None) };
    let (head, body) = answer.split_at(at + END.len());
    let head = str::from_utf8(head)?;
    let status = head.get(9..12).ok_or("not an HTTP answer")?.parse()?;
    let is_whole = match header(head, "content-length") {
        Some(length) => body.len() >= length.parse()?,
        None => body.ends_with(b"0\r\n\r\n"), // chunked
    };
    Ok(is_whole.then_some(status))
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .filter_map(|line| line.split_once(": "))
        .find(|(key, _)| key.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::complete;

    #[test]
    fn an_answer_is_complete_with_its_last_byte() {
        let sized: &[u8] = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}";
        let chunked: &[u8] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
        for (answer, status) in [(sized, 201), (chunked, 200)] {
            for end in 0..answer.len() {
                assert_eq!(complete(&answer[..end]).expect("an answer"), None, "{end} bytes");
            }
            assert_eq!(complete(answer).expect("an answer"), Some(status));
        }
    }
}
