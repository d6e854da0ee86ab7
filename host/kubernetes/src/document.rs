//! A server's document to a resource.

mod line_head;

use std::borrow::Cow;
use std::sync::Arc;

use homeostat_store::{Error, Key, Kind, Resource, Result, Revision};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use self::line_head::LineHead;
use crate::errors::Status;
use crate::lines::LINE_BYTES_MAX;

/// A document of a list or a watch.
#[derive(Debug)]
pub(crate) enum Document {
    Resource(Arc<Resource>),
    Unreadable(UnreadableDocument),
}

/// A document of which nothing can be used but the name of its resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnreadableDocument {
    /// The resource.
    pub(crate) key: Key,
    /// The revision of the document.
    pub(crate) at: Revision,
    /// Why it cannot be used, for a person.
    pub(crate) reason: String,
}

/// Parses a document as [`document`] does.
///
/// # Errors
/// `Unavailable` also for a document that this host cannot read.
pub(crate) fn resource(text: &str, kind: &Kind, version: &str) -> Result<Arc<Resource>> {
    match document(text, kind, version)? {
        Document::Resource(resource) => Ok(resource),
        Document::Unreadable(UnreadableDocument { key, reason, .. }) => Err(Error::unreadable(&key, reason)),
    }
}

/// Parses a document of a kind in a version. Items of lists lack their `apiVersion` and `kind`, and metadata
/// alone has those of a kind of its own: both get those of the resource.
///
/// A server takes documents that this host does not, as one that is nested too deeply.
///
/// # Errors
/// `Unavailable` for a document that names no resource, `Unsupported` for one without a number as its revision. Words
/// of the server are quoted.
pub(crate) fn document(text: &str, kind: &Kind, version: &str) -> Result<Document> {
    // An answer ends with a line break, and a line of a watch does not: equal resources have equal texts.
    let text = text.trim();
    let head: WireHead<'_> = serde_json::from_str(text).map_err(|error| unreadable(kind, &error.to_string()))?;
    let WireHeadMetadata { name, namespace, resource_version } = head.metadata;
    let at = match resource_version.as_deref().unwrap_or_default() {
        // A dry run has none.
        "" => Revision::ZERO,
        revision => revision.parse().map_err(|_| Error::Unsupported {
            what: format!("watch of {kind}"),
            reason: format!("its resources have no numbers as revisions, but {revision:?}"),
        })?,
    };
    let read = with_kind_of(text, (head.api_version, head.kind), kind, version)
        .and_then(|text| Resource::from_text_at(&text, at).map_err(|error| error.to_string()));
    match read {
        Ok(resource) => Ok(Document::Resource(Arc::new(resource))),
        Err(reason) if name.is_empty() => Err(unreadable(kind, &reason)),
        Err(reason) => {
            let key = Key::new(Kind { version: version.to_owned(), ..kind.clone() }, &namespace, &name);
            Ok(Document::Unreadable(UnreadableDocument { key, at, reason }))
        }
    }
}

/// Returns a document with the version and the kind of its resource.
fn with_kind_of<'a>(
    text: &'a str,
    (api_version, name): (Option<Cow<'_, str>>, Option<Cow<'_, str>>),
    kind: &Kind,
    version: &str,
) -> std::result::Result<Cow<'a, str>, String> {
    let wanted = Kind::new(kind.group.as_str(), version, "").api_version();
    match name.as_deref() {
        Some(name) if name == kind.name => Ok(Cow::Borrowed(text)),
        None if api_version.is_none() => Ok(Cow::Owned(with_kind(text, &wanted, &kind.name))),
        _ => {
            let mut document: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
            document["apiVersion"] = json!(wanted);
            document["kind"] = json!(kind.name);
            Ok(Cow::Owned(document.to_string()))
        }
    }
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
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
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
    /// The documents that this host cannot read.
    pub(crate) unreadable: Vec<UnreadableDocument>,
    /// The revision that the list shows.
    pub(crate) at: Revision,
    /// The continue token; `None` on the last page.
    pub(crate) next: Option<String>,
    /// The number of resources on the following pages, if the server says it.
    pub(crate) remaining: Option<u64>,
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
    remaining_item_count: Option<u64>,
}

/// Parses a page of a list.
///
/// # Errors
/// As [`resource`].
pub(crate) fn page(body: &[u8], kind: &Kind, version: &str) -> Result<ListedPage> {
    let list: WireList<'_> = serde_json::from_slice(body).map_err(|error| unreadable(kind, &error.to_string()))?;
    let WireListMetadata { resource_version, next, remaining_item_count: remaining } = list.metadata;
    let at = resource_version.parse().map_err(|_| Error::Unsupported {
        what: format!("list of {kind}"),
        reason: format!("the list has no number as its revision, but {resource_version:?}"),
    })?;
    let next = Some(next).filter(|next| !next.is_empty());
    let mut page = ListedPage { items: Vec::new(), unreadable: Vec::new(), at, next, remaining };
    for item in list.items.unwrap_or_default() {
        match document(item.get(), kind, version)? {
            Document::Resource(resource) => page.items.push(resource),
            Document::Unreadable(unreadable) => page.unreadable.push(unreadable),
        }
    }
    Ok(page)
}

/// A line of a watch.
#[derive(Debug)]
pub(crate) enum WatchLine {
    /// A resource was created or changed.
    Changed(Arc<Resource>),
    /// A resource was deleted. Has its last state, at the revision of the deletion.
    Deleted(Arc<Resource>),
    /// A resource was created or changed, and this host cannot read its document.
    Unreadable(UnreadableDocument),
    /// The resource of such a document was deleted, at this revision.
    Gone {
        /// The resource.
        key: Key,
        /// The revision of the deletion.
        at: Revision,
    },
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
        "ADDED" | "MODIFIED" => match document(object.get(), kind, version)? {
            Document::Resource(resource) => Ok(WatchLine::Changed(resource)),
            Document::Unreadable(unreadable) => Ok(WatchLine::Unreadable(unreadable)),
        },
        "DELETED" => match document(object.get(), kind, version)? {
            Document::Resource(resource) => Ok(WatchLine::Deleted(resource)),
            Document::Unreadable(UnreadableDocument { key, at, .. }) => Ok(WatchLine::Gone { key, at }),
        },
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

/// Parses the beginning of a line of a watch that is too long to be read. `None` if it does not tell its resource.
pub(crate) fn long_line(head: &[u8], kind: &Kind, version: &str) -> Option<WatchLine> {
    let LineHead { event, name, namespace, resource_version } = LineHead::read(head);
    let at = resource_version.parse().ok()?;
    if name.is_empty() {
        return None;
    }
    let key = Key::new(Kind { version: version.to_owned(), ..kind.clone() }, &namespace, &name);
    match event.as_str() {
        "ADDED" | "MODIFIED" => {
            let reason = format!("it has more than {LINE_BYTES_MAX} bytes");
            Some(WatchLine::Unreadable(UnreadableDocument { key, at, reason }))
        }
        "DELETED" => Some(WatchLine::Gone { key, at }),
        _ => None,
    }
}

fn unreadable(kind: &Kind, reason: &str) -> Error {
    Error::unavailable(format!("a document of {kind} from the server cannot be read: {reason:?}"))
}

#[cfg(test)]
mod tests;
