//! The parts that all controllers of a host share.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

use homeostat_component::layers::{HttpClient, Secrets};
use homeostat_component::{Engine, Limits, Severity};
use homeostat_store::{Key, Kind, Query, Request, Resource, Revision, Selector, Store, Write, WriteResponse};
use homeostat_workqueue::SharedCapacity;
use serde_json::Value;
use tokio::runtime::Handle;

use crate::declarations::Declarations;
use crate::events::{EventSource, NewEvent};
use crate::feeders::SharedWatches;
use crate::kinds::{kind_of, place};
use crate::turns::Scheduler;
use crate::{CodeSource, Definition, Error, EventLog, Kinds, LogBook, Observer, Options};
use crate::{declarations, definitions, keeper};

/// Page size of lists.
const PAGE_ITEMS: usize = 500;

pub(crate) struct Context {
    pub(crate) engine: Engine,
    pub(crate) store: Arc<dyn Store>,
    /// The watches that the feeders of all controllers share.
    pub(crate) watches: Arc<SharedWatches>,
    pub(crate) kinds: Arc<Kinds>,
    /// The stored declarations of the components' kinds.
    pub(crate) declarations: Declarations,
    pub(crate) events: Arc<EventLog>,
    pub(crate) logs: Arc<LogBook>,
    pub(crate) http: HttpClient,
    pub(crate) secrets: Arc<dyn Secrets>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) scheduler: Arc<Scheduler>,
    /// The bound that all queues share.
    pub(crate) room: Arc<SharedCapacity>,
    /// Where the code of controllers comes from; set by `Host::run_controllers`.
    pub(crate) code: OnceLock<Arc<dyn CodeSource>>,
    seed: Option<u64>,
}

impl Context {
    /// Builds the shared parts from the options of a host.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(crate) fn new(options: Options) -> Result<Self, Error> {
        let Options {
            engine,
            store,
            secrets,
            observer,
            drain_deadline: _,
            queue_keys_max,
            queue_error_bytes_max,
            controllers_max: _,
            seed,
        } = options;
        let kinds = Arc::new(Kinds::with_built_in(store.schemas().clone()));
        Ok(Self {
            engine,
            watches: SharedWatches::of(store.clone()),
            store,
            http: HttpClient::new(Limits::default().http_body_bytes_max)?,
            secrets,
            observer,
            scheduler: Scheduler::new(Handle::current().metrics().num_workers()),
            code: OnceLock::new(),
            room: SharedCapacity::new(queue_keys_max, queue_error_bytes_max),
            seed,
            kinds,
            declarations: Declarations::default(),
            events: Arc::default(),
            logs: Arc::default(),
        })
    }

    /// Returns the seed of a controller's queue: equal for equal names, different for different ones.
    pub(crate) fn seed(&self, controller: &str) -> Option<u64> {
        let seed = self.seed?;
        let mut hasher = DefaultHasher::new();
        (seed, controller).hash(&mut hasher);
        Some(hasher.finish())
    }

    /// Records an event of the host, dated now.
    pub(crate) fn event(
        &self,
        controller: &Arc<str>,
        key: Option<Key>,
        severity: Severity,
        reason: &str,
        message: &str,
    ) {
        let source = EventSource::Host;
        self.events.record(now(), NewEvent { controller, source, key, severity, reason, message });
    }
}

impl Context {
    /// Checks that the grants of a definition cover the watches that its component requires, and declares the
    /// kinds that it names. Every definition passes this check before it runs.
    ///
    /// # Errors
    /// [`Error::ReservedKind`], [`Error::Refused`], and those of [`Context::declare`].
    pub(crate) async fn admit(&self, definition: &Definition) -> Result<(), Error> {
        let spec = definition.component.describe();
        declarations::check_owner(spec)?;
        definition.grants.check_watches(spec)?;
        self.declare(&definition.name, spec).await
    }

    /// Declares the kinds of the store: those of definitions, and those that components have declared before.
    pub(crate) async fn declare_stored(&self) -> Result<(), Error> {
        let mut stored = Vec::new();
        let kind = definitions::definitions();
        for_each_listed(&*self.store, &kind, |resource| stored.push(Arc::clone(resource))).await?;
        for definition in stored {
            self.declare_definition(&definition).await?;
        }
        self.declare_kept().await
    }

    /// Declares the kind of a definition and returns whether that worked. An invalid definition is reported
    /// in an event; it can still be repaired.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn declare_definition(&self, definition: &Resource) -> homeostat_store::Result<bool> {
        match definitions::declare(&*self.store, &self.kinds, definition).await {
            Ok(()) => Ok(true),
            Err(Error::Store(error)) => Err(error),
            Err(error) => {
                let (host, key) = ("homeostat".into(), Some(definition.key().clone()));
                self.event(&host, key, Severity::Warning, "BadDefinition", &error.to_string());
                Ok(false)
            }
        }
    }

    /// Applies a document, after checking that its kind is served in this version. A
    /// `CustomResourceDefinition` declares its kind.
    pub(crate) async fn apply(&self, mut document: Value, manager: &str, force: bool) -> Result<WriteResponse, Error> {
        let kind = kind_of(&document)?;
        let info = self
            .kinds
            .served(&kind)
            .ok_or_else(|| Error::UnknownKind { kind: kind.to_string(), similar: self.kinds.similar(&kind.name) })?;
        place(&mut document, &info)?;
        self.submit(Write::Apply { document, manager: manager.into(), force }.into()).await
    }

    /// Writes to the store. A write to a `CustomResourceDefinition` declares its kind, unless it writes the
    /// status. A `Controller` is validated first. Only the host writes `KindDeclaration`s.
    pub(crate) async fn submit(&self, request: Request) -> Result<WriteResponse, Error> {
        let write = &request.write;
        let kind = write.target()?.kind;
        if kind.same_type(&declarations::kind()) {
            return Err(Error::ReservedKind(kind.to_string()));
        }
        if definitions::declares(write)? {
            return definitions::write(&*self.store, &self.kinds, request).await;
        }
        let changes_spec =
            matches!(write, Write::Create { .. } | Write::Update { .. } | Write::Patch { .. } | Write::Apply { .. });
        if changes_spec && kind.same_type(&keeper::controllers()) {
            return keeper::write(&*self.store, self.code.get(), request).await;
        }
        Ok(self.store.submit(request).await?)
    }
}

/// Returns the current time as RFC 3339 in UTC, to the millisecond.
pub(crate) fn now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

/// Calls `each` with every resource of a kind, page by page, and returns the revision to watch from.
///
/// That is the revision of the first page: changes while later pages are read are seen again, never missed.
pub(crate) async fn for_each_listed(
    store: &dyn Store,
    kind: &Kind,
    mut each: impl FnMut(&Arc<Resource>) + Send,
) -> homeostat_store::Result<Revision> {
    let mut query = Query { kind: kind.clone(), selector: Selector::default(), limit: Some(PAGE_ITEMS), from: None };
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

#[cfg(test)]
pub(crate) mod tests;
