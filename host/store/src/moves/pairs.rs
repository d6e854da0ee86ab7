//! The resources of a kind in two stores, side by side and page by page.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::model::Path;
use crate::{Resource, ResourcePages, Result};

/// The resources of one name in two stores. One of them exists.
pub(super) struct Pair {
    pub(super) source: Option<Arc<Resource>>,
    pub(super) target: Option<Arc<Resource>>,
}

/// Two lists of one kind.
pub(super) struct Pairs<'s> {
    pub(super) source: ResourcePages<'s>,
    pub(super) target: ResourcePages<'s>,
}

impl Pairs<'_> {
    /// Returns the next name; `None` at the end.
    ///
    /// # Errors
    /// Those of [`Store::list`](crate::Store::list).
    pub(super) async fn next(&mut self) -> Result<Option<Pair>> {
        let source = self.source.peek().await?.map(|resource| Path::of(resource.key()));
        let target = self.target.peek().await?.map(|resource| Path::of(resource.key()));
        let order = match (&source, &target) {
            (None, None) => return Ok(None),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(source), Some(target)) => source.cmp(target),
        };
        let source = if order.is_le() { self.source.next().await? } else { None };
        let target = if order.is_ge() { self.target.next().await? } else { None };
        Ok(Some(Pair { source, target }))
    }
}
