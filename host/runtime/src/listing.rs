//! Lists of all resources of a kind.

use std::sync::Arc;

use homeostat_store::{Kind, Query, Resource, ResourcePages, Revision, Store};

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
    let mut pages = ResourcePages::new(store, Query { view, ..Query::all(kind.clone()) });
    while let Some(page) = pages.next_page().await? {
        page.iter().for_each(&mut each);
    }
    Ok(pages.revision().expect("a list has at least one page"))
}
