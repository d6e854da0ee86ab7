//! `kind: Controller` as written and as checked.
//!
//! [`Manifest`] is the form in files, which refuses unknown fields; [`ValidSpec`] is the checked form for the
//! runtime. The binary reads the files and adds lines and columns to errors.

use std::collections::BTreeMap;
use std::time::Duration;

use homeostat_component::{Amount, BackoffSpec, Digest, DuringDelay, Grants, HeaderSource, Limits, Outcome};
use serde::{Deserialize, Serialize};

use crate::feeder_definition::FeederDefinition;
use crate::rollout::Plan;
use crate::{Overrides, PlacementSpec, Suspend};

mod feeder_sources;
mod feeders;
mod kinds;
mod limits;
mod placement;
mod rollout;
mod schema;

pub use crate::host_kinds::{API_VERSION, GROUP, HIDDEN, HOST_KIND, KIND, PLURAL};
pub use crate::quantity::{Bytes, Span, written};
pub use feeder_sources::{
    AckWritten, CronWritten, EncodingWritten, FilesWritten, HmacWritten, IntervalWritten, MissedWritten, NatsWritten,
    TokenWritten, WebhookAuthWritten, WebhookWritten,
};
pub use feeders::{DelayWritten, FeederWritten, KeyWritten, KeysWritten, TemplateWritten};
pub use kinds::{KindWritten, WatchWritten, WrittenKinds};
pub use limits::{LIMIT_BOUNDS, LimitBounds, LimitsWritten};
pub use placement::{PlacementWritten, ShardsWritten};
pub use rollout::{DifferencesWritten, GateWritten, RolloutWritten, SelectorWritten, ShadowWritten, Strategy};
pub(crate) use schema::{delivery_schema, host_schema, revision_schema, schema};

/// Maximum characters of an artifact reference.
const REFERENCE_CHARS_MAX: usize = 512;

/// Default number of old revisions to keep. Source: Deployments.
const OLD_REVISIONS: u32 = 10;

/// One controller in a file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    /// [`API_VERSION`].
    pub api_version: String,
    /// [`KIND`].
    pub kind: String,
    /// Its name.
    pub metadata: Metadata,
    /// The spec.
    pub spec: Spec,
}

/// Name, labels and annotations of a controller.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Metadata {
    /// A DNS label: at most 63 of `a` to `z`, `0` to `9` and `-`. It is also the field manager of its writes
    /// and a label of its metrics.
    pub name: String,
    /// For people.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// For people.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// The definition of a controller.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    /// The source of the code.
    pub component: ComponentSource,
    /// The managed kind, in place of that of the component's `describe`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manages: Option<KindWritten>,
    /// The watches of further kinds, in place of those of `describe`; at most 32.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watches: Option<Vec<WatchWritten>>,
    /// The configuration that the guest reads through `wasi:config`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, String>,
    /// The permissions of the guest. Everything else is denied.
    #[serde(default)]
    pub grants: Grants,
    /// The limits of one reconcile.
    #[serde(default)]
    pub limits: LimitsWritten,
    /// Maximum number of concurrent reconciles, 1 to 1024.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// The wait after failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<BackoffWritten>,
    /// The period in which every key is requeued, at least 1 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resync: Option<Span>,
    /// The period of the guest's poller, at least 100 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll: Option<Span>,
    /// The effect of an event on a waiting key: `runNow` or `hold`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub during_delay: Option<DuringDelay>,
    /// Keeps the instance of a reconcile that succeeded for further ones. The guest's memory then lasts over several
    /// keys. Worth it for languages whose runtime is slow to start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reuse_instances: bool,
    /// Suspends the controller, which keeps its keys: `true`, `false`, or `exceptDeletes`. The last one still
    /// runs keys of resources that are being deleted or gone, so that finalizers are removed and dependents
    /// are cleaned up.
    #[serde(default)]
    pub suspend: Suspend,
    /// Ignore changes of this definition until this is `false` again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Old revisions to keep, 0 to 100; absent means 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<u32>,
    /// How another definition replaces this one; absent means for all keys at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutWritten>,
    /// On which of several hosts that share the store of the managed kind it runs: `singleton`, `every-host`, or the
    /// number of shards. Absent means `singleton`. Where one host alone has the store, it runs there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementWritten>,
    /// Sources of keys beside the watches, at most 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feeders: Vec<FeederWritten>,
}

