//! Reports the progress of a host: a live table on a terminal, otherwise one line for each interesting
//! change.
//!
//! Polls the host a few times a second; the host knows nothing of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use homeostat_component::{Level, Severity};
use homeostat_runtime::events::{EventFilter, EventSource};
use homeostat_runtime::{ControllerState, ControllerStatus, Host};
use homeostat_store::{EventType, Key, Kind, Query, Revision};

use crate::dev_table::{self, ControllerRow, KindRows};
use crate::terminal::Screen;

mod idle_detector;
mod kind_watches;
mod warnings;

pub(crate) use idle_detector::IdleDetector;
use kind_watches::KindWatches;
use warnings::Warnings;

/// The polling interval.
pub(crate) const REPORT_EVERY: Duration = Duration::from_millis(200);
/// How long a poll waits for the next change in the store. A later change is left to the next poll.
const AT_ONCE: Duration = Duration::from_millis(10);
/// A compilation is reported after it has run for this long.
const COMPILING_MIN: Duration = Duration::from_secs(1);
/// Resources of one kind to show, at most.
const ROWS_MAX: usize = 20;
/// Lines to print in one poll, at most. The rest is counted.
const LINES_MAX: usize = 50;
/// Resources whose last line is remembered, at most. Beyond that, lines may be repeated.
const REPORTED_MAX: usize = 10_000;

/// The reasons of events about the progress of a rollout.
const ROLLOUT_REASONS: [&str; 4] = ["Shadow", "Canary", "Promoted", "CanaryEnded"];
/// The reason of events about a refused definition. The folder reports those in detail.
const REFUSED: &str = "Refused";
/// The reason of events about a rollback.
const ROLLED_BACK: &str = "RolledBack";

/// Reports the progress of a host.
pub(crate) struct ProgressReporter {
    host: Host,
    screen: Screen,
    last_event: u64,
    last_log: u64,
    last_events: HashMap<String, String>,
    states: HashMap<String, ControllerState>,
    /// Controllers whose running compilation has been reported.
    reported_compiling: BTreeSet<String>,
    warnings: Warnings,
    /// The component generations to which the warnings belong.
    generations: HashMap<String, u64>,
    watches: KindWatches,
    /// The last line about each resource.
    reported: HashMap<Key, String>,
    /// The rows of the resources, with the revisions of the stores at which they were read.
    rows: (Vec<Option<Revision>>, Vec<KindRows>),
}

impl ProgressReporter {
    /// Returns a reporter of changes from now on.
    pub(crate) fn start(host: Host, screen: Screen) -> Self {
        let store = host.store();
        let watches = KindWatches::new(store);
        Self {
            host,
            screen,
            last_event: 0,
            last_log: 0,
            last_events: HashMap::new(),
            states: HashMap::new(),
            reported_compiling: BTreeSet::new(),
            warnings: Warnings::default(),
            generations: HashMap::new(),
            watches,
            reported: HashMap::new(),
            rows: (Vec::new(), Vec::new()),
        }
    }

    /// Polls the host and reports changes. Returns the status of the controllers.
    pub(crate) async fn report(&mut self) -> Vec<ControllerStatus> {
        let controllers = self.host.controllers();
        self.forget_changed(&controllers);
        let mut lines = self.events();
        lines.extend(self.logs());
        if self.screen.is_live() {
            let table = self.table(controllers.clone()).await;
            self.screen.table(table);
        } else {
            lines.extend(self.controller_lines(&controllers));
            lines.extend(self.resource_lines(&controllers).await);
        }
        let hidden = lines.len().saturating_sub(LINES_MAX);
        lines.truncate(LINES_MAX);
        lines.iter().for_each(|line| self.screen.line(line));
        if hidden > 0 {
            self.screen.line(&format!("… and {hidden} more"));
        }
        controllers
    }

    /// Returns the current table.
    pub(crate) async fn table(&mut self, mut controllers: Vec<ControllerStatus>) -> Vec<String> {
        controllers.sort_by(|a, b| a.name.cmp(&b.name));
        let kinds = managed(&controllers);
        let revisions: Vec<_> = self.host.store().status().into_iter().map(|store| store.revision).collect();
        let known = self.rows.1.iter().map(|rows| &rows.kind).eq(&kinds);
        // A store without one order of all kinds has no revision that tells whether one of them has changed.
        if !known || self.rows.0 != revisions || revisions.contains(&None) {
            let mut rows = Vec::new();
            for kind in kinds {
                rows.push(self.kind_rows(kind).await);
            }
            self.rows = (revisions, rows);
        }
        let (mut compiling, mut rows) = (self.compiling(), Vec::new());
        for status in controllers {
            let last_event = self.last_events.get(&status.name).cloned().unwrap_or_default();
            let compiling = compiling.remove(&status.name);
            rows.push(ControllerRow { status, last_event, compiling });
        }
        dev_table::render(&rows, &compiling.into_iter().collect::<Vec<_>>(), &self.rows.1)
    }

    /// Returns the controllers whose component has been compiling for [`COMPILING_MIN`] or longer.
    fn compiling(&self) -> BTreeMap<String, Duration> {
        self.host.all_compiling().into_iter().filter(|(_, since)| *since >= COMPILING_MIN).collect()
    }

