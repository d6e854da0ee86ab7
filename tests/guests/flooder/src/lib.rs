//! Returns new keys at every poll, as many as the setting `keys` says, of a keys-only kind. Each reconcile
//! fails permanently, with a message of the maximum length.
//!
//! With the setting `forge`, its only key reads a kind whose name is a piece of a manifest, and emits an
//! event and a log line that imitate the host's.

use std::time::{SystemTime, UNIX_EPOCH};

use homeostat_sdk::prelude::*;
use homeostat_sdk::{events, raw};

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", keys_only)]
struct Flood {}

/// A kind name that closes the list around it, grants everything, and starts a comment.
const INJECTED: &str = r#""*"], verbs: ["*"], namespaces: ["*"]} #"#;
/// Characters that start a new line, reverse the writing direction, have no width, or control a terminal.
const FORGED: &str = "well\nwarning: forged \u{202e}\u{2066}\u{200b}\u{2028}\u{9b}31m";

struct Guest;

impl Reconciler for Guest {
    fn describe() -> Spec {
        Spec::manages::<Flood>().poll_every(Duration::from_millis(100))
    }

    fn reconcile(_: Key) -> Result<Outcome, Failure> {
        if config::get("forge")?.is_some() {
            let kind = raw::types::Kind { group: String::new(), version: "v1".into(), name: INJECTED.into() };
            let key = Key { kind, namespace: "default".into(), name: "any".into() };
            drop(raw::store::get(&key, raw::types::View::Whole));
            events::warning("Forged", FORGED);
            info!("{FORGED}");
            return Ok(Outcome::settled());
        }
        Err(Failure::never("x".repeat(4096)))
    }
}

impl Poller for Guest {
    fn poll() -> Result<Vec<Key>, Failure> {
        if config::get("forge")?.is_some() {
            return Ok(vec![Flood::key("default", "one")]);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let keys: u32 = config::get_or("keys", 1000)?;
        Ok((0..keys).map(|n| Flood::key("default", &format!("flood-{now}-{n}"))).collect())
    }
}

homeostat_sdk::export!(Guest: poller);
