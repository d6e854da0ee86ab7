//! The resources of a kind in two stores, side by side and page by page.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::model::Path;
use crate::{Query, Resource, Result, Store};

/// Page size of lists.
const PAGE_ITEMS: usize = 500;

/// A list that is read page by page.
pub(super) struct Pages<'s> {
    store: &'s dyn Store,
    /// The query of the next page; `None` after the last one.
    query: Option<Query>,
    page: VecDeque<Arc<Resource>>,
}

impl<'s> Pages<'s> {
    pub(super) fn new(store: &'s dyn Store, query: Query) -> Self {
        Self { store, query: Some(Query { limit: Some(PAGE_ITEMS), ..query }), page: VecDeque::new() }
    }

    /// Returns the next resource without removing it.
    async fn peek(&mut self) -> Result<Option<&Arc<Resource>>> {
        while self.page.is_empty()
            && let Some(query) = &mut self.query
        {
            let page = self.store.list(query).await?;
            self.page = page.items.into();
            match page.next {
                Some(next) => query.from = Some(next),
                None => self.query = None,
            }
        }
        Ok(self.page.front())
    }

    /// Returns the next resource; `None` at the end.
    ///
    /// # Errors
    /// Those of [`Store::list`].
    pub(super) async fn next(&mut self) -> Result<Option<Arc<Resource>>> {
        self.peek().await?;
        Ok(self.page.pop_front())
    }
}

/// The resources of one name in two stores. One of them exists.
pub(super) struct Pair {
    pub(super) source: Option<Arc<Resource>>,
    pub(super) target: Option<Arc<Resource>>,
}

/// Two lists of one kind.
pub(super) struct Pairs<'s> {
    pub(super) source: Pages<'s>,
    pub(super) target: Pages<'s>,
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
