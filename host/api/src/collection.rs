//! Deletes collections: page by page, several resources at once, and responds with the deleted resources.
//!
//! The response is streamed while resources are deleted, so neither its length nor its duration has a bound.
//! Deletion continues for as long as the client reads. If the client disconnects, the resources before that
//! point are deleted, and repeating the request deletes the rest.

use std::sync::Arc;

use axum::response::Response;
use futures_util::{StreamExt, TryStreamExt, stream};
use homeostat_runtime::{Error, Host, Requester};
use homeostat_store::{Precondition, Propagation, Resource, Write};
use jiff::Timestamp;

use crate::encoder::ResourceEncoder;
use crate::list::{self, PageItems, PageSource, PagedList};
use crate::request::{ResourceRequest, WriteOptions};
use crate::status::Failure;
use crate::write_warnings;

/// Concurrent deletes. The store commits concurrent writes in one batch.
const DELETES_MAX: usize = 64;

/// Deletes the resources that the selectors match, and responds with them.
pub(crate) async fn delete(request: &ResourceRequest<'_>) -> Result<Response, Failure> {
    let ResourceRequest { http, info, params } = request;
    if info.namespaced && http.target.namespace.is_none() {
        return Err(http.not_allowed());
    }
    params.check_list()?;
    let deletion = request.deletion()?;
    let mut author = request.write_options()?;
    author.dry_run |= deletion.is_dry_run()?;
    http.warnings.add(write_warnings::of_deletion(request, deletion.has_propagation()));
    let query = request.query()?;
    let began = Timestamp::now();
    let (list, first) = PagedList::open((&http.api.limits.lists, http.client), http.api.host.store(), query).await?;
    let metadata = list.metadata();
    let deleting = CollectionDeletion {
        host: http.api.host.clone(),
        author,
        requester: Arc::clone(&http.requester),
        propagation: deletion.propagation(request.default_propagation())?,
        grace_seconds: deletion.grace_seconds(),
        list,
        began,
    };
    let first = deleting.delete(first).await?;
    Ok(list::send(ResourceEncoder::of_documents(request), &metadata, deleting, first))
}

/// A list whose items are deleted before they are sent.
struct CollectionDeletion {
    host: Host,
    author: WriteOptions,
    requester: Arc<Requester>,
    propagation: Propagation,
    grace_seconds: Option<u32>,
    list: PagedList,
    began: Timestamp,
}

impl PageSource for CollectionDeletion {
    type Error = Error;

    async fn next_page(&mut self) -> Result<Option<PageItems>, Error> {
        let found = match self.list.next_page().await {
            Ok(None) => return Ok(None),
            Ok(Some(found)) => found,
            Err(homeostat_store::Error::Expired { .. }) => {
                // Deletes append to the history, and may have compacted the revision that this list reads.
                let mut found = self.list.restart(None).await?;
                // A deletion with a time can shorten that of pods which are being deleted.
                let shortens = self.grace_seconds.is_some();
                found.retain(|resource| is_left(resource, self.began, shortens));
                found
            }
            Err(error) => return Err(error.into()),
        };
        self.delete(found).await.map(Some)
    }
}

impl CollectionDeletion {
    /// Deletes resources and returns them. A resource that another client deleted or recreated meanwhile is
    /// left alone.
    async fn delete(&self, found: PageItems) -> Result<PageItems, Error> {
        let deletes = stream::iter(found).map(|resource| async {
            let precondition = Precondition { uid: Some(resource.uid().to_owned()), revision: None };
            let key = resource.key().clone();
            let (propagation, grace_seconds) = (self.propagation, self.grace_seconds);
            let write = Write::Delete { key, precondition, propagation, grace_seconds };
            match self.host.write_as(self.author.request(write), &self.requester).await {
                Err(Error::Store(
                    homeostat_store::Error::Conflict { .. } | homeostat_store::Error::NotFound { .. },
                ))
                | Ok(_) => Ok(resource),
                Err(error) => Err(error),
            }
        });
        deletes.buffered(DELETES_MAX).try_collect().await
    }
}

/// Returns whether a resource of a restarted list is still to be deleted: it existed at the start, and it is
/// not being deleted yet, or `shortens` the time that it has left.
fn is_left(resource: &Resource, began: Timestamp, shortens: bool) -> bool {
    let created = &resource.document()["metadata"]["creationTimestamp"];
    let created = created.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    (shortens || !resource.is_deleting()) && created.is_none_or(|created| created <= began)
}

#[cfg(test)]
mod tests;