/// The source of a controller's code: one of these, or a file or artifact together with the digest that its
/// code must have.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ComponentSource {
    /// A `.wasm` file: relative to the manifest or, for a resource written through the API, relative to the
    /// served directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// `sha256:` and 64 hexadecimal digits: code that this host has stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// An artifact in a registry, as `ghcr.io/acme/greeter:1.2`; at most 512 characters. A digest in the
    /// reference is that of the artifact's manifest, not of the code. A tag is resolved once for each
    /// revision of the controller, which records the digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oci: Option<String>,
}

/// Backoff as written; missing fields keep their defaults.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackoffWritten {
    /// The first wait, as `5ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Span>,
    /// The maximum wait, as `1000s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Span>,
    /// Consecutive retries before the key is parked; absent or `null` means without end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
}

/// A checked spec with all defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidSpec {
    /// The permissions of the guest.
    pub grants: Grants,
    /// The limits of one reconcile.
    pub limits: Limits,
    /// The configuration of the guest.
    pub config: BTreeMap<String, String>,
    /// Settings that replace the component's own defaults.
    pub overrides: Overrides,
    /// The suspension.
    pub suspend: Suspend,
    /// The required digest of the code; `None` accepts any.
    pub digest: Option<Digest>,
    /// Old revisions to keep.
    pub old_revisions: u32,
    /// How the definition replaces another one.
    pub plan: Plan,
    /// On which of several hosts it runs.
    pub placement: PlacementSpec,
    /// Sources of keys beside the watches.
    pub feeders: Vec<FeederDefinition>,
    /// The kinds in place of those of the component's `describe`.
    pub kinds: WrittenKinds,
}

/// A value out of bounds, or one that can never have an effect.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{field}{item}: {reason}")]
pub struct OutOfBounds {
    /// The field, as `spec.limits.cpu`.
    pub field: &'static str,
    /// The place within a list, as `[0].kinds[1]`; empty for other fields.
    pub item: String,
    /// The problem and its remedy.
    pub reason: String,
}

impl Spec {
    /// Checks every bound and fills in the defaults.
    ///
    /// # Errors
    /// All values out of bounds, and all grants that can never match.
    pub fn check(&self) -> Result<ValidSpec, Vec<OutOfBounds>> {
        let Self {
            component,
            config,
            grants,
            limits,
            concurrency,
            backoff,
            resync,
            poll,
            during_delay,
            reuse_instances,
            suspend,
            ..
        } = self;
        let mut problems = Problems::default();
        let digest = check_source(component, &mut problems);
        check_grants(grants, &mut problems);
        let limits = limits::check(limits, &mut problems);
        problems.number("spec.concurrency", *concurrency, 1..=1024);
        problems.number("spec.revisionHistoryLimit", self.revision_history_limit, 0..=100);
        let year = Outcome::DELAY_MAX;
        problems.span("spec.resync", *resync, Duration::from_secs(1)..=year);
        problems.span("spec.poll", *poll, Duration::from_millis(100)..=year);
        let backoff = backoff.as_ref().map(|written| check_backoff(written, &mut problems));
        let plan = rollout::check(self.rollout.as_ref(), &mut problems);
        let placement = placement::check(self.placement.as_ref(), &mut problems);
        let feeders = feeders::check(&self.feeders, &mut problems);
        feeders::check_placement(&feeders, placement, &mut problems);
        let kinds = kinds::check(self.manages.as_ref(), self.watches.as_ref(), &mut problems);
        if !problems.0.is_empty() {
            return Err(problems.0);
        }
        let overrides = Overrides {
            concurrency: *concurrency,
            backoff,
            resync: resync.map(|span| span.0),
            poll: poll.map(|span| span.0),
            during_delay: *during_delay,
            reuse_instances: *reuse_instances,
        };
        let (grants, config) = (grants.clone(), config.clone());
        let old_revisions = self.revision_history_limit.unwrap_or(OLD_REVISIONS);
        Ok(ValidSpec {
            grants,
            limits,
            config,
            overrides,
            suspend: *suspend,
            digest,
            old_revisions,
            plan,
            placement,
            feeders,
            kinds,
        })
    }
}

