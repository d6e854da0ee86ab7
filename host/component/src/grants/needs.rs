//! What a controller was seen to ask for: bounded, whatever it asks for.
//!
//! Each thing is kept by its names for as long as there are few: [`PLACES_MAX`] of a verb and a kind, as many of a method and a host. One
//! more, and its names are taken together; still too many, and its namespaces are, or all of a host's addresses. What has been taken together is written `*`.
//! Above [`CELLS_MAX`] verbs and kinds, or methods and hosts, nothing new is kept, and [`NeedsSnapshot::more`] says so.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::ask::Attempt;
use super::{Verb, advice, pattern};

/// Pairs of verb and kind, and of method and host, that are kept.
const CELLS_MAX: usize = 128;
/// Namespaces and names that are kept for each of them.
const PLACES_MAX: usize = 64;
/// Names of settings that are kept, and files, addresses and names that no controller has.
const SETTINGS_MAX: usize = 64;
/// Bytes of an address, or of a name, that is kept. Longer ones are taken together.
const TEXT_BYTES_MAX: usize = 256;
/// What was taken together.
const ANY: &str = "*";

/// Everything that a controller was seen to ask for. A few KiB for most; 8 MiB for one that asks for as much as it can.
#[derive(Debug, Default)]
pub struct Needs(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// By verb, group and name of the kind.
    resources: Vec<((Verb, String, String), Places)>,
    /// By method and the beginning of the address up to the path.
    http: Vec<((String, String), Places)>,
    settings: BTreeSet<String>,
    clock: u64,
    random: u64,
    absent: BTreeSet<String>,
    more: bool,
}

/// Counts by namespace, then name; or by path, then nothing.
#[derive(Debug, Default)]
struct Places {
    by_namespace: BTreeMap<String, BTreeMap<String, NeedCounts>>,
    names_are_one: bool,
    namespaces_are_one: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct NeedCounts {
    asked: u64,
    denied: u64,
}

/// What was seen, as plain data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NeedsSnapshot {
    /// Of resources, in the order of verb and kind.
    pub resources: Vec<ResourceNeed>,
    /// Of HTTP requests, in the order of method and address.
    pub http: Vec<HttpNeed>,
    /// Names of settings that were read; `*` stands for all at once.
    pub settings: Vec<String>,
    /// How often a clock was read.
    pub clock: u64,
    /// How often randomness was drawn.
    pub random: u64,
    /// What was reached for and no controller has: `file "/etc/hosts"`.
    #[serde(default)]
    pub absent: Vec<String>,
    /// There was more than is kept.
    pub more: bool,
}

/// One thing that was done, or tried, to resources.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceNeed {
    /// What.
    pub verb: Verb,
    /// As grants name it: `apps/Deployment`, `Pod`.
    pub kind: String,
    /// Where; empty outside of namespaces, `*` for all or many.
    pub namespace: String,
    /// To which; `*` for all or many.
    pub name: String,
    /// How often.
    pub asked: u64,
    /// How many of these were denied.
    pub denied: u64,
}

/// One thing that was asked of a server, or tried.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpNeed {
    /// How, in capitals.
    pub method: String,
    /// The address without its query; it ends with `/*` where many were taken together.
    pub url: String,
    /// How often.
    pub asked: u64,
    /// How many of these were denied.
    pub denied: u64,
}