    async fn kind_rows(&self, kind: Kind) -> KindRows {
        let query = Query { limit: Some(ROWS_MAX), ..Query::all(kind.clone()) };
        // If the store cannot answer now, the next poll shows the rows.
        let (items, more) =
            self.host.store().list(&query).await.map_or((Vec::new(), false), |page| (page.items, page.next.is_some()));
        let rows = items.iter().map(|resource| (place(resource.key()), dev_table::summary(resource))).collect();
        KindRows { kind, rows, more }
    }

    /// Returns lines for new warnings and rollout steps, and records the last event of each controller.
    fn events(&mut self) -> Vec<String> {
        let events = self.host.events().list(&EventFilter { after: self.last_event, ..EventFilter::default() });
        let (mut lines, mut warnings) = (Vec::new(), Vec::new());
        for event in events {
            self.last_event = self.last_event.max(event.sequence);
            let first_line = event.message.lines().next().unwrap_or_default();
            self.last_events.insert(event.controller.to_string(), format!("{}: {first_line}", event.reason));
            let is_of_host = event.source == EventSource::Host;
            if is_of_host && ROLLOUT_REASONS.contains(&event.reason.as_str()) {
                lines.push(format!("controller/{} rollout: {}", event.controller, event.message));
            } else if is_of_host && event.reason == ROLLED_BACK {
                lines.push(format!("controller/{} rolled back: {}", event.controller, event.message));
            } else if event.severity == Severity::Warning && !(is_of_host && event.reason == REFUSED) {
                warnings.push(event);
            }
        }
        lines.extend(self.warnings.lines(&warnings));
        lines
    }

    /// Forgets the warnings of controllers whose component was swapped since the last poll.
    fn forget_changed(&mut self, controllers: &[ControllerStatus]) {
        for ControllerStatus { name, generation, .. } in controllers {
            if self.generations.insert(name.clone(), *generation).is_some_and(|before| before != *generation) {
                self.warnings.forget(name);
            }
        }
        let is_there = |name: &str| controllers.iter().any(|status| status.name == name);
        self.generations.retain(|name, _| is_there(name));
        self.last_events.retain(|name, _| is_there(name));
    }

    /// Returns the guests' log lines since the last poll.
    fn logs(&mut self) -> Vec<String> {
        let written = self.host.logs().tail(None, self.last_log, LINES_MAX);
        self.last_log = written.last().map_or(self.last_log, |line| line.sequence);
        let told = written.into_iter().filter(|line| line.level >= Level::Info);
        told.map(|line| {
            let key = line.key.as_ref().map(|key| format!(" {}", place(key))).unwrap_or_default();
            let fields: String = line.fields.iter().map(|(name, value)| format!(" {name}={value}")).collect();
            format!("[{}{key}] {}{fields}", line.controller, line.message)
        })
        .collect()
    }

    fn controller_lines(&mut self, controllers: &[ControllerStatus]) -> Vec<String> {
        let mut lines = Vec::new();
        let compiling = self.compiling();
        for name in compiling.keys().filter(|name| !self.reported_compiling.contains(*name)) {
            lines.push(format!("controller/{name} is being compiled"));
        }
        self.reported_compiling = compiling.into_keys().collect();
        for status in controllers {
            if self.states.insert(status.name.clone(), status.state) != Some(status.state) {
                let message = status.message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
                lines.push(format!("controller/{} {}{message}", status.name, dev_table::state_name(status.state)));
            }
        }
        self.states.retain(|name, _| controllers.iter().any(|status| status.name == *name));
        lines
    }

    /// Returns a line for each managed resource whose status summary changed.
    async fn resource_lines(&mut self, controllers: &[ControllerStatus]) -> Vec<String> {
        let kinds = managed(controllers);
        let mut lines = Vec::new();
        self.watches.watch_only(&self.host, &kinds);
        for event in self.watches.changes(AT_ONCE, REPORT_EVERY).await {
            let key = event.resource.key().clone();
            if event.kind == EventType::Deleted {
                self.reported.remove(&key);
                lines.push(format!("{} deleted", name(&key)));
                continue;
            }
            let summary = dev_table::summary(&event.resource);
            if self.reported.len() >= REPORTED_MAX {
                self.reported.clear();
            }
            if self.reported.get(&key) != Some(&summary) {
                lines.push(format!("{} {summary}", name(&key)));
                self.reported.insert(key, summary);
            }
        }
        lines
    }
}

/// Returns the kinds that controllers manage, without duplicates, in the order of the controllers.
fn managed(controllers: &[ControllerStatus]) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = Vec::new();
    for status in controllers {
        if !kinds.contains(&status.manages) {
            kinds.push(status.manages.clone());
        }
    }
    kinds
}

/// Returns the name of a resource in kubectl's format: `deployment.apps/web`.
fn name(key: &Key) -> String {
    let Kind { group, name, .. } = key.kind();
    let dot = if group.is_empty() { "" } else { "." };
    format!("{}{dot}{group}/{}", name.to_lowercase(), key.name())
}

fn place(key: &Key) -> String {
    if key.namespace().is_empty() { key.name().to_owned() } else { format!("{}/{}", key.namespace(), key.name()) }
}
