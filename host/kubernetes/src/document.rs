//! A server's document to a resource.

use std::borrow::Cow;
use std::sync::Arc;

use homeostat_store::{Error, Kind, Resource, Result, Revision};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::errors::Status;

/// Parses a document of a kind in a version. Items of lists lack their `apiVersion` and `kind`, and metadata
/// alone has those of a kind of its own: both get those of the resource.
///
/// # Errors
/// `Unavailable` for a document that is none of a resource, `Unsupported` for one without a number as its
/// revision. What the server says is quoted.
pub(crate) fn resource(text: &str, kind: &Kind, version: &str) -> Result<Arc<Resource>> {
    // An answer ends with a line break, and a line of a watch does not: equal resources have equal texts.
    let text = text.trim();
    let head: WireHead<'_> = serde_json::from_str(text).map_err(|error| unreadable(kind, &error.to_string()))?;
    let revision = match head.metadata.resource_version.as_deref().unwrap_or_default() {
        // A dry run has none.
        "" => Revision::ZERO,
        revision => revision.parse().map_err(|_| Error::Unsupported {
            what: format!("watch of {kind}"),
            reason: format!("its resources have no numbers as revisions, but {revision:?}"),
        })?,
    };
    let api_version = || Kind::new(kind.group.as_str(), version, "").api_version();
    let text = match head.kind.as_deref() {
        Some(name) if name == kind.name => Cow::Borrowed(text),
        None if head.api_version.is_none() => Cow::Owned(with_kind(text, &api_version(), &kind.name)),
        _ => {
            let mut document: Value =
                serde_json::from_str(text).map_err(|error| unreadable(kind, &error.to_string()))?;
            document["apiVersion"] = json!(api_version());
            document["kind"] = json!(kind.name);
            Cow::Owned(document.to_string())
        }
    };
    let resource = Resource::from_text_at(&text, revision).map_err(|error| unreadable(kind, &error.to_string()))?;
    Ok(Arc::new(resource))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireHead<'a> {
    #[serde(borrow)]
    api_version: Option<Cow<'a, str>>,
    #[serde(borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    metadata: WireHeadMetadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireHeadMetadata<'a> {
    #[serde(borrow)]
    resource_version: Option<Cow<'a, str>>,
}

/// Puts the kind in front of the fields of an object, which has at least one.
fn with_kind(text: &str, api_version: &str, kind: &str) -> String {
    let fields = text.trim_start().strip_prefix('{').unwrap_or(text);
    format!("{{\"apiVersion\":{},\"kind\":{},{fields}", json!(api_version), json!(kind))
}

/// A page of a list.
#[derive(Debug)]
pub(crate) struct ListedPage {
    /// The resources, in the order of the server.
    pub(crate) items: Vec<Arc<Resource>>,
    /// The revision that the list shows.
    pub(crate) at: Revision,
    /// The continue token; `None` on the last page.
    pub(crate) next: Option<String>,
}

#[derive(Deserialize)]
struct WireList<'a> {
    #[serde(default)]
    metadata: WireListMetadata,
    #[serde(default, borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireListMetadata {
    resource_version: String,
    #[serde(rename = "continue")]
    next: String,
}

/// Parses a page of a list.
///
/// # Errors
/// As [`resource`].
pub(crate) fn page(body: &[u8], kind: &Kind, version: &str) -> Result<ListedPage> {
    let list: WireList<'_> = serde_json::from_slice(body).map_err(|error| unreadable(kind, &error.to_string()))?;
    let WireListMetadata { resource_version, next } = list.metadata;
    let at = resource_version.parse().map_err(|_| Error::Unsupported {
        what: format!("list of {kind}"),
        reason: format!("the list has no number as its revision, but {resource_version:?}"),
    })?;
    let items = list.items.unwrap_or_default();
    let items = items.into_iter().map(|item| resource(item.get(), kind, version)).collect::<Result<_>>()?;
    Ok(ListedPage { items, at, next: Some(next).filter(|next| !next.is_empty()) })
}

/// A line of a watch.
#[derive(Debug)]
pub(crate) enum WatchLine {
    /// A resource was created or changed.
    Changed(Arc<Resource>),
    /// A resource was deleted. Has its last state, at the revision of the deletion.
    Deleted(Arc<Resource>),
    /// Everything up to this revision was sent.
    Bookmark {
        /// The revision.
        at: Revision,
        /// Whether the resources that a watch begins with were all sent.
        ends_list: bool,
    },
    /// The watch ends with an error.
    Error(Box<Status>),
}

#[derive(Deserialize)]
struct WireLine<'a> {
    #[serde(rename = "type", borrow)]
    event: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct WireBookmark {
    metadata: WireBookmarkMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireBookmarkMetadata {
    resource_version: String,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

/// Parses a line of a watch.
///
/// # Errors
/// As [`resource`].
pub(crate) fn line(text: &[u8], kind: &Kind, version: &str) -> Result<WatchLine> {
    let WireLine { event, object } =
        serde_json::from_slice(text).map_err(|error| unreadable(kind, &error.to_string()))?;
    match event.as_ref() {
        "ADDED" | "MODIFIED" => Ok(WatchLine::Changed(resource(object.get(), kind, version)?)),
        "DELETED" => Ok(WatchLine::Deleted(resource(object.get(), kind, version)?)),
        "BOOKMARK" => {
            let bookmark: WireBookmark =
                serde_json::from_str(object.get()).map_err(|error| unreadable(kind, &error.to_string()))?;
            let WireBookmarkMetadata { resource_version, annotations } = bookmark.metadata;
            let at = resource_version.parse().map_err(|_| unreadable(kind, "a bookmark has no number as revision"))?;
            let ends_list = annotations.get("k8s.io/initial-events-end").is_some_and(|mark| mark == "true");
            Ok(WatchLine::Bookmark { at, ends_list })
        }
        "ERROR" => {
            let status = serde_json::from_str(object.get()).map_err(|error| unreadable(kind, &error.to_string()))?;
            Ok(WatchLine::Error(Box::new(status)))
        }
        other => Err(unreadable(kind, &format!("it is an event of the type {other:?}"))),
    }
}

fn unreadable(kind: &Kind, reason: &str) -> Error {
    Error::unavailable(format!("a document of {kind} from the server cannot be read: {reason:?}"))
}

#[cfg(test)]
mod tests;
