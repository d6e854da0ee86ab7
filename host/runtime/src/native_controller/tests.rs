use std::collections::VecDeque;

use async_trait::async_trait;
use homeostat_store::memory::MemoryStore;
use homeostat_store::schema::Schemas;
use homeostat_store::{Changes, Kind, Page, Request, StoreStatus, Watch, Write, WriteResponse};
use homeostat_testing::soon;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

use super::*;

type Result<T> = homeostat_store::Result<T>;

/// A store that fails as long as there are errors to return.
pub(crate) struct Flaky {
    pub(crate) inner: MemoryStore,
    pub(crate) errors: Arc<Mutex<VecDeque<Error>>>,
}

impl Flaky {
    pub(crate) fn new(errors: impl IntoIterator<Item = Error>) -> Arc<Self> {
        let errors = Arc::new(Mutex::new(errors.into_iter().collect()));
        Arc::new(Self { inner: MemoryStore::new(homeostat_store::Options::default()), errors })
    }

    fn fail(&self) -> Result<()> {
        fail(&self.errors)
    }
}

fn fail(errors: &Mutex<VecDeque<Error>>) -> Result<()> {
    errors.lock().pop_front().map_or(Ok(()), Err)
}

struct FlakyWatch {
    inner: Watch,
    errors: Arc<Mutex<VecDeque<Error>>>,
}

#[async_trait]
impl Changes for FlakyWatch {
    async fn next(&mut self) -> Result<Event> {
        fail(&self.errors)?;
        self.inner.next().await
    }
}

#[async_trait]
impl Store for Flaky {
    async fn get(&self, key: &homeostat_store::Key) -> Result<Arc<Resource>> {
        self.fail()?;
        self.inner.get(key).await
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        self.fail()?;
        self.inner.list(query).await
    }

    async fn submit(&self, request: Request) -> Result<WriteResponse> {
        self.fail()?;
        self.inner.submit(request).await
    }

    fn schemas(&self) -> Option<&Schemas> {
        self.inner.schemas()
    }

    async fn watch(&self, scope: Scope, from: Revision) -> Result<Watch> {
        self.fail()?;
        let inner = self.inner.watch(scope, from).await?;
        Ok(Watch::new(FlakyWatch { inner, errors: Arc::clone(&self.errors) }))
    }

    async fn revision(&self, scope: &Scope) -> Result<Revision> {
        self.inner.revision(scope).await
    }

    fn status(&self) -> Vec<StoreStatus> {
        self.inner.status()
    }

    async fn close(&self) {
        self.inner.close().await;
    }

    async fn kinds(&self) -> Result<Vec<Kind>> {
        self.fail()?;
        self.inner.kinds().await
    }
}

/// Reports the names of the resources that it reconciles.
struct Names {
    reconciled: mpsc::Sender<String>,
    /// One permit for each reconcile that may end.
    permits: Semaphore,
}

impl NativeReconciler for Names {
    type Item = String;
    const NAME: &'static str = "names";
    const CONCURRENCY_MAX: usize = 2;

    fn scope(&self) -> Option<Scope> {
        Some(Scope::Kind(kind()))
    }

    fn items(&self, event: &Event) -> Vec<String> {
        vec![event.resource.key().name().to_owned()]
    }

    fn tracked(&self) -> Vec<String> {
        vec!["gone".to_owned()]
    }

    async fn reconcile(&self, name: &String) -> std::result::Result<Next, String> {
        self.reconciled.try_send(name.clone()).expect("the test listens");
        self.permits.acquire().await.expect("it is open").forget();
        assert_ne!(name, "bad", "it panics");
        Ok(Next::Done)
    }
}

fn kind() -> Kind {
    Kind::new("", "v1", "Pod")
}

async fn create(flaky: &Flaky, name: &str) {
    let document = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}});
    flaky.inner.write(Write::Create { document }).await.unwrap();
}

struct ControllerRun {
    names: Arc<Names>,
    reconciled: mpsc::Receiver<String>,
    task: JoinHandle<()>,
    end: CancellationToken,
}

impl ControllerRun {
    fn over(flaky: &Arc<Flaky>, permits: usize, keys_max: Option<u32>) -> Self {
        let (sender, reconciled) = mpsc::channel(100);
        let names = Arc::new(Names { reconciled: sender, permits: Semaphore::new(permits) });
        let (end, second) = (CancellationToken::new(), Duration::from_secs(1));
        let (queue, store) = (queue(second, second, keys_max), Arc::clone(flaky) as Arc<dyn Store>);
        let task = tokio::spawn(run(names.clone(), store, queue, None, end.clone()));
        Self { names, reconciled, task, end }
    }

    async fn next(&mut self) -> String {
        soon(self.reconciled.recv()).await.expect("the reconciler is there")
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_holds_up_the_list_and_loses_no_item() {
    let flaky = Flaky::new([]);
    for number in 0..20 {
        create(&flaky, &format!("{number:02}")).await;
    }
    let mut started = ControllerRun::over(&flaky, 0, Some(3));
    assert_eq!((started.next().await, started.next().await), ("00".to_owned(), "01".to_owned()));
    assert!(time::timeout(Duration::from_secs(60), started.reconciled.recv()).await.is_err(), "two run at once");
    started.names.permits.add_permits(100);
    for number in 2..20 {
        assert_eq!(started.next().await, format!("{number:02}"));
    }
    assert_eq!(started.next().await, "gone");
    create(&flaky, "watched").await;
    assert_eq!(started.next().await, "watched");
    flaky.close().await;
    started.task.await.expect("it ends with the store");
}

#[tokio::test(start_paused = true)]
async fn after_missed_history_everything_is_listed_again() {
    let flaky = Flaky::new([]);
    create(&flaky, "one").await;
    let mut started = ControllerRun::over(&flaky, 100, None);
    assert_eq!((started.next().await, started.next().await), ("one".to_owned(), "gone".to_owned()));
    flaky.errors.lock().push_back(Error::Expired { oldest: Revision(1) });
    create(&flaky, "two").await;
    assert_eq!(started.next().await, "two");
    for name in ["one", "two", "gone"] {
        assert_eq!(started.next().await, name);
    }
    started.end.cancel();
    started.task.await.expect("it ends when it is told");
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_retried_like_an_error_and_stops_no_other_item() {
    let flaky = Flaky::new([]);
    create(&flaky, "bad").await;
    let mut started = ControllerRun::over(&flaky, 100, None);
    let clock = time::Instant::now();
    assert_eq!((started.next().await, started.next().await), ("bad".to_owned(), "gone".to_owned()));
    assert_eq!(started.next().await, "bad");
    assert_eq!(clock.elapsed(), Duration::from_secs(1));
    started.end.cancel();
    started.task.await.expect("it ends when it is told");
}
