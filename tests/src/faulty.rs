//! A store whose faults a test turns on and off, each for one kind and one operation.
//!
//! Every test that needs a failing store shares this file; the tests beside the host's own code include it by
//! its path.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use homeostat_store::schema::Schemas;
use homeostat_store::{
    Changes, Error, Event, Key, Kind, Page, Query, Request, Resource, Result, Revision, Scope, Store, Watch, Write,
    WriteResponse,
};
use tokio::sync::watch;

/// The operation at which a fault occurs.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum On {
    /// Reading a resource of the kind.
    Get,
    /// Writing a resource of the kind.
    Write,
    /// Listing the kind.
    List,
    /// Opening a watch of the kind.
    Watch,
    /// Waiting for the next event of a watch of the kind.
    Next,
}

/// The effect of a fault.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// The operation blocks until the fault is turned off.
    Wait,
    /// The operation succeeds after this delay.
    Slow(Duration),
    /// `Unavailable`.
    Fail,
    /// `NotFound`: the kind is not installed.
    NotInstalled,
    /// `Expired`, once.
    Expire,
}

type Faults = watch::Sender<BTreeMap<(On, &'static str), Fault>>;

/// A store around another one.
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    faults: Arc<Faults>,
    open: Arc<AtomicUsize>,
    /// The number of writes that still succeed in this group, if limited. After them, no write of any kind
    /// succeeds.
    left: Mutex<Option<(&'static str, usize)>>,
    /// A concurrent write, made as soon as a resource of its kind has been read.
    between: Mutex<Option<Write>>,
}

impl FaultyStore {
    /// Returns a store that behaves as `inner` until a fault is turned on.
    pub fn over(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            faults: Arc::default(),
            open: Arc::default(),
            left: Mutex::default(),
            between: Mutex::default(),
        })
    }

    /// Lets this many writes to a group's resources through, and then blocks all writes, as if the process
    /// had been killed there.
    pub fn cut_after(&self, group: &'static str, writes: usize) {
        *self.left() = Some((group, writes));
    }

    /// Makes a concurrent write after the next read of a resource of its kind, before the reader's next
    /// operation.
    pub fn come_between(&self, write: Write) {
        *self.between() = Some(write);
    }

    fn between(&self) -> MutexGuard<'_, Option<Write>> {
        self.between.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a write has been blocked for good.
    pub fn is_cut(&self) -> bool {
        self.left().is_some_and(|(group, left)| group.is_empty() && left == 0)
    }

    fn left(&self) -> MutexGuard<'_, Option<(&'static str, usize)>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a write comes after the cut.
    fn cuts(&self, kind: &Kind) -> bool {
        let mut left = self.left();
        let Some((group, writes)) = &mut *left else { return false };
        if group.is_empty() || (kind.group == *group && *writes == 0) {
            *left = Some(("", 0));
            return true;
        }
        *writes -= usize::from(kind.group == *group);
        false
    }

    /// Turns a fault on, for open watches as well.
    pub fn fault(&self, on: On, kind: &'static str, fault: Fault) {
        self.faults.send_modify(|faults| {
            faults.insert((on, kind), fault);
        });
    }

    /// Turns a fault off.
    pub fn heal(&self, on: On, kind: &'static str) {
        self.faults.send_modify(|faults| {
            faults.remove(&(on, kind));
        });
    }

    /// Returns the number of open watches of single kinds.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }
}

/// Applies the fault of an operation, if it has one.
async fn pass(faults: &Faults, on: On, kind: &str) -> Result<()> {
    let fault = |all: &BTreeMap<(On, &'static str), Fault>| {
        all.iter().find(|((what, of), _)| *what == on && *of == kind).map(|(_, fault)| *fault)
    };
    let mut now = faults.subscribe();
    // The sender lives as long as the store.
    let found = now.wait_for(|all| fault(all) != Some(Fault::Wait)).await.map(|all| fault(&all)).ok().flatten();
    match found {
        Some(Fault::Fail) => Err(Error::Unavailable { reason: "on purpose".into() }),
        Some(Fault::NotInstalled) => Err(Error::NotFound { what: format!("the kind {kind}, on purpose,") }),
        Some(Fault::Expire) => {
            faults.send_modify(|all| all.retain(|(what, of), _| *what != on || *of != kind));
            Err(Error::Expired { oldest: Revision::ZERO })
        }
        Some(Fault::Slow(delay)) => {
            tokio::time::sleep(delay).await;
            Ok(())
        }
        Some(Fault::Wait) | None => Ok(()),
    }
}

/// A watch of one kind.
struct FaultyWatch {
    inner: Watch,
    kind: String,
    faults: Arc<Faults>,
    open: Arc<AtomicUsize>,
}

impl Drop for FaultyWatch {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Changes for FaultyWatch {
    async fn next(&mut self) -> Result<Event> {
        let mut turned = self.faults.subscribe();
        loop {
            pass(&self.faults, On::Next, &self.kind).await?;
            tokio::select! {
                biased;
                _ = turned.changed() => {}
                event = self.inner.next() => return event,
            }
        }
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn get(&self, key: &Key) -> Result<Arc<Resource>> {
        pass(&self.faults, On::Get, &key.kind().name).await?;
        let read = self.inner.get(key).await;
        let of_kind = |write: &mut Write| write.target().is_ok_and(|target| target.kind.same_type(key.kind()));
        let between = self.between().take_if(of_kind);
        if let Some(write) = between {
            self.inner.write(write).await?;
        }
        read
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        pass(&self.faults, On::List, &query.kind.name).await?;
        self.inner.list(query).await
    }

    async fn submit(&self, request: Request) -> Result<WriteResponse> {
        if self.cuts(&request.write.target()?.kind) {
            std::future::pending::<()>().await;
        }
        pass(&self.faults, On::Write, &request.write.target()?.kind.name).await?;
        self.inner.submit(request).await
    }

    fn schemas(&self) -> &Schemas {
        self.inner.schemas()
    }

    async fn watch(&self, scope: Scope, from: Revision) -> Result<Watch> {
        let Scope::Kind(kind) = &scope else { return self.inner.watch(scope, from).await };
        let kind = kind.name.clone();
        pass(&self.faults, On::Watch, &kind).await?;
        let inner = self.inner.watch(scope, from).await?;
        self.open.fetch_add(1, Ordering::SeqCst);
        Ok(Watch::new(FaultyWatch { inner, kind, faults: self.faults.clone(), open: self.open.clone() }))
    }

    fn revision(&self) -> Revision {
        self.inner.revision()
    }

    fn id(&self) -> &str {
        self.inner.id()
    }

    fn health(&self) -> Result<()> {
        self.inner.health()
    }

    async fn close(&self) {
        self.inner.close().await;
    }

    async fn kinds(&self) -> Result<Vec<Kind>> {
        self.inner.kinds().await
    }
}
