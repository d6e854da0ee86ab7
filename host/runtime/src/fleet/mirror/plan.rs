//! What is written of the hosts, and when. Pure: times are arguments.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use homeostat_fleet::Identity;
use homeostat_store::Revision;
use serde_json::Value;

use super::document::{self, Departure, Moment};
use crate::fleet::roster::{HOSTS_MAX, SharingHost};

/// The time in which a heartbeat or a load alone is written once.
const REFRESH_PERIOD: Duration = Duration::from_secs(60);
/// How long a host that is gone is shown.
const GONE_TIME: Duration = Duration::from_secs(60 * 60);

/// What this host knows of the hosts at a moment.
pub(super) struct FleetView {
    /// This host, and those that renew leases.
    pub(super) hosts: Vec<SharingHost>,
    pub(super) this: Identity,
    /// The names of the hosts that have released their own leases.
    pub(super) released: BTreeSet<String>,
    /// When a host that is not seen is gone: this host may have begun only now.
    pub(super) complete_at: Duration,
}

/// A stored resource.
#[derive(Clone, Debug)]
pub(super) struct KnownHost {
    pub(super) uid: String,
    pub(super) revision: Revision,
    pub(super) status: Value,
    /// When this run of the host wrote it; `None` if it has not.
    pub(super) written: Option<Duration>,
}

/// What is to be done.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    /// When to look again, if nothing happens.
    pub(super) next: Option<Duration>,
}

/// One change of a resource.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Writes the status of a resource, which is created if there is none.
    Write {
        /// Its name.
        name: String,
        /// Its status.
        status: Value,
    },
    /// Deletes a resource.
    Delete {
        /// Its name.
        name: String,
    },
}

impl Plan {
    fn look_after(&mut self, wait: Duration) {
        self.next = Some(self.next.map_or(wait, |next| next.min(wait)));
    }
}

/// Plans the changes of the stored resources, by name.
///
/// There are at most [`HOSTS_MAX`] resources: this host, then those that renew leases in the order of their names, then
/// those that are gone, the last one first.
pub(super) fn plan(known: &BTreeMap<String, KnownHost>, view: &FleetView, moment: &Moment) -> Plan {
    let mut plan = Plan::default();
    let shown = shown(view);
    for (name, host) in &shown {
        let known = known.get(*name);
        let before = known.map_or(&Value::Null, |known| &known.status);
        let status = document::of_host(before, host, host.identity == view.this, moment);
        let written = known.and_then(|known| known.written);
        let is_due = written.is_none_or(|written| moment.now.saturating_sub(written) >= REFRESH_PERIOD);
        if status != *before && (is_due || document::is_news(before, &status)) {
            plan.steps.push(Step::Write { name: (*name).to_owned(), status });
        }
    }
    let live: BTreeSet<&str> = view.hosts.iter().map(|host| host.identity.host()).collect();
    let mut gone: Vec<_> = known.iter().filter(|(name, _)| !shown.contains_key(name.as_str())).collect();
    gone.sort_by_key(|(_, host)| document::gone_for(&host.status, moment));
    for (place, (name, host)) in gone.into_iter().enumerate() {
        let gone_for = document::gone_for(&host.status, moment);
        let is_gone = document::is_gone(&host.status);
        if live.contains(name.as_str()) || shown.len() + place >= HOSTS_MAX || is_gone && gone_for >= GONE_TIME {
            plan.steps.push(Step::Delete { name: name.clone() });
        } else if is_gone {
            plan.look_after(GONE_TIME - gone_for);
        } else if let Some(departure) = departure(name, host, view, moment) {
            let status = document::of_gone_host(&host.status, departure, moment);
            plan.steps.push(Step::Write { name: name.clone(), status });
            plan.look_after(GONE_TIME);
        } else {
            plan.look_after(view.complete_at.saturating_sub(moment.now));
        }
    }
    plan
}

/// Returns the hosts that have a resource, by name. Of two runs with one name the later one counts, and this host in any
/// case.
fn shown(view: &FleetView) -> BTreeMap<&str, &SharingHost> {
    let mut by_name: BTreeMap<&str, &SharingHost> = BTreeMap::new();
    let rank = |host: &SharingHost| (host.identity == view.this, host.renewed);
    for host in view.hosts.iter().filter(|host| is_resource_name(host.identity.host())) {
        let found = by_name.entry(host.identity.host()).or_insert(host);
        if rank(host) > rank(found) {
            *found = host;
        }
    }
    let this = by_name.remove_entry(view.this.host());
    let others = HOSTS_MAX - usize::from(this.is_some());
    by_name.into_iter().take(others).chain(this).collect()
}

/// Returns why a host that is not seen is gone; `None` while it may still be seen.
fn departure(name: &str, host: &KnownHost, view: &FleetView, moment: &Moment) -> Option<Departure> {
    if view.released.contains(name) {
        return Some(Departure::Released);
    }
    // This host had another name.
    let was_this = host.status["isThis"] == true;
    (was_this || moment.now >= view.complete_at).then_some(Departure::Expired)
}

/// Returns whether a resource can have this name. The holder of a lease that another program took can have any.
fn is_resource_name(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let ends = bytes.first().zip(bytes.last());
        ends.is_some_and(|(first, last)| is_inner(*first) && is_inner(*last))
            && bytes.iter().all(|byte| is_inner(*byte) || *byte == b'-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests;
