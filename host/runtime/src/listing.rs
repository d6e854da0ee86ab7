//! Lists of all resources of a kind.

use std::sync::Arc;

use homeostat_store::{Kind, Query, Resource, Revision, Store};

/// Page size of lists.
const PAGE_ITEMS: usize = 500;

/// Calls `each` with every resource of a kind, page by page, and returns the revision to watch from.
///
/// The resources have the part that watches of the kind tell. The revision is that of the first page: changes while
/// later pages are read are seen again, never missed.
pub(crate) async fn for_each_listed(
    store: &dyn Store,
    kind: &Kind,
    mut each: impl FnMut(&Arc<Resource>) + Send,
) -> homeostat_store::Result<Revision> {
    let view = store.watched_view(kind);
    let mut query = Query { limit: Some(PAGE_ITEMS), view, ..Query::all(kind.clone()) };
    let mut first = None;
    loop {
        let page = store.list(&query).await?;
        page.items.iter().for_each(&mut each);
        let first = *first.get_or_insert(page.revision);
        match page.next {
            Some(next) => query.from = Some(next),
            None => return Ok(first),
        }
    }
}
