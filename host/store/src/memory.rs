//! A store in memory; its resources are lost when the process ends. For tests, simulations and experiments.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use crate::contents::{Contents, Documents, SharedContents};
use crate::fence::KnownTerms;
use crate::history::{Bounds, check_start};
use crate::model::Path;
use crate::rule_check::{RuleCheck, TRIES_MAX};
use crate::schema::Schemas;
use crate::semantics::{self, Validation, WritePlan};
use crate::{
    Availability, ClockAndIds, Error, Event, Key, Kind, Options, Page, Query, Request, Resource, Result, Revision,
    Scope, Store, StoreStatus, Watch, WriteResponse,
};

/// A store in memory.
pub struct MemoryStore {
    id: String,
    schemas: Schemas,
    clock: Arc<dyn ClockAndIds>,
    contents: Arc<SharedContents>,
    terms: Mutex<KnownTerms>,
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore").field("id", &self.id).finish_non_exhaustive()
    }
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new(options: Options) -> Self {
        Self::with_schemas(options, Schemas::default())
    }

    /// Creates an empty store that shares the schemas of another one.
    pub fn with_schemas(options: Options, schemas: Schemas) -> Self {
        let contents = Contents::new(Revision::ZERO, Bounds::of(&options), Documents::Shared);
        let clock = options.clock;
        let contents = SharedContents::new(contents, Arc::clone(&clock));
        Self { id: clock.uid(), schemas, contents, clock, terms: Mutex::default() }
    }

    /// Returns the number of resources that lists have compared with their selectors so far.
    ///
    /// # Errors
    /// `Closed`.
    pub fn examined(&self) -> Result<u64> {
        Ok(self.contents.lock()?.examined())
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn get(&self, key: &Key) -> Result<Arc<Resource>> {
        self.contents.lock()?.get(key).ok_or_else(|| Error::not_found(key))
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        let declared = self.schemas.indexes_of(&query.kind);
        self.contents.lock_expired()?.list(query, &self.id, &declared, Vec::new())
    }

    fn schemas(&self) -> Option<&Schemas> {
        Some(&self.schemas)
    }

    async fn submit(&self, mut request: Request) -> Result<WriteResponse> {
        let lookup = |key: &Key| Ok(self.contents.lock_expired()?.stored(&Path::of(key)).cloned());
        let mut tries = TRIES_MAX;
        let mut contents = loop {
            let check = RuleCheck::evaluate(&*self.clock, &self.schemas, &mut request, lookup)?;
            let contents = self.contents.lock_expired()?;
            let lookup = |key: &Key| Ok(contents.stored(&Path::of(key)).cloned());
            if RuleCheck::is_current(check.as_ref(), &self.schemas, &request, lookup)? {
                break contents;
            }
            tries -= 1;
            if let (Some(RuleCheck { key, previous, .. }), 0) = (check, tries) {
                return Err(Error::Conflict { key, current: previous });
            }
        };
        self.terms.lock().unwrap_or_else(PoisonError::into_inner).check(request.fence.as_ref())?;
        let revision = contents.newest().next();
        let (dry_run, lookup) = (request.dry_run, |key: &Key| Ok(contents.stored(&Path::of(key)).cloned()));
        let performed =
            semantics::plan_write(&*self.clock, &self.schemas, request, revision, Validation::WithoutRules, lookup)?;
        let (resource, change) = (Arc::clone(performed.decision.resource()), performed.event());
        let WritePlan { previous, unknown_fields, .. } = performed;
        if let Some(kind) = change.filter(|_| !dry_run) {
            contents.commit(Event { kind, resource: Arc::clone(&resource), previous: previous.clone(), revision });
        }
        Ok(WriteResponse { resource, change, previous, unknown_fields })
    }

    async fn watch(&self, scope: Scope, from: Revision) -> Result<Watch> {
        let contents = self.contents.lock_expired()?;
        check_start(from, contents.oldest(), contents.newest())?;
        Ok(self.contents.watch(scope, from))
    }

    async fn revision(&self, _: &Scope) -> Result<Revision> {
        Ok(self.contents.newest())
    }

    fn status(&self) -> Vec<StoreStatus> {
        let availability = if self.contents.has_ended() { Availability::Closed } else { Availability::Ready };
        vec![StoreStatus::local("memory", &self.id, availability, self.contents.newest())]
    }

    async fn close(&self) {
        self.contents.end(Error::Closed);
    }

    async fn kinds(&self) -> Result<Vec<Kind>> {
        Ok(self.contents.lock()?.kinds())
    }

    async fn dependents(&self, owner: &str) -> Result<Vec<Arc<Resource>>> {
        Ok(self.contents.lock()?.dependents(owner))
    }
}
