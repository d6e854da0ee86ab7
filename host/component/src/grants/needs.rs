//! A record of the accesses that a controller attempted, bounded for any controller.
//!
//! Each access is recorded by its names while these are few: [`PLACES_MAX`] per verb and kind, and as many
//! per method and host. Beyond that, first the names of a verb and kind are merged, then its namespaces; for
//! HTTP, all URLs of a host. Merged values are written `*`. Above [`PLACES_BYTES_MAX`] of all names, the cell
//! that grew is merged at once. Above [`CELLS_MAX`] verbs and kinds, or methods and hosts, nothing new is
//! recorded, and [`NeedsSnapshot::more`] is set.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::attempt::Attempt;
use super::{Verb, advice, pattern};

/// Recorded pairs of verb and kind, and of method and host.
const CELLS_MAX: usize = 128;
/// Recorded namespaces and names for each of them.
const PLACES_MAX: usize = 64;
/// Recorded names of settings, and of files, addresses and host names.
const SETTINGS_MAX: usize = 64;
/// Bytes of a recorded URL or name. Longer ones are merged.
const TEXT_BYTES_MAX: usize = 256;
/// The maximum bytes of all namespaces and names of resources, and likewise of all URLs.
const PLACES_BYTES_MAX: u64 = 320 << 10;
/// Bytes of a namespace and a name beside their texts, with their counts.
const PLACE_BYTES: u64 = 160;
/// Maximum bytes of a controller's needs: twice `PLACES_BYTES_MAX`, and the rest for cells and settings.
pub const BYTES_MAX: u64 = 1 << 20;
/// The mark of merged values.
const ANY: &str = "*";

/// The accesses that a controller attempted. A few KiB for most; [`BYTES_MAX`] for one that attempts as many
/// as it can.
#[derive(Debug, Default)]
pub struct Needs(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// By verb, group and name of the kind.
    resources: Cells<(Verb, String, String)>,
    /// By method and the URL up to the path.
    http: Cells<(String, String)>,
    settings: BTreeSet<String>,
    clock: u64,
    random: u64,
    absent: BTreeSet<String>,
    more: bool,
}

/// Recorded accesses by cell: a pair of verb and kind, or of method and host.
#[derive(Debug)]
struct Cells<C> {
    all: Vec<(C, Places)>,
}

/// Counts by place: a namespace and a name, or a path and an empty text.
#[derive(Debug, Default)]
struct Places {
    all: Vec<(String, String, NeedCounts)>,
    /// The bytes that the places take.
    bytes: u64,
    names_are_one: bool,
    namespaces_are_one: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct NeedCounts {
    asked: u64,
    denied: u64,
}

/// A snapshot of the recorded accesses, as plain data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NeedsSnapshot {
    /// Accesses to resources, ordered by verb and kind.
    pub resources: Vec<ResourceNeed>,
    /// HTTP requests, ordered by method and URL.
    pub http: Vec<HttpNeed>,
    /// Names of settings that were read; `*` stands for reading all at once.
    pub settings: Vec<String>,
    /// The number of clock reads.
    pub clock: u64,
    /// The number of reads of randomness.
    pub random: u64,
    /// Files, addresses and host names that the guest tried to use: `file "/etc/hosts"`.
    #[serde(default)]
    pub absent: Vec<String>,
    /// There was more than can be recorded.
    pub more: bool,
}

/// An access to resources, allowed or denied.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceNeed {
    /// The verb.
    pub verb: Verb,
    /// The kind in the form of grants: `apps/Deployment`, `Pod`.
    pub kind: String,
    /// The namespace; empty for cluster-scoped resources, `*` for all or many.
    pub namespace: String,
    /// The name; `*` for all or many.
    pub name: String,
    /// The number of attempts.
    pub asked: u64,
    /// The number of denied ones.
    pub denied: u64,
}

impl ResourceNeed {
    /// Returns what was accessed, without how many times: at most one need of a record has it.
    fn place(&self) -> (Verb, &str, &str, &str) {
        (self.verb, &self.kind, &self.namespace, &self.name)
    }
}

/// An HTTP request, allowed or denied.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpNeed {
    /// The method in capitals.
    pub method: String,
    /// The URL without its query; it ends with `/*` if several were merged.
    pub url: String,
    /// The number of attempts.
    pub asked: u64,
    /// The number of denied ones.
    pub denied: u64,
}

impl HttpNeed {
    /// Returns what was requested, without how many times: at most one need of a record has it.
    fn place(&self) -> (&str, &str) {
        (&self.method, &self.url)
    }
}

