//! The resources of a kind in two stores, side by side.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::model::Path;
use crate::{Kind, Query, Resource, ResourcePages, Result, Store};

/// The resources of one name in two stores. One of them exists.
pub(super) struct Pair {
    pub(super) source: Option<Arc<Resource>>,
    pub(super) target: Option<Arc<Resource>>,
}

/// Two lists of one kind.
pub(super) struct Pairs<'s> {
    pub(super) source: OrderedList<'s>,
    pub(super) target: OrderedList<'s>,
}

/// A list in the order of paths.
pub(super) struct OrderedList<'s> {
    pages: ResourcePages<'s>,
    /// The whole list of a store that may have another order; `None` before it is read, and for other stores.
    sorted: Option<VecDeque<Arc<Resource>>>,
    needs_sorting: bool,
}

impl<'s> OrderedList<'s> {
    /// Begins a list. A server that has kinds of its own has its own order, too: such a list is read as a whole, and
    /// has to fit into memory as it does into the cache.
    pub(super) fn new(store: &'s dyn Store, kind: &Kind, needs_sorting: bool) -> Self {
        Self { pages: ResourcePages::new(store, Query::all(kind.clone())), sorted: None, needs_sorting }
    }

    async fn peek(&mut self) -> Result<Option<&Arc<Resource>>> {
        if !self.needs_sorting {
            return self.pages.peek().await;
        }
        if self.sorted.is_none() {
            let mut all = Vec::new();
            while let Some(page) = self.pages.next_page().await? {
                all.extend(page);
            }
            all.sort_by_cached_key(|resource| Path::of(resource.key()));
            self.sorted = Some(all.into());
        }
        Ok(self.sorted.as_ref().and_then(VecDeque::front))
    }

    async fn next(&mut self) -> Result<Option<Arc<Resource>>> {
        self.peek().await?;
        match &mut self.sorted {
            Some(sorted) => Ok(sorted.pop_front()),
            None => self.pages.next().await,
        }
    }
}

impl Pairs<'_> {
    /// Returns the next name; `None` at the end.
    ///
    /// # Errors
    /// Those of [`Store::list`].
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
