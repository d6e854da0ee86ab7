//! Finds components that controllers' revisions name and that are missing beside a restored store: backups
//! contain none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use homeostat_component::Digest;
use homeostat_runtime::controller_reconciler::revisions;
use homeostat_store::embedded::EmbeddedStore;
use homeostat_store::{Options, Query, Resource, Store};

use crate::components;
use crate::output::plain;

/// Components to list, at most.
const SHOWN_MAX: usize = 20;

/// The uses of a component: the revisions that name it, and its sources according to them.
#[derive(Debug, Default, PartialEq, Eq)]
struct ComponentUse {
    revisions: Vec<String>,
    sources: BTreeSet<String>,
}

/// Describes the components that controllers name and `folder` lacks, with their sources; `None` if it has
/// all.
///
/// # Errors
/// When the store cannot be read.
pub(super) async fn missing_components(store: &Path, folder: &Path) -> Result<Option<String>> {
    let file = store.to_owned();
    let opened = tokio::task::spawn_blocking(move || EmbeddedStore::open(file, Options::default())).await?;
    let store = opened.context("cannot open the new store")?;
    let revisions = store.list(&Query::all(revisions())).await?;
    let mut missing = components_in_use(revisions.items.iter().map(AsRef::as_ref));
    let components = components::blobs(folder.to_owned());
    missing.retain(|digest, _| !components.path(digest).exists());
    Ok((!missing.is_empty()).then(|| text(&missing, folder)))
}

/// Returns the components that revisions name.
fn components_in_use<'a>(revisions: impl Iterator<Item = &'a Resource>) -> BTreeMap<Digest, ComponentUse> {
    let mut all: BTreeMap<Digest, ComponentUse> = BTreeMap::new();
    for revision in revisions {
        let component = &revision.document()["spec"]["spec"]["component"];
        let Some(digest) = component["digest"].as_str().and_then(Digest::parse) else { continue };
        let of = |field: &str| component[field].as_str().map(plain);
        let source = match (of("file"), of("oci")) {
            (Some(file), _) => format!("{file} in the served folder, if unchanged"),
            (None, Some(reference)) => format!("{reference}, which the host pulls, if unchanged"),
            (None, None) => "no known source".to_owned(),
        };
        let named = all.entry(digest).or_default();
        named.revisions.push(plain(revision.key().name()));
        named.sources.insert(source);
    }
    all
}

fn text(missing: &BTreeMap<Digest, ComponentUse>, folder: &Path) -> String {
    let mut text = format!(
        "A backup contains no components. Controllers name {} components that are missing in {}:\n",
        missing.len(),
        folder.display()
    );
    for (digest, ComponentUse { revisions, sources }) in missing.iter().take(SHOWN_MAX) {
        let sources = sources.iter().map(String::as_str).collect::<Vec<_>>().join("; or from ");
        text.push_str(&format!("  {digest} ({}): from {sources}\n", revisions.join(", ")));
    }
    if missing.len() > SHOWN_MAX {
        text.push_str(&format!("  and {} more\n", missing.len() - SHOWN_MAX));
    }
    text.push_str("Copy them from the folder `components` beside the original store. A controller does not run while its component is missing.");
    text
}

#[cfg(test)]
mod tests;
