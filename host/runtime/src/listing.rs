//! Lists of all resources of a kind.

use std::sync::Arc;

use homeostat_store::{Kind, Query, Resource, ResourcePages, Revision, Selector, Store};

use crate::Error;

/// The largest number of resources of a kind that one write reads in its namespace, to decide whether it is admitted.
pub(crate) const ADMISSION_RESOURCES_MAX: usize = 1000;

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

/// Returns the resources of a kind in a namespace that decide about the writes there.
///
/// # Errors
/// [`Error::Forbidden`] for more than [`ADMISSION_RESOURCES_MAX`]; [`Error::Store`].
pub(crate) async fn of_namespace(store: &dyn Store, kind: &Kind, namespace: &str) -> Result<Vec<Arc<Resource>>, Error> {
    let selector = Selector { namespace: Some(namespace.to_owned()), ..Selector::default() };
    let mut pages = ResourcePages::new(store, Query { selector, ..Query::all(kind.clone()) });
    let mut all = Vec::new();
    while let Some(page) = pages.next_page().await? {
        if all.len() + page.len() > ADMISSION_RESOURCES_MAX {
            let reason = format!(
                "the namespace {namespace:?} has more than {ADMISSION_RESOURCES_MAX} resources of the kind {kind}, and each \
                 creation there reads them: delete some"
            );
            return Err(Error::Forbidden(reason));
        }
        all.extend(page.iter().cloned());
    }
    Ok(all)
}