fn check_source(source: &ComponentSource, problems: &mut Problems) -> Option<Digest> {
    let ComponentSource { file, digest, oci } = source;
    if oci.as_ref().is_some_and(|reference| reference.is_empty() || reference.len() > REFERENCE_CHARS_MAX) {
        problems.push("spec.component.oci", format!("must have 1 to {REFERENCE_CHARS_MAX} characters"));
    }
    if file.is_some() && oci.is_some() {
        problems.push("spec.component", "must not have both a `file` and an `oci`".to_owned());
    } else if file.is_none() && oci.is_none() && digest.is_none() {
        problems.push("spec.component", "must have a `file`, an `oci` or a `digest`".to_owned());
    }
    if file.as_deref() == Some("") {
        problems.push("spec.component.file", "must not be empty".to_owned());
    }
    let text = digest.as_deref()?;
    let parsed = Digest::parse(text);
    if parsed.is_none() {
        problems.push("spec.component.digest", "must be `sha256:` and 64 hexadecimal digits".to_owned());
    }
    parsed
}

fn check_grants(grants: &Grants, problems: &mut Problems) {
    for problem in grants.problems() {
        let (path, reason) = problem.split_once(": ").unwrap_or(("", &problem));
        const LISTS: [(&str, &str); 3] = [
            ("resources", "spec.grants.resources"),
            ("http", "spec.grants.http"),
            ("controllers", "spec.grants.controllers"),
        ];
        let in_list = LISTS.iter().find_map(|(list, field)| Some((*field, path.strip_prefix(list)?)));
        let (field, item) = in_list.unwrap_or(("spec.grants", ""));
        problems.0.push(OutOfBounds { field, item: item.to_owned(), reason: reason.to_owned() });
    }
    for (at, grant) in grants.http.iter().enumerate() {
        for (name, _) in grant.headers.iter().filter(|(_, source)| **source == HeaderSource::Value(HIDDEN.to_owned())) {
            let reason = format!("`{HIDDEN}` stands for a value that is hidden: write the value itself");
            problems.0.push(OutOfBounds {
                field: "spec.grants.http",
                item: format!("[{at}].headers.{name}.value"),
                reason,
            });
        }
    }
}

fn check_backoff(written: &BackoffWritten, problems: &mut Problems) -> BackoffSpec {
    let BackoffWritten { base, max, max_retries } = written;
    let year = Outcome::DELAY_MAX;
    problems.span("spec.backoff.base", *base, Duration::from_millis(1)..=year);
    problems.span("spec.backoff.max", *max, Duration::from_millis(1)..=year);
    let base = base.map_or(crate::settings::BACKOFF_BASE, |span| span.0);
    let max = max.map_or(crate::settings::BACKOFF_MAX.max(base), |span| span.0);
    if max < base {
        problems.push("spec.backoff.max", format!("must not be below base ({base:?})"));
    }
    BackoffSpec { base, max, retries_max: *max_retries }
}

#[derive(Default)]
struct Problems(Vec<OutOfBounds>);

impl Problems {
    fn push(&mut self, field: &'static str, reason: String) {
        self.0.push(OutOfBounds { field, item: String::new(), reason });
    }

    /// Adds a problem, unless the field has one already.
    fn unless_named(&mut self, field: &'static str, reason: &str) {
        if self.0.iter().all(|problem| problem.field != field) {
            self.push(field, reason.to_owned());
        }
    }

    fn number(&mut self, field: &'static str, value: Option<u32>, bounds: std::ops::RangeInclusive<u32>) {
        self.within(field, value, bounds, u32::to_string);
    }

    fn span(&mut self, field: &'static str, value: Option<Span>, bounds: std::ops::RangeInclusive<Duration>) {
        self.within(field, value.map(|span| span.0), bounds, |duration| Span(*duration).to_string());
    }

    fn amount(&mut self, field: &'static str, value: Option<Amount>, bounds: std::ops::RangeInclusive<Amount>) {
        self.within(field, value, bounds, |amount| written(*amount));
    }

    fn within<T: PartialOrd>(
        &mut self,
        field: &'static str,
        value: Option<T>,
        bounds: std::ops::RangeInclusive<T>,
        say: impl Fn(&T) -> String,
    ) {
        if let Some(value) = value.filter(|value| !bounds.contains(value)) {
            let reason =
                format!("{} is out of bounds: from {} to {}", say(&value), say(bounds.start()), say(bounds.end()));
            self.push(field, reason);
        }
    }
}

#[cfg(test)]
mod tests;
