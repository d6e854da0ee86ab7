//! Reads the query of a request: selectors, pages, watches. Pure.

use homeostat_store::{Kind, Precondition, Propagation, Query, Revision, Selector, Unknown};
use serde::Deserialize;

use crate::status::Failure;
use crate::table::Included;

/// The parameters that the Kubernetes dialect knows and that mean something here. Others are ignored, as an API server does.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Params {
    pub(crate) label_selector: Option<String>,
    pub(crate) field_selector: Option<String>,
    pub(crate) limit: Option<usize>,
    #[serde(rename = "continue")]
    pub(crate) next: Option<String>,
    pub(crate) watch: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) send_initial_events: Option<String>,
    pub(crate) field_manager: Option<String>,
    pub(crate) force: Option<String>,
    pub(crate) dry_run: Option<String>,
    pub(crate) field_validation: Option<String>,
    pub(crate) propagation_policy: Option<String>,
    pub(crate) include_object: Included,
    pub(crate) allow_watch_bookmarks: Option<String>,
    pub(crate) resource_version_match: Option<String>,
}

impl Params {
    pub(crate) fn is_watch(&self) -> bool {
        is_yes(self.watch.as_deref())
    }

    pub(crate) fn wants_initial_events(&self) -> bool {
        is_yes(self.send_initial_events.as_deref())
    }

    pub(crate) fn forces(&self) -> bool {
        is_yes(self.force.as_deref())
    }

    /// Returns whether the write is to be tried and not kept.
    pub(crate) fn is_dry_run(&self) -> Result<bool, Failure> {
        match self.dry_run.as_deref() {
            None | Some("") => Ok(false),
            Some("All") => Ok(true),
            Some(other) => Err(no_dry_run(other)),
        }
    }

    /// Returns what is to be done about fields that nobody knows. Nothing said is `Warn`.
    pub(crate) fn unknown(&self) -> Result<Unknown, Failure> {
        match self.field_validation.as_deref() {
            None | Some("" | "Warn") => Ok(Unknown::Tell),
            Some("Strict") => Ok(Unknown::Refuse),
            Some("Ignore") => Ok(Unknown::Ignore),
            Some(other) => {
                Err(Failure::bad_request(format!("fieldValidation: `{other}` is not one of Ignore, Warn, Strict")))
            }
        }
    }

    pub(crate) fn wants_bookmarks(&self) -> bool {
        is_yes(self.allow_watch_bookmarks.as_deref())
    }

    /// Returns how much of a resource goes with its row of a table.
    pub(crate) fn included(&self) -> Included {
        self.include_object
    }

    /// Returns the terms of the field selector: JSON pointers, and what must stand there.
    pub(crate) fn fields(&self) -> Result<Vec<(String, String)>, Failure> {
        self.field_selector.as_deref().map_or(Ok(Vec::new()), fields)
    }

    /// Checks what a list asks of its revision, `current` being that of the store.
    pub(crate) fn check_revision(&self, current: Revision) -> Result<(), Failure> {
        let Some(asked) = self.after()? else { return Ok(()) };
        match self.resource_version_match.as_deref() {
            _ if asked > current => Err(homeostat_store::Error::FutureRevision { asked, current }.into()),
            Some("Exact") if asked != current => Err(homeostat_store::Error::Expired { oldest: current }.into()),
            _ => Ok(()),
        }
    }

    pub(crate) fn selector(&self, namespace: Option<&str>) -> Result<Selector, Failure> {
        let labels = match self.label_selector.as_deref() {
            None | Some("") => Vec::new(),
            Some(text) => {
                Selector::parse_labels(text).map_err(|error| Failure::bad_request(format!("labelSelector: {error}")))?
            }
        };
        let fields = self.fields()?;
        let selector = Selector { namespace: namespace.map(str::to_owned), labels, fields, owner: None };
        selector.validate().map_err(|error| Failure::bad_request(error.to_string()))?;
        Ok(selector)
    }

    pub(crate) fn query(&self, kind: Kind, namespace: Option<&str>) -> Result<Query, Failure> {
        let selector = self.selector(namespace)?;
        let from = self.next.clone().filter(|next| !next.is_empty());
        Ok(Query { kind, selector, limit: self.limit.filter(|limit| *limit > 0), from })
    }

    /// Returns the revision after which a watch begins; `None` when it begins with what is there.
    pub(crate) fn after(&self) -> Result<Option<Revision>, Failure> {
        match self.resource_version.as_deref() {
            None | Some("" | "0") => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|_| Failure::bad_request(format!("resourceVersion: `{text}` is not a revision"))),
        }
    }
}

/// What a deletion asks for, from its body or its query.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Deletion {
    propagation_policy: Option<String>,
    preconditions: Preconditions,
    dry_run: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

impl Deletion {
    pub(crate) fn read(body: &[u8], params: &Params) -> Result<Self, Failure> {
        let mut deletion = if body.is_empty() {
            Self::default()
        } else {
            serde_json::from_slice(body)
                .map_err(|error| Failure::bad_request(format!("the body is not DeleteOptions: {error}")))?
        };
        if params.propagation_policy.is_some() {
            deletion.propagation_policy.clone_from(&params.propagation_policy);
        }
        Ok(deletion)
    }

    /// Returns whether the deletion is to be tried and not kept.
    pub(crate) fn is_dry_run(&self) -> Result<bool, Failure> {
        match self.dry_run.iter().find(|what| *what != "All") {
            Some(other) => Err(no_dry_run(other)),
            None => Ok(!self.dry_run.is_empty()),
        }
    }

    pub(crate) fn propagation(&self) -> Result<Propagation, Failure> {
        match self.propagation_policy.as_deref() {
            None | Some("" | "Background") => Ok(Propagation::Background),
            Some("Foreground") => Ok(Propagation::Foreground),
            Some("Orphan") => Ok(Propagation::Orphan),
            Some(other) => Err(Failure::bad_request(format!(
                "propagationPolicy: `{other}` is not one of Background, Foreground, Orphan"
            ))),
        }
    }

    pub(crate) fn precondition(&self) -> Result<Precondition, Failure> {
        let Preconditions { uid, resource_version } = &self.preconditions;
        let revision = resource_version.as_deref().map(str::parse::<Revision>).transpose();
        let revision = revision
            .map_err(|_| Failure::bad_request("preconditions.resourceVersion: not a revision of this store"))?;
        Ok(Precondition { uid: uid.clone(), revision })
    }
}

fn no_dry_run(other: &str) -> Failure {
    Failure::bad_request(format!("dryRun: `{other}` is not All: nothing was changed"))
}

fn fields(text: &str) -> Result<Vec<(String, String)>, Failure> {
    let terms = text.split(',').map(str::trim).filter(|term| !term.is_empty());
    terms.map(field).collect()
}

fn field(term: &str) -> Result<(String, String), Failure> {
    let (path, value) =
        term.split_once('=').ok_or_else(|| Failure::bad_request(format!("fieldSelector: `{term}` has no `=`")))?;
    if path.ends_with('!') {
        return Err(Failure::bad_request(format!("fieldSelector: `{term}`: only `=` is supported")));
    }
    // The store wants a JSON pointer; a path of the dialect has dots and needs no escapes.
    let pointer = format!("/{}", path.trim().replace('.', "/"));
    Ok((pointer, value.strip_prefix('=').unwrap_or(value).trim().to_owned()))
}

/// Reads a switch: `1` and `true` are yes, and so is a parameter without a value.
pub(crate) fn is_yes(value: Option<&str>) -> bool {
    matches!(value, Some("" | "1" | "true"))
}

#[cfg(test)]
mod tests;
