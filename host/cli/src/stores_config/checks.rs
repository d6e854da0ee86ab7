//! The checks of a file of stores: from what is written to what is meant.

use std::collections::BTreeMap;
use std::path::Path;
#[cfg(any(feature = "kubernetes", feature = "nats"))]
use std::path::PathBuf;
use std::sync::Arc;

use homeostat_runtime::manifest::API_VERSION;
#[cfg(any(feature = "kubernetes", feature = "nats"))]
use homeostat_store::Error;
use homeostat_store::routes::{HOME, KindPattern, RouteError, Routes, Rule};
use homeostat_store::{STORES_MAX, View};

#[cfg(not(all(feature = "kubernetes", feature = "nats")))]
use super::absent::AbsentEntry;
#[cfg(feature = "kubernetes")]
use super::kubernetes::KubernetesEntry;
#[cfg(feature = "nats")]
use super::nats::NatsEntry;
use super::parse::{CachedView, KIND, RouteEntry, StoreEntry, StoresManifest};
use super::{NamedStore, Storage};
use crate::manifest::{Problem, SingleDocument, TextPosition};

/// Characters of a name, at most: that of a DNS label.
const NAME_MAX: usize = 63;

/// A checked file.
pub(super) struct ValidStores {
    pub(super) stores: Vec<NamedStore>,
    pub(super) routes: Routes,
    /// The position of the pattern of each rule.
    pub(super) rule_places: Vec<TextPosition>,
}

/// What the settings of a store are completed with.
pub(super) struct Context<'a> {
    /// The folder of the file, from which relative paths begin.
    #[cfg_attr(
        not(any(feature = "kubernetes", feature = "nats")),
        expect(dead_code, reason = "stores that are far away read it")
    )]
    pub(super) folder: &'a Path,
    /// The folder of secrets.
    #[cfg_attr(not(feature = "nats"), expect(dead_code, reason = "only settings of NATS name secrets"))]
    pub(super) secrets: Option<&'a Path>,
}

#[cfg(any(feature = "kubernetes", feature = "nats"))]
impl Context<'_> {
    /// Returns the path of a file that the settings name.
    pub(super) fn path(&self, named: &Path) -> PathBuf {
        self.folder.join(named)
    }
}

/// A setting that cannot be used.
pub(super) struct Fault {
    /// The dotted path below the settings of the store.
    path: String,
    reason: String,
}

impl Fault {
    pub(super) fn new(path: &str, reason: impl Into<String>) -> Self {
        Self { path: path.to_owned(), reason: reason.into() }
    }

    /// Returns the fault that the settings of a store report.
    #[cfg(any(feature = "kubernetes", feature = "nats"))]
    pub(super) fn of(error: Error) -> Self {
        match error {
            // An item of a list is `foreign[0]` there.
            Error::Invalid { path, reason } => {
                Self { reason: format!("`{path}` {reason}"), path: path.replace('[', ".").replace(']', "") }
            }
            other => Self::new("", other.to_string()),
        }
    }
}

/// Checks a file.
///
/// # Errors
/// Every problem, with its position.
pub(super) fn check(
    document: &SingleDocument<StoresManifest>,
    context: &Context<'_>,
) -> Result<ValidStores, Vec<Problem>> {
    let mut checks = Checks { document, context, problems: Vec::new() };
    checks.header();
    let stores = checks.stores();
    let (routes, rule_places) = checks.routes();
    checks.foreign(&stores, &routes);
    let Checks { mut problems, .. } = checks;
    if problems.is_empty() {
        return Ok(ValidStores { stores, routes, rule_places });
    }
    problems.sort_by_key(|problem| (problem.line, problem.column));
    Err(problems)
}

struct Checks<'a> {
    document: &'a SingleDocument<StoresManifest>,
    #[cfg_attr(
        not(any(feature = "kubernetes", feature = "nats")),
        expect(dead_code, reason = "stores that are far away read it")
    )]
    context: &'a Context<'a>,
    problems: Vec<Problem>,
}

