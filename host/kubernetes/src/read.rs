//! Reads of one resource and of lists, each by requests to the server.

use std::sync::Arc;

use homeostat_store::{Error, Key, Kind, LabelRequirement, Page, Query, Resource, Result, Revision, Selector, View};
use serde_json::Value;

use crate::cluster::Cluster;
use crate::document::{self, ListedPage};
use crate::errors::RequestError;
use crate::follow::accept_list;
use crate::follow::machine::PAGE_LIMIT;
use crate::path::{self, Parameters};
use crate::requests::Call;
use crate::scale;

/// Reads the newest state of a resource.
pub(crate) async fn get(cluster: &Cluster, key: &Key) -> Result<Arc<Resource>> {
    let served = cluster.served(key.kind()).await?;
    let version = served.version(&key.kind().version);
    let path = path::item(&served, version, key.namespace(), key.name()).map_err(|_| not_found(key))?;
    match cluster.requests.send(Call::get("get", path)).await {
        Ok(answer) => document::resource(text(&answer.body, key.kind())?, &served.kind, version),
        Err(failure) => Err(cluster.failed("get", key, failure)),
    }
}

/// Reads the scale of a resource.
pub(crate) async fn scale(cluster: &Cluster, key: &Key) -> Result<Value> {
    let path = scale::path_of(&cluster.served(key.kind()).await?, key)?;
    match cluster.requests.send(Call::get("get", path)).await {
        Ok(answer) => scale::parse(&answer.body, key),
        Err(failure) => Err(cluster.failed("get", key, failure)),
    }
}

/// A name or a namespace that no resource of the kind can have.
fn not_found(key: &Key) -> Error {
    Error::NotFound { what: key.to_string() }
}

pub(crate) fn text<'a>(body: &'a [u8], kind: &Kind) -> Result<&'a str> {
    std::str::from_utf8(body).map_err(|_| Error::unavailable(format!("a document of {kind} is no UTF-8")))
}

/// Lists resources. Pages have the order of the server; a list in one page that of [`Page::items`].
pub(crate) async fn list(cluster: &Cluster, query: &Query) -> Result<Page> {
    let Query { kind, selector, limit, from, live: _, at, count, view } = query;
    selector.validate()?;
    let view = needed(*view, selector);
    if *limit == Some(0) {
        return Err(Error::invalid("limit", "must be 1 or more"));
    }
    let first = from.as_deref().map_or(PageStart::At(*at), PageStart::After);
    let mut page = one_page(cluster, kind, selector, view, (*limit, first)).await?;
    if limit.is_none() {
        while let Some(next) = page.next.take() {
            let more = one_page(cluster, kind, selector, view, (None, PageStart::After(&next))).await?;
            page.items.extend(more.items);
            (page.next, page.remaining) = (more.next, None);
        }
    }
    let order = |resource: &Arc<Resource>| (resource.key().namespace().to_owned(), resource.key().name().to_owned());
    page.items.sort_by_cached_key(order);
    Ok(Page { items: page.items, revision: page.at, next: page.next, remaining: page.remaining.filter(|_| *count) })
}

/// Returns the part of each resource that the answer needs: fields outside of the metadata are checked on the
/// answer of the server.
fn needed(view: View, selector: &Selector) -> View {
    let is_of_metadata = |(pointer, _): &(String, String)| pointer.starts_with("/metadata/");
    if selector.all_fields().all(is_of_metadata) { view } else { View::Whole }
}

/// Where a page begins.
#[derive(Clone, Copy)]
enum PageStart<'t> {
    /// With the first resource, at a revision or in the present.
    At(Option<Revision>),
    /// After the page before, as its token says.
    After(&'t str),
}

