//! Reads the body of a request, bounded in bytes, time and memory, regardless of its declared length.
//!
//! Memory is reserved as bytes arrive, so a client that declares a long body and does not send it occupies
//! nothing. If every body were read that way, many incomplete bodies could deadlock, each waiting for memory.
//! So only the first part of a body is read that way, and the first parts of all requests together fit into
//! half of the limit. Then the whole remainder is reserved at once, and nothing more is read before. Nearly
//! every body ends within its first part.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use tokio::time::Instant;

use crate::client::Client;
use crate::limiter::{Limiter, LimiterPermit};
use crate::limits::BYTES_PER_SECOND_MIN;
use crate::status::Failure;

/// Bytes of a body for which memory is reserved as they arrive.
const BEGINNING_BYTES: usize = 64 * 1024;

/// How long a body may arrive at any rate.
const GRACE: Duration = Duration::from_secs(5);

/// The limits of the bodies of some requests.
#[derive(Clone)]
pub(crate) struct BodyLimits {
    /// In bytes: held by a body, from its first byte until the request is answered.
    pub(crate) all: Limiter,
    /// Maximum length of one body, in bytes.
    pub(crate) bytes_max: usize,
    /// Bytes of a body for which memory is reserved as they arrive.
    pub(crate) beginning_bytes_max: usize,
    /// How long a body may take to arrive.
    pub(crate) time_max: Duration,
}

/// Reads a request's body. The caller holds the returned permit until the request is answered.
///
/// # Errors
/// 408 if it arrives too slowly, 413 if it is too long, 429 if the limiter has no room for it.
pub(crate) async fn read(
    body: Body,
    client: &Client,
    limits: &BodyLimits,
) -> Result<(Bytes, Option<LimiterPermit>), Failure> {
    if body.is_end_stream() {
        return Ok((Bytes::new(), None));
    }
    let too_long = || Failure::too_large(format!("the body has more than {} bytes", limits.bytes_max));
    let length = body.size_hint();
    if length.lower() > limits.bytes_max as u64 {
        return Err(too_long());
    }
    // A body without a declared length may be as long as the limit allows.
    let declared = length.upper().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(limits.bytes_max);
    let mut reader =
        BodyReader { body, read: BytesMut::new(), reserved: 0, permit: None, deadline: BodyDeadline::begin(limits) };
    while let Some(data) = reader.next().await? {
        let bytes = reader.read.len() + data.len();
        if bytes > limits.bytes_max {
            return Err(too_long());
        }
        if bytes > reader.reserved {
            let all =
                if bytes <= BEGINNING_BYTES.min(limits.beginning_bytes_max) { bytes } else { declared.max(bytes) };
            reader.reserve(client, limits, all).await?;
        }
        reader.read.extend_from_slice(&data);
    }
    Ok((reader.read.freeze(), reader.permit))
}

/// Reads one body, frame by frame.
struct BodyReader {
    body: Body,
    read: BytesMut,
    /// Bytes that are reserved.
    reserved: usize,
    permit: Option<LimiterPermit>,
    deadline: BodyDeadline,
}

impl BodyReader {
    /// Returns the next data frame; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            let frame = tokio::time::timeout_at(self.deadline.due(self.read.len()), self.body.frame()).await;
            match frame.map_err(|_| self.deadline.failure())? {
                None => return Ok(None),
                Some(Err(error)) => return Err(Failure::bad_request(format!("the body could not be read: {error}"))),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// Reserves so many bytes in total.
    async fn reserve(&mut self, client: &Client, limits: &BodyLimits, bytes: usize) -> Result<(), Failure> {
        let started = Instant::now();
        let more = limits.all.acquire(client, bytes - self.reserved).await?;
        // While it waits for memory, the server does not read, so the time does not count against the client.
        self.deadline.began += started.elapsed();
        self.reserved = bytes;
        match &mut self.permit {
            Some(permit) => permit.add(more),
            none => *none = Some(more),
        }
        Ok(())
    }
}

/// How fast a body must arrive.
struct BodyDeadline {
    began: Instant,
    all: Duration,
}

impl BodyDeadline {
    fn begin(limits: &BodyLimits) -> Self {
        Self { began: Instant::now(), all: limits.time_max }
    }

    /// Returns the deadline for the next frame, after so many bytes.
    fn due(&self, bytes: usize) -> Instant {
        let earned = Duration::from_secs_f64(bytes as f64 / BYTES_PER_SECOND_MIN as f64);
        self.began + self.all.min(GRACE + earned)
    }

    fn failure(&self) -> Failure {
        let (all, least) = (self.all.as_secs_f32(), BYTES_PER_SECOND_MIN / 1024);
        Failure::timeout(format!("the body did not arrive within {all} s, or arrived at less than {least} KiB/s"))
    }
}

#[cfg(test)]
mod tests;
