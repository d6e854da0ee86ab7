//! What a proxy answers in place of the server.

use std::time::Duration;

use serde_json::{Value, json};

/// The verb of a `GET` that watches.
pub(super) const WATCH: &str = "WATCH";

/// What becomes of a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum HttpReply {
    /// The server never sees it. The proxy answers with this status code and the document of Kubernetes for it.
    Status {
        /// The code: 410, 429, 500, 503.
        code: u16,
        /// The seconds in `Retry-After`.
        retry_after: Option<u32>,
    },
    /// The server never sees it. The answer is a watch with one event: an error with this status code.
    WatchError(u16),
    /// The server answers it. The proxy closes the connection instead of passing the answer on.
    NoAnswer,
    /// The server answers it. That many bytes of the body pass, then the connection is closed.
    CutAfter(usize),
    /// The server gets it that much later.
    Late(Duration),
}

/// A rule for requests.
#[derive(Clone, Debug)]
pub struct HttpRule {
    /// The HTTP method, or `WATCH`; `None` is all.
    pub verb: Option<&'static str>,
    /// A text in the path with the query.
    pub path: String,
    /// How many requests it still applies to; `None` is all.
    pub times: Option<usize>,
    /// What becomes of them.
    pub reply: HttpReply,
}

impl HttpRule {
    fn applies(&self, verb: &str, path: &str) -> bool {
        self.verb.is_none_or(|of| of == verb) && path.contains(&self.path) && self.times != Some(0)
    }
}

/// Returns the method of a request, or [`WATCH`].
pub(super) fn verb<'a>(method: &'a str, query: Option<&str>) -> &'a str {
    let mut parameters = query.unwrap_or_default().split('&');
    if parameters.any(|parameter| ["watch", "watch=1", "watch=true"].contains(&parameter)) { WATCH } else { method }
}

/// Returns what the first rule for a request says, and takes one time off it.
pub(super) fn take(rules: &mut [HttpRule], verb: &str, path: &str) -> Option<HttpReply> {
    let rule = rules.iter_mut().find(|rule| rule.applies(verb, path))?;
    rule.times = rule.times.map(|times| times - 1);
    Some(rule.reply.clone())
}

/// An answer of the proxy itself.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct OwnAnswer {
    pub(super) status: u16,
    pub(super) retry_after: Option<u32>,
    pub(super) document: Value,
}

/// Returns the answer that needs no server. `None` if the server is asked.
pub(super) fn own_answer(reply: &HttpReply) -> Option<OwnAnswer> {
    match *reply {
        HttpReply::Status { code, retry_after } => {
            Some(OwnAnswer { status: code, retry_after, document: status(code, retry_after) })
        }
        HttpReply::WatchError(code) => {
            let document = json!({ "type": "ERROR", "object": status(code, None) });
            Some(OwnAnswer { status: 200, retry_after: None, document })
        }
        HttpReply::NoAnswer | HttpReply::CutAfter(_) | HttpReply::Late(_) => None,
    }
}

/// Returns the document of Kubernetes for a status code.
fn status(code: u16, retry_after: Option<u32>) -> Value {
    let reason = match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "",
    };
    let details = retry_after.map(|seconds| json!({ "retryAfterSeconds": seconds }));
    json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "a test wants this answer",
        "reason": reason,
        "details": details.unwrap_or_else(|| json!({})),
        "code": code,
    })
}

#[cfg(test)]
mod tests;