/// Reads a page of so many resources.
async fn one_page(
    cluster: &Cluster,
    kind: &Kind,
    selector: &Selector,
    view: View,
    (limit, start): (Option<usize>, PageStart<'_>),
) -> Result<ListedPage> {
    let (at, from) = match start {
        PageStart::At(at) => (at.map(|at| at.to_string()), None),
        PageStart::After(token) => (None, Some(token)),
    };
    let served = cluster.served(kind).await?;
    let version = served.version(&kind.version);
    let namespace = selector.namespace.as_deref().or_else(|| cluster.namespace_of(&served));
    let path = path::collection(&served, version, namespace)?;
    let limit = limit.map_or(PAGE_LIMIT as usize, |limit| limit.min(PAGE_LIMIT as usize));
    let parameters = Parameters::default()
        .with("limit", &limit.to_string())
        .with_some("continue", from)
        .with_some("resourceVersion", at.as_deref())
        .with_some("resourceVersionMatch", at.as_ref().map(|_| "Exact"))
        .with_some("labelSelector", label_selector(&selector.labels).as_deref())
        .with_some("fieldSelector", field_selector(selector).as_deref());
    let call = Call::get("list", parameters.after(&path)).accepting(accept_list(view)).waiting_for_list();
    let answer = cluster.requests.send(call).await.map_err(|failure| list_error(cluster, kind, from, failure))?;
    let mut page = document::page(&answer.body, &served.kind, version)?;
    for document in &page.unreadable {
        cluster.tell_unreadable(document);
    }
    page.items.retain(|resource| selector.matches(resource));
    Ok(page)
}

fn list_error(cluster: &Cluster, kind: &Kind, from: Option<&str>, failure: RequestError) -> Error {
    match failure.status().map(|status| status.code) {
        Some(400) if from.is_some() => Error::invalid("continue", "is no continue token of this list"),
        Some(404) => cluster.not_served(kind),
        _ => failure.about(&format!("list of {kind}")),
    }
}

/// Returns a revision of a kind, at or after each acknowledged write: that of an empty page.
pub(crate) async fn revision(cluster: &Cluster, kind: &Kind) -> Result<Revision> {
    Ok(one_page(cluster, kind, &Selector::default(), View::Keys, (Some(1), PageStart::At(None))).await?.at)
}

fn label_selector(labels: &[LabelRequirement]) -> Option<String> {
    let texts: Vec<_> = labels.iter().map(ToString::to_string).collect();
    (!texts.is_empty()).then(|| texts.join(","))
}

/// Returns the conditions that the server knows for every kind. The others are checked on its answer.
fn field_selector(selector: &Selector) -> Option<String> {
    let known = selector.fields.iter().filter_map(|(pointer, value)| match pointer.as_str() {
        "/metadata/name" => Some(format!("metadata.name={}", escaped(value))),
        "/metadata/namespace" => Some(format!("metadata.namespace={}", escaped(value))),
        _ => None,
    });
    let texts: Vec<_> = known.collect();
    (!texts.is_empty()).then(|| texts.join(","))
}

/// Source: `EscapeValue` of `k8s.io/apimachinery/pkg/fields`.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=")
}

#[cfg(test)]
mod tests {
    use homeostat_store::Selector;

    use super::{field_selector, label_selector};

    #[test]
    fn the_server_gets_the_conditions_that_it_knows() {
        let labels = Selector::parse_labels("a=b,c!=d,e in (f,g),!h").unwrap();
        assert_eq!(label_selector(&labels).as_deref(), Some("a=b,c!=d,e in (f,g),!h"));
        assert_eq!(label_selector(&[]), None);
        let field = |pointer: &str, value: &str| (pointer.to_owned(), value.to_owned());
        let fields = vec![field("/metadata/name", "a,b=c\\d"), field("/spec/node", "n")];
        let selector = Selector { fields, ..Selector::default() };
        assert_eq!(field_selector(&selector).as_deref(), Some("metadata.name=a\\,b\\=c\\\\d"));
        assert_eq!(field_selector(&Selector::default()), None);
    }
}