impl Needs {
    /// Records one attempted access.
    pub(crate) fn record(&self, ask: &Attempt, denied: bool) {
        let mut inner = self.0.lock();
        match ask {
            Attempt::Http { method, url } => inner.http(method, url, denied),
            Attempt::Settings { key } => inner.setting(key.as_deref().unwrap_or(ANY)),
            Attempt::Clock => inner.clock += 1,
            Attempt::Random => inner.random += 1,
            Attempt::Absent(absent) => inner.absent(absent.to_string()),
            Attempt::Resource { .. } | Attempt::Resources { .. } | Attempt::Telemetry => {
                if let Some(request) = ask.request() {
                    if !request.has_names() {
                        // It cannot be proposed as a grant: a pattern written by a guest would be granted as
                        // a pattern.
                        inner.more = true;
                        return;
                    }
                    let (namespace, name) = (request.namespace.unwrap_or(ANY), request.name.unwrap_or(ANY));
                    let (verb, group, kind) = (request.verb, &request.kind.group, &request.kind.name);
                    let is_it = |cell: &(Verb, String, String)| cell.0 == verb && cell.1 == *group && cell.2 == *kind;
                    let new = || (verb, group.clone(), kind.clone());
                    if !inner.resources.record(is_it, new, (namespace, name), denied) {
                        inner.more = true;
                    }
                }
            }
        }
    }

    /// Clears the record.
    pub fn clear(&self) {
        *self.0.lock() = Inner::default();
    }

    /// Returns the record so far.
    pub fn snapshot(&self) -> NeedsSnapshot {
        let inner = self.0.lock();
        let mut resources: Vec<ResourceNeed> = Vec::new();
        for ((verb, group, name), places) in &inner.resources.all {
            let kind = if group.is_empty() { name.clone() } else { format!("{group}/{name}") };
            resources.extend(places.each().map(|(namespace, name, NeedCounts { asked, denied })| ResourceNeed {
                verb: *verb,
                kind: kind.clone(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                asked,
                denied,
            }));
        }
        let mut http: Vec<HttpNeed> = Vec::new();
        for ((method, host), places) in &inner.http.all {
            http.extend(places.each().map(|(path, _, NeedCounts { asked, denied })| {
                let path = if path == ANY { "/*" } else { path };
                HttpNeed { method: method.clone(), url: format!("{host}{path}"), asked, denied }
            }));
        }
        let (clock, random, more) = (inner.clock, inner.random, inner.more);
        let settings = inner.settings.iter().cloned().collect();
        let absent = inner.absent.iter().cloned().collect();
        drop(inner);
        resources.sort_unstable();
        http.sort_unstable();
        NeedsSnapshot { resources, http, settings, clock, random, absent, more }
    }
}

impl Inner {
    fn http(&mut self, method: &str, url: &str, denied: bool) {
        let bare = url.split(['?', '#']).next().unwrap_or(url);
        let (host, path) = pattern::split(bare);
        if host.len() > TEXT_BYTES_MAX || !advice::is_method(method) || !pattern::is_url(host) || host.contains('*') {
            self.more = true;
            return;
        }
        let new = || (method.to_owned(), host.to_owned());
        let is_it = |cell: &(String, String)| cell.0 == method && cell.1 == host;
        if !self.http.record(is_it, new, (path, ""), denied) {
            self.more = true;
        }
    }

    fn setting(&mut self, key: &str) {
        if !self.settings.contains(key) {
            if self.settings.len() < SETTINGS_MAX && key.len() <= TEXT_BYTES_MAX {
                self.settings.insert(key.to_owned());
            } else {
                self.more = true;
            }
        }
    }

    fn absent(&mut self, what: String) {
        if self.absent.len() < SETTINGS_MAX {
            self.absent.insert(what);
        } else if !self.absent.contains(&what) {
            self.more = true;
        }
    }
}

impl<C> Cells<C> {
    /// Records one access in its cell, and creates the cell if there is room. Returns whether there was room.
    fn record(
        &mut self,
        is_it: impl Fn(&C) -> bool,
        new: impl FnOnce() -> C,
        (namespace, name): (&str, &str),
        denied: bool,
    ) -> bool {
        let at = match self.all.iter().position(|(cell, _)| is_it(cell)) {
            Some(at) => at,
            None if self.all.len() >= CELLS_MAX => return false,
            None => {
                self.all.push((new(), Places::default()));
                self.all.len() - 1
            }
        };
        let places = &mut self.all[at].1;
        if places.note(namespace, name, denied) {
            let bytes: u64 = self.all.iter().map(|(_, places)| places.bytes).sum();
            if bytes > PLACES_BYTES_MAX {
                self.all[at].1.merge_namespaces();
            }
        }
        true
    }
}

impl<C> Default for Cells<C> {
    fn default() -> Self {
        Self { all: Vec::new() }
    }
}

impl Places {
    /// Records one access. Returns whether it added a place.
    fn note(&mut self, namespace: &str, name: &str, denied: bool) -> bool {
        // A guest may use a star in a name, where it is no pattern.
        let is_plain = |text: &str| text.len() <= TEXT_BYTES_MAX && (text == ANY || !text.contains(ANY));
        if !is_plain(name) {
            self.merge_names();
        }
        if !is_plain(namespace) {
            self.merge_namespaces();
        }
        let namespace = if self.namespaces_are_one { ANY } else { namespace };
        let name = if self.names_are_one { ANY } else { name };
        if !self.put(namespace, name, NeedCounts { asked: 1, denied: u64::from(denied) }) {
            return false;
        }
        if self.all.len() > PLACES_MAX {
            self.merge_names();
        }
        if self.all.len() > PLACES_MAX {
            self.merge_namespaces();
        }
        true
    }