impl Checks<'_> {
    fn problem(&mut self, path: &str, message: impl Into<String>) {
        self.problems.push(self.document.problem(path, message));
    }

    fn header(&mut self) {
        let StoresManifest { api_version, kind, .. } = &self.document.value;
        if api_version != API_VERSION {
            self.problem("apiVersion", format!("expected `{API_VERSION}`, found {api_version:?}"));
        }
        if kind != KIND {
            self.problem("kind", format!("expected `{KIND}`, found {kind:?}: this is the file of the host's stores"));
        }
    }

    fn stores(&mut self) -> Vec<NamedStore> {
        let mut lines: BTreeMap<&str, u64> = BTreeMap::new();
        let mut stores = Vec::new();
        let entries = &self.document.value.stores;
        if entries.len() >= STORES_MAX {
            let most = STORES_MAX - 1;
            self.problem(
                "stores",
                format!("a host has at most {most} stores besides its own, found {}", entries.len()),
            );
        }
        for (at, entry) in entries.iter().enumerate() {
            let path = format!("stores.{at}");
            let name_path = format!("{path}.name");
            let name = entry.name.as_str();
            if let Some(reason) = bad_name(name) {
                self.problem(&name_path, reason);
            }
            if let Some(line) = lines.get(name) {
                self.problem(
                    &name_path,
                    format!("there are two stores with the name {name:?}: the other one is in line {line}"),
                );
            }
            lines.entry(name).or_insert(self.document.place(&name_path).line);
            let cache_bytes_max = entry.cache.bytes_max.map(|bytes| bytes.0);
            if cache_bytes_max == Some(0) {
                self.problem(&format!("{path}.cache.bytesMax"), "a cache of 0 bytes can have no resource");
            }
            if let Some(storage) = self.storage(&path, entry) {
                stores.push(NamedStore { name: name.into(), storage, cache_bytes_max });
            }
        }
        stores
    }

    /// Returns where the store keeps its resources.
    fn storage(&mut self, path: &str, entry: &StoreEntry) -> Option<Storage> {
        let StoreEntry { name, memory, nats, kubernetes, cache: _ } = entry;
        let (field, storage) = match (memory, nats, kubernetes) {
            (Some(_), None, None) => return Some(Storage::Memory),
            (None, Some(nats), None) => ("nats", self.nats(name, nats)),
            (None, None, Some(kubernetes)) => ("kubernetes", self.kubernetes(name, kubernetes)),
            _ => {
                let message =
                    format!("store {name:?} needs one place for its resources: `nats`, `kubernetes` or `memory`");
                self.problem(path, message);
                return None;
            }
        };
        storage
            .map_err(|Fault { path: inner, reason }| {
                let path = if inner.is_empty() { format!("{path}.{field}") } else { format!("{path}.{field}.{inner}") };
                self.problem(&path, reason);
            })
            .ok()
    }

    #[cfg(feature = "nats")]
    fn nats(&self, name: &str, entry: &NatsEntry) -> Result<Storage, Fault> {
        Ok(Storage::Nats(Box::new(entry.settings(name, self.context)?)))
    }

    #[cfg(not(feature = "nats"))]
    fn nats(&self, _: &str, _: &AbsentEntry) -> Result<Storage, Fault> {
        Err(Fault::new("", "this program was built without stores in NATS, which its feature `nats` adds"))
    }

    #[cfg(feature = "kubernetes")]
    fn kubernetes(&self, name: &str, entry: &KubernetesEntry) -> Result<Storage, Fault> {
        Ok(Storage::Kubernetes(Box::new(entry.settings(name, self.context)?)))
    }

    #[cfg(not(feature = "kubernetes"))]
    fn kubernetes(&self, _: &str, _: &AbsentEntry) -> Result<Storage, Fault> {
        Err(Fault::new("", "this program was built without stores in Kubernetes, which its feature `kubernetes` adds"))
    }

    /// Checks that the kinds that follow the values of other programs live in the store that reads these.
    fn foreign(&mut self, stores: &[NamedStore], routes: &Routes) {
        for NamedStore { name, storage, .. } in stores {
            let at = self.document.value.stores.iter().position(|entry| *entry.name == **name).unwrap_or_default();
            for (path, kind) in storage.foreign() {
                let lives_in = routes.of(&kind).store;
                if lives_in != *name {
                    let message = format!("{kind} lives in store {lives_in}: a rule has to send it to store {name}");
                    self.problem(&format!("stores.{at}.{path}"), message);
                }
            }
        }
    }

    /// Returns the routes, and the position of the pattern of each rule.
    fn routes(&mut self) -> (Routes, Vec<TextPosition>) {
        let entries = &self.document.value.stores;
        // Only a cluster has namespaces of its own.
        let has_namespaces = |name: &str| entries.iter().any(|entry| entry.name == name && entry.kubernetes.is_some());
        let (mut rules, mut paths) = (Vec::new(), Vec::new());
        for (at, entry) in self.document.value.routes.iter().enumerate() {
            let path = format!("routes.{at}");
            self.check_store(&path, entry);
            if entry.kinds.is_empty() {
                self.problem(&format!("{path}.kinds"), "expected one pattern or more, as `apps/*`");
            }
            let view = match entry.view {
                CachedView::Whole => View::Whole,
                CachedView::Metadata => View::Metadata,
            };
            let store: Arc<str> = entry.store.as_str().into();
            for (number, text) in entry.kinds.iter().enumerate() {
                let path = format!("{path}.kinds.{number}");
                match text.parse::<KindPattern>() {
                    Ok(pattern) => {
                        if pattern.names_namespaces() && *store != *HOME && !has_namespaces(&store) {
                            self.problem(
                                &path,
                                format!("{pattern} lives in `{HOME}`, or in a cluster that has namespaces of its own"),
                            );
                        }
                        rules.push(Rule { pattern, store: Arc::clone(&store), view });
                        paths.push(path);
                    }
                    Err(error) => self.problem(&path, error.to_string()),
                }
            }
        }
        let places: Vec<TextPosition> = paths.iter().map(|path| self.document.place(path)).collect();
        let routes = Routes::new(rules).unwrap_or_else(|error| {
            self.report_rule(&error, &paths, &places);
            Routes::default()
        });
        (routes, places)
    }

    fn check_store(&mut self, path: &str, entry: &RouteEntry) {
        let known = &self.document.value.stores;
        if entry.store == HOME || known.iter().any(|store| store.name == entry.store) {
            return;
        }
        let names: Vec<&str> = [HOME].into_iter().chain(known.iter().map(|store| store.name.as_str())).collect();
        let message = format!("there is no store {:?}: there are {}", entry.store, names.join(", "));
        self.problem(&format!("{path}.store"), message);
    }

    fn report_rule(&mut self, error: &RouteError, paths: &[String], places: &[TextPosition]) {
        let path = paths.get(error.rule()).map_or("routes", String::as_str);
        let earlier = match error {
            RouteError::Unreachable { earlier, .. } => format!(" (line {})", places[*earlier].line),
            RouteError::Reserved { .. } | RouteError::TooMany => String::new(),
        };
        self.problem(path, format!("{error}{earlier}"));
    }
}

/// Returns why a store cannot have this name.
fn bad_name(name: &str) -> Option<String> {
    if name == HOME {
        return Some(format!("`{HOME}` is the host's own store, which `--store` chooses"));
    }
    let is_label = (1..=NAME_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-');
    (!is_label).then(|| {
        format!("the name {name:?} must be 1 to {NAME_MAX} lower-case letters, digits and `-`, and begin and end with a letter or digit")
    })
}
