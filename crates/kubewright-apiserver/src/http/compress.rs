//! Large answers are compressed for clients that can read it.

use std::io::Write as _;

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};

use super::answer::{Answer, Body, header};

/// Answers from this size on are worth compressing; kube-apiserver draws the line at the same place.
const WORTH: usize = 128 << 10;

/// The answer, compressed if it is large and whole.
pub(crate) fn gzip(mut answer: Answer) -> Answer {
    let Some(body) = answer.body().whole().filter(|body| body.len() > WORTH) else { return answer };
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 8), Compression::fast());
    let Ok(compressed) = encoder.write_all(body).and_then(|()| encoder.finish()) else { return answer };
    *answer.body_mut() = Body::from(Bytes::from(compressed));
    header(&mut answer, "content-encoding", "gzip");
    header(&mut answer, "vary", "Accept-Encoding");
    answer
}
