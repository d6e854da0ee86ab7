//! The file of stores: which stores a host has besides its own, and which kinds live in them.
//!
//! The file is read once, before the host starts. It is no resource, so the folder of manifests leaves it out.
//! Every refusal has a line and a column.

#[cfg(not(all(feature = "kubernetes", feature = "nats")))]
mod absent;
mod checks;
#[cfg(feature = "kubernetes")]
mod kubernetes;
#[cfg(feature = "nats")]
mod nats;
mod parse;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use homeostat_store::Kind;
use homeostat_store::routes::{HOME, KindPattern, Routes};

use crate::exit;
use crate::manifest::{Problem, SingleDocument, TextPosition};
use checks::Context;
use parse::StoresManifest;

/// The name of the file in the folder of manifests.
pub(crate) const FILE: &str = "stores.yaml";

/// The stores of a host, as checked.
#[derive(Debug)]
pub(crate) struct StoresConfig {
    path: PathBuf,
    /// The stores besides the host's own.
    pub(crate) stores: Vec<NamedStore>,
    pub(crate) routes: Routes,
    /// The position of the pattern of each rule.
    rule_places: Vec<TextPosition>,
}

/// One store.
#[derive(Debug)]
pub(crate) struct NamedStore {
    pub(crate) name: Arc<str>,
    pub(crate) storage: Storage,
    /// Bytes of the cache of a store that is far away; `None` for the default.
    #[cfg_attr(
        not(any(feature = "kubernetes", feature = "nats")),
        expect(dead_code, reason = "stores that are far away read it")
    )]
    pub(crate) cache_bytes_max: Option<u64>,
}

/// Where a store keeps resources.
#[derive(Debug)]
pub(crate) enum Storage {
    /// In the memory of this process.
    Memory,
    /// In a NATS bucket.
    #[cfg(feature = "nats")]
    Nats(Box<homeostat_nats::BucketSettings>),
    /// In a Kubernetes cluster.
    #[cfg(feature = "kubernetes")]
    Kubernetes(Box<homeostat_kubernetes::ClusterSettings>),
}

impl Storage {
    /// Returns the kinds that follow the values of other programs, each with its path below the settings.
    fn foreign(&self) -> Vec<(String, Kind)> {
        match self {
            Self::Memory => Vec::new(),
            #[cfg(feature = "nats")]
            Self::Nats(settings) => {
                let bindings = settings.foreign.iter().enumerate();
                bindings.map(|(at, binding)| (format!("nats.foreign.{at}.kind"), binding.kind.clone())).collect()
            }
            #[cfg(feature = "kubernetes")]
            Self::Kubernetes(_) => Vec::new(),
        }
    }
}

impl StoresConfig {
    /// Reads the file of the command line, else [`FILE`] in the folder of manifests; `None` if there is neither.
    /// `secrets` is the folder of secrets.
    ///
    /// # Errors
    /// When the file cannot be used. The message has every problem with its position.
    pub(crate) fn find(named: Option<&Path>, folder: &Path, secrets: Option<&Path>) -> Result<Option<Self>> {
        let path = match named {
            Some(path) => path.to_owned(),
            None => folder.join(FILE),
        };
        if named.is_none() && !path.try_exists().unwrap_or(true) {
            return Ok(None);
        }
        Self::read(&path, secrets).map(Some).map_err(|problems| refused(&problems))
    }

    fn read(path: &Path, secrets: Option<&Path>) -> Result<Self, Vec<Problem>> {
        let document = SingleDocument::<StoresManifest>::read(path).map_err(|problem| vec![problem])?;
        Self::of(path, &document, secrets)
    }

    fn of(
        path: &Path,
        document: &SingleDocument<StoresManifest>,
        secrets: Option<&Path>,
    ) -> Result<Self, Vec<Problem>> {
        let context = Context { folder: path.parent().unwrap_or(Path::new("")), secrets };
        let checks::ValidStores { stores, routes, rule_places } = checks::check(document, &context)?;
        Ok(Self { path: path.to_owned(), stores, routes, rule_places })
    }

    /// Bounds the time of a write where the server compares no fence: another host may begin when it has passed.
    #[cfg_attr(not(feature = "kubernetes"), expect(unused_variables, reason = "only clusters compare no fence"))]
    pub(crate) fn limit_writes(&mut self, deadline: Duration) {
        for store in &mut self.stores {
            match &mut store.storage {
                Storage::Memory => {}
                #[cfg(feature = "nats")]
                Storage::Nats(_) => {}
                #[cfg(feature = "kubernetes")]
                Storage::Kubernetes(settings) => settings.write_deadline = Some(deadline),
            }
        }
    }

    /// Returns what a host without a file has: its own store alone.
    pub(crate) fn empty() -> Self {
        Self { path: FILE.into(), stores: Vec::new(), routes: Routes::default(), rule_places: Vec::new() }
    }

    /// Returns the error of a kind that cannot live where the routes say, at its rule.
    pub(crate) fn refuse_route(&self, kind: &Kind, reason: &str) -> anyhow::Error {
        let rule = self.routes.rules().iter().position(|rule| rule.pattern.matches(kind));
        let place = rule.map_or(TextPosition::START, |rule| self.rule_places[rule]);
        refused(&[Problem::new(&self.path, place, reason)])
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that no rule hides resources of the host's own store, which has resources of these kinds.
    ///
    /// # Errors
    /// When one does. The message names the rule and the kind.
    pub(crate) fn check_home(&self, kinds: &[Kind]) -> Result<()> {
        let problems: Vec<Problem> = kinds.iter().filter_map(|kind| self.hiding_rule(kind)).collect();
        if problems.is_empty() { Ok(()) } else { Err(refused(&problems)) }
    }

    /// Returns a problem at the rule that hides the resources that the host's own store has of a kind.
    fn hiding_rule(&self, kind: &Kind) -> Option<Problem> {
        let store = self.routes.of(kind).store;
        if *store == *HOME {
            return None;
        }
        let rule = self.routes.rules().iter().position(|rule| rule.pattern.matches(kind))?;
        let pattern = KindPattern::of(kind);
        let message = format!(
            "store `{HOME}` has resources of {kind}, which this rule would hide: put a rule with store `{HOME}` before this one, and run `homeostat stores copy {pattern} --to {store}`"
        );
        Some(Problem::new(&self.path, self.rule_places[rule], message))
    }
}

/// Returns the error of a file with problems.
fn refused(problems: &[Problem]) -> anyhow::Error {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    exit::failed(format!("the stores cannot be used:\n{}", lines.join("\n")))
}
