//! The kinds that a host serves, and the names that people use for them.

use homeostat_runtime::manifest;
use serde::Deserialize;
use serde_json::Value;

use super::Client;
use crate::exit;

/// One kind that the host serves.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ApiResource {
    kind: GroupVersionKind,
    pub(crate) plural: String,
    singular: String,
    short_names: Vec<String>,
    pub(crate) namespaced: bool,
    /// No resources of the kind are stored.
    pub(crate) keys_only: bool,
    /// The store that has its resources; `None` if the host has one store.
    store: Option<String>,
    /// Who reads and writes the number of replicas; `None` for a kind that cannot be scaled.
    #[serde(default)]
    scale: Option<Value>,
}

#[derive(Clone, Debug, Deserialize)]
struct GroupVersionKind {
    group: String,
    version: String,
    name: String,
}

impl ApiResource {
    pub(crate) fn group(&self) -> &str {
        &self.kind.group
    }

    /// Returns the name of the kind, for example `Deployment`.
    pub(crate) fn name(&self) -> &str {
        &self.kind.name
    }

    pub(crate) fn api_version(&self) -> String {
        let GroupVersionKind { group, version, .. } = &self.kind;
        if group.is_empty() { version.clone() } else { format!("{group}/{version}") }
    }

    /// Returns whether this is the kind of controllers.
    pub(crate) fn is_controller(&self) -> bool {
        self.kind.group == "homeostat.dev" && self.kind.name == "Controller"
    }

    /// Returns the name of a resource with its kind, for example `deployment.apps/web`.
    pub(crate) fn qualified_name(&self, name: &str) -> String {
        format!("{}/{name}", self.qualified_kind())
    }

    /// Returns the name of the kind with its group, for example `deployment.apps`.
    pub(crate) fn qualified_kind(&self) -> String {
        let Self { singular, kind: GroupVersionKind { group, .. }, .. } = self;
        if group.is_empty() { singular.clone() } else { format!("{singular}.{group}") }
    }

    /// Returns the path of the kind's collection, in one namespace or in all.
    pub(crate) fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.kind.group.is_empty() { "/api" } else { "/apis" };
        let inside = namespace
            .filter(|_| self.namespaced)
            .map(|namespace| format!("/namespaces/{namespace}"))
            .unwrap_or_default();
        format!("{root}/{}{inside}/{}", self.api_version(), self.plural)
    }

    /// Returns the path of one resource.
    pub(crate) fn path_of(&self, namespace: &str, name: &str) -> String {
        format!("{}/{name}", self.path(Some(namespace)))
    }

    /// Returns a key of this kind in the format of the API: `apps/v1/Deployment default/web`.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> String {
        let inside = if self.namespaced { format!("{namespace}/") } else { String::new() };
        format!("{}/{} {inside}{name}", self.api_version(), self.name())
    }

    fn is_named(&self, word: &str) -> bool {
        let Self { kind: GroupVersionKind { group, version, name }, plural, singular, short_names, .. } = self;
        let (short, rest) = word.split_once('.').map_or((word, None), |(short, rest)| (short, Some(rest)));
        let lower = short.to_lowercase();
        let fits = rest.is_none_or(|rest| rest == group || rest == format!("{version}.{group}") || rest == version);
        fits && (lower == *plural || lower == *singular || lower == name.to_lowercase() || short_names.contains(&lower))
    }
}

/// All kinds that a host serves.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Kinds {
    items: Vec<ApiResource>,
}

impl Kinds {
    /// Fetches the kinds from a host.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub(crate) async fn fetch(client: &Client) -> anyhow::Result<Self> {
        Ok(serde_json::from_value(client.get("/homeostat/v1/kinds").await?)?)
    }

    /// Finds a kind by its plural, singular or short name, with or without `.group`.
    ///
    /// The host's own kinds come before others of the same name.
    ///
    /// # Errors
    /// A failure that suggests similar names.
    pub(crate) fn find(&self, word: &str) -> anyhow::Result<&ApiResource> {
        let mut named = self.items.iter().filter(|known| known.is_named(word));
        let first = named.next().ok_or_else(|| exit::failed(self.unknown(word)))?;
        // Kubernetes has a `ControllerRevision`, too.
        Ok(named.find(|known| known.group() == manifest::GROUP).unwrap_or(first))
    }

    /// Returns the kind of a document.
    pub(crate) fn of(&self, document: &Value) -> Option<&ApiResource> {
        let text = |name: &str| document[name].as_str().unwrap_or_default();
        self.items.iter().find(|known| known.api_version() == text("apiVersion") && known.name() == text("kind"))
    }

    /// Returns the plural of a kind, for example `deployments`.
    pub(crate) fn plural(&self, group: &str, kind: &str) -> Option<String> {
        let known = self.items.iter().find(|known| known.group() == group && known.name() == kind)?;
        Some(known.plural.clone())
    }

    /// Returns whether the resources of a kind are in a store.
    pub(crate) fn lives_in(&self, group: &str, kind: &str, store: &str) -> bool {
        let is_meant = |known: &&ApiResource| known.group() == group && known.name() == kind;
        self.items.iter().find(is_meant).is_some_and(|known| known.store.as_deref() == Some(store))
    }

    /// Returns whether the server of its store has the subresource `scale` of a kind.
    pub(crate) fn is_scaled_by_server(&self, group: &str, kind: &str) -> bool {
        let is_meant = |known: &&ApiResource| known.group() == group && known.name() == kind;
        let mut versions = self.items.iter().filter(is_meant);
        versions.any(|known| known.scale.as_ref().is_some_and(|scale| scale == "server"))
    }

    /// Returns the message for an unknown kind, with similar names.
    pub(crate) fn unknown(&self, word: &str) -> String {
        let similar = self.similar(word);
        if similar.is_empty() {
            format!(
                "the host knows no kind `{word}`; `homeostat get crd` lists those that manifests declared, and a host that still \
                 builds or loads a component does not know its kinds yet"
            )
        } else {
            format!("the host knows no kind `{word}`; did you mean {}?", similar.join(" or "))
        }
    }

    /// Returns the plurals most similar to `word`, the nearest first, at most three.
    fn similar(&self, word: &str) -> Vec<&str> {
        let word = word.split('.').next().unwrap_or_default().to_lowercase();
        let near = |known: &ApiResource| {
            let names = [&known.plural, &known.singular].into_iter().chain(&known.short_names);
            names.map(|name| distance(&word, name)).min().unwrap_or(usize::MAX)
        };
        let mut similar: Vec<(usize, &str)> =
            self.items.iter().map(|known| (near(known), known.plural.as_str())).collect();
        similar.retain(|(distance, _)| *distance <= (word.len() / 3).max(1));
        similar.sort_unstable();
        similar.into_iter().take(3).map(|(_, plural)| plural).collect()
    }
}

/// Returns the edit distance of two words: insertions, deletions, substitutions and swaps of neighbours.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut before = vec![0; to.len() + 1];
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for line in 1..=from.len() {
        let mut next = vec![line; to.len() + 1];
        for column in 1..=to.len() {
            let is_other = usize::from(from[line - 1] != to[column - 1]);
            next[column] = (row[column - 1] + is_other).min(row[column] + 1).min(next[column - 1] + 1);
            let is_swap =
                line > 1 && column > 1 && from[line - 1] == to[column - 2] && from[line - 2] == to[column - 1];
            if is_swap {
                next[column] = next[column].min(before[column - 2] + 1);
            }
        }
        before = std::mem::replace(&mut row, next);
    }
    row[to.len()]
}

#[cfg(test)]
pub(crate) mod tests;