impl Needs {
    /// Keeps one thing that was asked for.
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
                        // Nothing of it can be proposed: a pattern that a guest wrote would be granted as one.
                        inner.more = true;
                        return;
                    }
                    let (namespace, name) = (request.namespace.unwrap_or(ANY), request.name.unwrap_or(ANY));
                    let (verb, group, kind) = (request.verb, &request.kind.group, &request.kind.name);
                    let is_it = |cell: &(Verb, String, String)| cell.0 == verb && cell.1 == *group && cell.2 == *kind;
                    let new = || (verb, group.clone(), kind.clone());
                    if let Some(places) = cell(&mut inner.resources, is_it, new) {
                        places.record(namespace, name, denied);
                    } else {
                        inner.more = true;
                    }
                }
            }
        }
    }

    /// Forgets everything.
    pub fn clear(&self) {
        *self.0.lock() = Inner::default();
    }

    /// Returns what was seen until now.
    pub fn snapshot(&self) -> NeedsSnapshot {
        let inner = self.0.lock();
        let mut resources: Vec<ResourceNeed> = Vec::new();
        for ((verb, group, name), places) in &inner.resources {
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
        for ((method, host), places) in &inner.http {
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
        match cell(&mut self.http, |cell: &(String, String)| cell.0 == method && cell.1 == host, new) {
            Some(places) => places.record(path, "", denied),
            None => self.more = true,
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

/// Returns the places of a cell, which is made where there is room.
fn cell<C>(cells: &mut Vec<(C, Places)>, is_it: impl Fn(&C) -> bool, new: impl FnOnce() -> C) -> Option<&mut Places> {
    let at = match cells.iter().position(|(cell, _)| is_it(cell)) {
        Some(at) => at,
        None if cells.len() >= CELLS_MAX => return None,
        None => {
            cells.push((new(), Places::default()));
            cells.len() - 1
        }
    };
    Some(&mut cells[at].1)
}

impl Places {
    fn record(&mut self, namespace: &str, name: &str, denied: bool) {
        // A guest may write a star into a name, which is no pattern there.
        let is_plain = |text: &str| text.len() <= TEXT_BYTES_MAX && (text == ANY || !text.contains(ANY));
        if !is_plain(name) {
            self.merge_names();
        }
        if !is_plain(namespace) {
            self.merge_namespaces();
        }
        let namespace = if self.namespaces_are_one { ANY } else { namespace };
        let name = if self.names_are_one { ANY } else { name };
        match self.by_namespace.get_mut(namespace).and_then(|names| names.get_mut(name)) {
            Some(counts) => counts.add(denied),
            None => {
                let names = self.by_namespace.entry(namespace.to_owned()).or_default();
                names.entry(name.to_owned()).or_default().add(denied);
                self.shrink();
            }
        }
    }

    fn shrink(&mut self) {
        let count = |places: &Self| places.by_namespace.values().map(BTreeMap::len).sum::<usize>();
        if count(self) > PLACES_MAX {
            self.merge_names();
        }
        if count(self) > PLACES_MAX {
            self.merge_namespaces();
        }
    }

    fn merge_names(&mut self) {
        self.names_are_one = true;
        for names in self.by_namespace.values_mut() {
            let sum = NeedCounts::sum(names.values());
            *names = [(ANY.to_owned(), sum)].into();
        }
    }

    fn merge_namespaces(&mut self) {
        self.merge_names();
        self.namespaces_are_one = true;
        let sum = NeedCounts::sum(self.by_namespace.values().flat_map(BTreeMap::values));
        self.by_namespace = [(ANY.to_owned(), [(ANY.to_owned(), sum)].into())].into();
    }

    fn each(&self) -> impl Iterator<Item = (&str, &str, NeedCounts)> {
        self.by_namespace.iter().flat_map(|(namespace, names)| {
            names.iter().map(move |(name, counts)| (namespace.as_str(), name.as_str(), *counts))
        })
    }
}

impl NeedCounts {
    fn add(&mut self, denied: bool) {
        self.asked += 1;
        self.denied += u64::from(denied);
    }

    fn sum<'a>(all: impl Iterator<Item = &'a Self>) -> Self {
        all.fold(Self::default(), |sum, counts| Self {
            asked: sum.asked + counts.asked,
            denied: sum.denied + counts.denied,
        })
    }
}

impl NeedsSnapshot {
    /// Returns what is in this and was not in `before`, a look at the same needs: what was asked for since.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut since = self.clone();
        for need in &mut since.resources {
            let is_same = |known: &&ResourceNeed| {
                (known.verb, &known.kind, &known.namespace, &known.name)
                    == (need.verb, &need.kind, &need.namespace, &need.name)
            };
            if let Some(known) = before.resources.iter().find(is_same) {
                need.asked = need.asked.saturating_sub(known.asked);
                need.denied = need.denied.saturating_sub(known.denied);
            }
        }
        for need in &mut since.http {
            let is_same = |known: &&HttpNeed| (&known.method, &known.url) == (&need.method, &need.url);
            if let Some(known) = before.http.iter().find(is_same) {
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

    /// Returns whether nothing was seen that needs a grant.
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.http.is_empty()
    }
}

#[cfg(test)]
mod tests;
