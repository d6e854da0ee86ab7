//! Counts the requests that the API server refused, and the files that it could not use.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A limit of the API server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum LimitKind {
    /// Watches and other streams.
    Watches,
    /// Requests that are being answered.
    Requests,
    /// Lists that are being sent.
    Lists,
    /// Bytes of request bodies.
    Bodies,
    /// Connections.
    Connections,
    /// Requests to webhooks that are being answered.
    Webhooks,
    /// Bytes of the bodies of webhooks.
    WebhookBodies,
}

/// A file that is reloaded when it changes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FileKind {
    /// The certificate or its key.
    Certificate,
    /// The tokens.
    Tokens,
}

impl LimitKind {
    pub(crate) const ALL: [Self; 7] = [
        Self::Watches,
        Self::Requests,
        Self::Lists,
        Self::Bodies,
        Self::Connections,
        Self::Webhooks,
        Self::WebhookBodies,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Watches => "watches",
            Self::Requests => "requests",
            Self::Lists => "lists",
            Self::Bodies => "bodies",
            Self::Connections => "connections",
            Self::Webhooks => "webhooks",
            Self::WebhookBodies => "webhook-bodies",
        }
    }
}

impl FileKind {
    pub(super) const ALL: [Self; 2] = [Self::Certificate, Self::Tokens];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Certificate => "certificate",
            Self::Tokens => "tokens",
        }
    }
}

/// The counters. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Refusals(Arc<RefusalCounters>);

#[derive(Default)]
struct RefusalCounters {
    limits: [AtomicU64; LimitKind::ALL.len()],
    files: [AtomicU64; FileKind::ALL.len()],
}

impl Refusals {
    pub(super) fn limit(&self, limit: LimitKind) -> &AtomicU64 {
        &self.0.limits[limit as usize]
    }

    pub(super) fn file(&self, file: FileKind) -> &AtomicU64 {
        &self.0.files[file as usize]
    }
}
