//! The status of a `Host` resource. Pure.

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};

use crate::conditions::{dated, known};
use crate::fleet::roster::{HeldLease, SharingHost};

/// Leases that are listed at most. Their count has no bound.
const LEASES_MAX: usize = 256;

/// The state of a host that renews no lease any more.
const GONE: &str = "Gone";

/// A moment, by both clocks.
pub(super) struct Moment {
    /// By the clock of the leases.
    pub(super) now: Duration,
    pub(super) time: SystemTime,
}

/// Why a host is gone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Departure {
    /// It has released its own lease: it ended in order, or has drained.
    Released,
    /// It has not renewed its leases in time.
    Expired,
}

/// Returns the status of a host that renews leases, or is this one. `before` is that which is stored, `Null` for none.
pub(super) fn of_host(before: &Value, host: &SharingHost, is_this: bool, moment: &Moment) -> Value {
    let SharingHost { identity, is_draining, leases, description, renewed } = host;
    let mut status = Map::new();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            status.insert(name.to_owned(), value);
        }
    };
    let before_leases = &before["leases"].as_array().filter(|_| before["identity"] == identity.as_str());
    let mut leases: Vec<&HeldLease> = leases.iter().collect();
    leases.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    let listed = leases.iter().take(LEASES_MAX).map(|lease| of_lease(before_leases.map(Vec::as_slice), lease, moment));
    let (reason, message) = match is_draining {
        false => ("Active", String::new()),
        true => ("Draining", "it gives its leases away".to_owned()),
    };
    set("identity", Some(identity.as_str().into()));
    set("isThis", Some(is_this.into()));
    set("state", Some(reason.into()));
    set("version", description.version.as_deref().map(Value::from));
    set("address", description.address.as_deref().map(Value::from));
    set("processors", description.processors.map(|processors| processors.get().into()));
    set("load", host.millicores().map(|millicores| cores(millicores).into()));
    set("leases", Some(listed.collect::<Vec<_>>().into()));
    set("leaseCount", Some(leases.len().into()));
    set("heartbeat", renewed.map(|renewed| moment.at(renewed).into()));
    let ready = dated(before, ("Ready", true, reason, message), &moment.at(moment.now));
    set("conditions", Some(json!([ready])));
    Value::Object(status)
}

/// Returns a lease. The time since when it is held stays that which was written first, also over a restart of the host
/// that writes it.
fn of_lease(before: Option<&[Value]>, HeldLease { name, term, .. }: &HeldLease, moment: &Moment) -> Value {
    let name = name.to_string();
    let Some((epoch, since)) = term else { return json!({ "name": name }) };
    let is_same = |lease: &&Value| lease["name"] == *name && lease["epoch"] == epoch.0;
    let known = before.into_iter().flatten().find(is_same).and_then(|lease| lease["since"].as_str());
    let since = known.map_or_else(|| moment.at(*since), str::to_owned);
    json!({ "name": name, "epoch": epoch.0, "since": since })
}

/// Returns the status of a host that renews no lease any more: what was known of it, and why it is gone.
pub(super) fn of_gone_host(before: &Value, departure: Departure, moment: &Moment) -> Value {
    let mut status: Map<String, Value> = before.as_object().cloned().unwrap_or_default();
    status.remove("load");
    let (reason, message) = match departure {
        Departure::Released => ("LeaseReleased", "it has ended or drained, and has released its own lease"),
        Departure::Expired => ("LeaseExpired", "this host sees no renewal of its leases"),
    };
    let ready = dated(before, ("Ready", false, reason, message.to_owned()), &moment.at(moment.now));
    let changed = [
        ("isThis", false.into()),
        ("state", GONE.into()),
        ("leases", json!([])),
        ("leaseCount", 0.into()),
        ("conditions", json!([ready])),
    ];
    status.extend(changed.map(|(name, value)| (name.to_owned(), value)));
    Value::Object(status)
}

/// Returns whether a status is that of a host that is gone.
pub(super) fn is_gone(status: &Value) -> bool {
    status["state"] == GONE
}

/// Returns since when a host is gone. A time that cannot be read, or is to come, is now.
pub(super) fn gone_for(status: &Value, moment: &Moment) -> Duration {
    let since = known(status, "Ready").and_then(|ready| ready["lastTransitionTime"].as_str());
    let since = since.and_then(|since| since.parse::<jiff::Timestamp>().ok()).map(SystemTime::from);
    since.and_then(|since| moment.time.duration_since(since).ok()).unwrap_or_default()
}

/// Returns whether two statuses differ in more than what changes all the time: the heartbeat, the load, and the terms of
/// the same leases.
pub(super) fn is_news(before: &Value, after: &Value) -> bool {
    let lasting = |status: &Value| {
        let mut status = status.clone();
        if let Some(fields) = status.as_object_mut() {
            fields.retain(|name, _| !matches!(name.as_str(), "heartbeat" | "load"));
        }
        for lease in status["leases"].as_array_mut().into_iter().flatten() {
            *lease = lease["name"].take();
        }
        status
    };
    lasting(before) != lasting(after)
}

impl Moment {
    /// Returns the time of day of a moment of the past, as RFC 3339 in whole seconds.
    fn at(&self, then: Duration) -> String {
        let time = self.time.checked_sub(self.now.saturating_sub(then)).unwrap_or(self.time);
        let time = jiff::Timestamp::try_from(time).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        format!("{time:.0}")
    }
}

/// Returns a load in cores, from thousandths of a core.
fn cores(millicores: u32) -> String {
    format!("{:.2}", f64::from(millicores) / 1000.0)
}