    fn merge_names(&mut self) {
        if !self.names_are_one {
            self.names_are_one = true;
            self.count_anew();
        }
    }

    fn merge_namespaces(&mut self) {
        if !self.namespaces_are_one {
            (self.names_are_one, self.namespaces_are_one) = (true, true);
            self.count_anew();
        }
    }

    /// Counts all places again under their merged names.
    fn count_anew(&mut self) {
        self.bytes = 0;
        for (namespace, name, counts) in std::mem::take(&mut self.all) {
            let namespace = if self.namespaces_are_one { ANY } else { &namespace };
            self.put(namespace, if self.names_are_one { ANY } else { &name }, counts);
        }
    }

    /// Adds counts to those of a place. Returns whether the place is new.
    fn put(&mut self, namespace: &str, name: &str, counts: NeedCounts) -> bool {
        if let Some((.., known)) = self.all.iter_mut().find(|place| place.0 == namespace && place.1 == name) {
            known.add(counts);
            return false;
        }
        self.bytes += PLACE_BYTES + (namespace.len() + name.len()) as u64;
        self.all.push((namespace.to_owned(), name.to_owned(), counts));
        true
    }

    fn each(&self) -> impl Iterator<Item = (&str, &str, NeedCounts)> {
        self.all.iter().map(|(namespace, name, counts)| (namespace.as_str(), name.as_str(), *counts))
    }
}

impl NeedCounts {
    fn add(&mut self, Self { asked, denied }: Self) {
        (self.asked, self.denied) = (self.asked + asked, self.denied + denied);
    }
}

impl NeedsSnapshot {
    /// Returns the accesses since `before`, an earlier snapshot of the same record.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut since = self.clone();
        for need in &mut since.resources {
            if let Some(known) = before.resources.iter().find(|known| known.place() == need.place()) {
                need.asked = need.asked.saturating_sub(known.asked);
                need.denied = need.denied.saturating_sub(known.denied);
            }
        }
        for need in &mut since.http {
            if let Some(known) = before.http.iter().find(|known| known.place() == need.place()) {
                need.asked = need.asked.saturating_sub(known.asked);
                need.denied = need.denied.saturating_sub(known.denied);
            }
        }
        since.resources.retain(|need| need.asked > 0);
        since.http.retain(|need| need.asked > 0);
        since.clock = since.clock.saturating_sub(before.clock);
        since.random = since.random.saturating_sub(before.random);
        since
    }

    /// Adds the accesses that another host has recorded. Bounded by the bounds of both records.
    pub fn add(&mut self, other: Self) {
        let Self { resources, http, settings, clock, random, absent, more } = other;
        for need in resources {
            match self.resources.iter_mut().find(|known| known.place() == need.place()) {
                Some(known) => {
                    known.asked = known.asked.saturating_add(need.asked);
                    known.denied = known.denied.saturating_add(need.denied);
                }
                None => self.resources.push(need),
            }
        }
        for need in http {
            match self.http.iter_mut().find(|known| known.place() == need.place()) {
                Some(known) => {
                    known.asked = known.asked.saturating_add(need.asked);
                    known.denied = known.denied.saturating_add(need.denied);
                }
                None => self.http.push(need),
            }
        }
        self.resources.sort();
        self.http.sort();
        for (own, more) in [(&mut self.settings, settings), (&mut self.absent, absent)] {
            *own = std::mem::take(own).into_iter().chain(more).collect::<BTreeSet<_>>().into_iter().collect();
        }
        self.clock = self.clock.saturating_add(clock);
        self.random = self.random.saturating_add(random);
        self.more |= more;
    }

    /// Returns whether no recorded access needs a grant.
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.http.is_empty()
    }
}

#[cfg(test)]
mod tests;
