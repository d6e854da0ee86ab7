//! Certificates of servers: which ones a client trusts, and when they are valid.
//!
//! Deliberately absent: connections, files, and the certificates that a system trusts.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "in a test, a panic is the message"))]

mod trusted;
mod validity;

pub use trusted::TrustedCertificates;
pub use validity::validity;
