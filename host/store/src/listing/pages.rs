//! Lists that are read page by page to their end.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::{Query, Resource, Result, Revision, Store};

/// Page size of lists.
const PAGE_ITEMS: usize = 500;

/// The resources of a query, listed page by page.
pub struct ResourcePages<'s> {
    store: &'s dyn Store,
    /// The query of the next page; `None` after the last one.
    query: Option<Query>,
    page: VecDeque<Arc<Resource>>,
    revision: Option<Revision>,
}

impl<'s> ResourcePages<'s> {
    /// Begins a list in pages of 500 resources. The query needs no limit.
    pub fn new(store: &'s dyn Store, query: Query) -> Self {
        Self::with_page_size(store, PAGE_ITEMS, query)
    }

    /// Begins a list in pages of so many resources. The query needs no limit.
    pub fn with_page_size(store: &'s dyn Store, items: usize, query: Query) -> Self {
        let query = Query { limit: Some(items), ..query };
        Self { store, query: Some(query), page: VecDeque::new(), revision: None }
    }

    /// Returns the next resource without removing it.
    ///
    /// # Errors
    /// Those of [`Store::list`].
    pub async fn peek(&mut self) -> Result<Option<&Arc<Resource>>> {
        while self.page.is_empty() && self.read_page().await? {}
        Ok(self.page.front())
    }

    /// Returns the next resource; `None` at the end.
    ///
    /// # Errors
    /// Those of [`Store::list`].
    pub async fn next(&mut self) -> Result<Option<Arc<Resource>>> {
        self.peek().await?;
        Ok(self.page.pop_front())
    }

    /// Returns the next resources of one page; `None` at the end. A page may be empty.
    ///
    /// # Errors
    /// Those of [`Store::list`].
    pub async fn next_page(&mut self) -> Result<Option<Vec<Arc<Resource>>>> {
        if self.page.is_empty() && !self.read_page().await? {
            return Ok(None);
        }
        Ok(Some(std::mem::take(&mut self.page).into()))
    }

    /// Returns the revision of the first page, once it was read.
    pub fn revision(&self) -> Option<Revision> {
        self.revision
    }

    /// Reads the next page. Returns whether there is one.
    async fn read_page(&mut self) -> Result<bool> {
        let Some(query) = &mut self.query else { return Ok(false) };
        let page = self.store.list(query).await?;
        self.page = page.items.into();
        self.revision.get_or_insert(page.revision);
        match page.next {
            Some(next) => query.from = Some(next),
            None => self.query = None,
        }
        Ok(true)
    }
}
