//! Deletes collections: piece by piece as they are listed, several resources at once, and answers what there was.
//!
//! The answer is sent while it goes on, so that neither its length nor the time that it takes has a bound. It goes on for as long as the client
//! takes the answer; one that breaks off has deleted what came before, and the same request goes on from there.

use axum::response::Response;
use futures_util::{StreamExt, TryStreamExt, stream};
use homeostat_runtime::{Error, Host, KindInfo};
use homeostat_store::{Precondition, Propagation, Resource, Write};
use jiff::Timestamp;

use crate::list::{self, ListEncoder, PageItems, PageSource, PagedList};
use crate::params::Params;
use crate::request::{RequestContext, WriteOptions, not_allowed};
use crate::state::Api;
use crate::status::Failure;

/// Deletes at once. The store makes those durable together that wait for it together.
const DELETES_MAX: usize = 64;

/// Deletes what the selectors mean, and answers what there was.
pub(crate) async fn delete(
    api: &Api,
    info: &KindInfo,
    ask: &RequestContext<'_>,
    params: &Params,
) -> Result<Response, Failure> {
    if info.namespaced && ask.target.namespace.is_none() {
        return Err(not_allowed(ask));
    }
    params.check_list()?;
    let deletion = ask.deletion(params)?;
    let mut author = ask.write_options(params)?;
    author.dry_run |= deletion.is_dry_run()?;
    let query = params.query(info.kind.clone(), ask.target.namespace)?;
    let began = Timestamp::now();
    let (pieces, first) = PagedList::open((&api.limits.lists, ask.client), api.host.store(), query).await?;
    let metadata = pieces.metadata();
    let deleting =
        CollectionDeletion { host: api.host.clone(), author, propagation: deletion.propagation()?, pieces, began };
    let first = deleting.delete(first).await?;
    Ok(list::send(ListEncoder::plain(info, ask), &metadata, deleting, first))
}

/// A list, of which everything is deleted before it is told.
struct CollectionDeletion {
    host: Host,
    author: WriteOptions,
    propagation: Propagation,
    pieces: PagedList,
    began: Timestamp,
}

impl PageSource for CollectionDeletion {
    type Error = Error;

    async fn next_page(&mut self) -> Result<Option<PageItems>, Error> {
        let found = match self.pieces.next_page().await {
            Ok(None) => return Ok(None),
            Ok(Some(found)) => found,
            Err(homeostat_store::Error::Expired { .. }) => {
                // Deleting makes history, and may itself have cut that of the list.
                let mut found = self.pieces.restart().await?;
                found.retain(|resource| is_left(resource, self.began));
                found
            }
            Err(error) => return Err(error.into()),
        };
        self.delete(found).await.map(Some)
    }
}

impl CollectionDeletion {
    /// Deletes resources, and returns them. What others have deleted meanwhile, or made anew, is left alone.
    async fn delete(&self, found: PageItems) -> Result<PageItems, Error> {
        let deletes = stream::iter(found).map(|resource| async {
            let precondition = Precondition { uid: Some(resource.uid().to_owned()), revision: None };
            let key = resource.key().clone();
            let write = Write::Delete { key, precondition, propagation: self.propagation };
            match self.host.write(self.author.request(write)).await {
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

/// Returns whether a resource of a list that began anew is still to be deleted: one that was there at the beginning, and is not on its way out.
fn is_left(resource: &Resource, began: Timestamp) -> bool {
    let created = &resource.document()["metadata"]["creationTimestamp"];
    let created = created.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    !resource.is_deleting() && created.is_none_or(|created| created <= began)
}

#[cfg(test)]
mod tests;
