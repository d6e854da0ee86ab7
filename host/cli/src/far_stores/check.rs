//! Contacts the stores of a file without a host, and reports what is wrong with them.

use std::sync::Arc;
#[cfg(any(feature = "kubernetes", feature = "nats"))]
use std::time::Duration;

use tokio::task::JoinSet;

use crate::stores_config::{NamedStore, Storage, StoresConfig};

/// The longest contact of one store.
#[cfg(any(feature = "kubernetes", feature = "nats"))]
const CONTACT_MAX: Duration = Duration::from_secs(30);

/// The known state of a store after a contact.
#[derive(Clone, Debug)]
pub(crate) struct StoreReport {
    pub(crate) name: Arc<str>,
    pub(crate) storage: &'static str,
    /// Why a host would not use the store; `None` if it would.
    pub(crate) refusal: Option<String>,
    /// The problems that a person should know, each with its severity and its text.
    pub(crate) findings: Vec<(&'static str, String)>,
}

/// Contacts all stores of a file at once. Returns their reports in the order of the file.
pub(crate) async fn check(file: StoresConfig) -> Vec<StoreReport> {
    let mut contacts = JoinSet::new();
    for (at, store) in file.stores.into_iter().enumerate() {
        contacts.spawn(async move { (at, contact(store).await) });
    }
    let mut reports = contacts.join_all().await;
    reports.sort_by_key(|(at, _)| *at);
    reports.into_iter().map(|(_, report)| report).collect()
}

async fn contact(NamedStore { name, storage, cache_bytes_max: _ }: NamedStore) -> StoreReport {
    match storage {
        Storage::Memory => StoreReport { name, storage: "memory", refusal: None, findings: Vec::new() },
        #[cfg(feature = "nats")]
        Storage::Nats(settings) => of_nats(name, *settings).await,
        #[cfg(feature = "kubernetes")]
        Storage::Kubernetes(settings) => of_kubernetes(name, *settings).await,
    }
}

#[cfg(feature = "nats")]
async fn of_nats(name: Arc<str>, settings: homeostat_nats::BucketSettings) -> StoreReport {
    use homeostat_nats::{Bucket, Severity};
    use homeostat_store::cached::Upstream;

    let would_create = settings.create.is_some();
    let mut report = StoreReport { name, storage: "nats", refusal: None, findings: Vec::new() };
    let bucket = match Bucket::new(settings, Default::default(), Arc::new(homeostat_store::SystemClockAndIds)) {
        Ok(bucket) => bucket,
        Err(error) => return StoreReport { refusal: Some(error.to_string()), ..report },
    };
    match within(bucket.inspect()).await {
        Ok(true) => {}
        Ok(false) if would_create => {
            report.findings.push(("warned", "there is no such bucket: the host will create it".to_owned()));
        }
        Ok(false) => report.refusal = Some("there is no such bucket, and `create` does not say how".to_owned()),
        Err(reason) => report.refusal = Some(reason),
    }
    for problem in bucket.setting_problems() {
        let severity = if problem.severity == Severity::Refused { "refused" } else { "warned" };
        report.findings.push((severity, problem.to_string()));
    }
    bucket.close().await;
    report
}

#[cfg(feature = "kubernetes")]
async fn of_kubernetes(name: Arc<str>, settings: homeostat_kubernetes::ClusterSettings) -> StoreReport {
    use homeostat_store::cached::Upstream;

    let cluster = homeostat_kubernetes::Cluster::new(settings);
    let mut report = StoreReport { name, storage: "kubernetes", refusal: None, findings: Vec::new() };
    match within(cluster.connect()).await {
        Ok(incarnation) if incarnation.id.is_none() => report.findings.push((
            "warned",
            "the host may not read the namespace kube-system, so it does not notice that it talks to another cluster: allow `get` of it".to_owned(),
        )),
        Ok(_) => {}
        Err(reason) => report.refusal = Some(reason),
    }
    cluster.close().await;
    report
}

/// Waits for a contact. Returns the reason why it failed.
#[cfg(any(feature = "kubernetes", feature = "nats"))]
async fn within<T>(contact: impl Future<Output = homeostat_store::Result<T>>) -> Result<T, String> {
    match tokio::time::timeout(CONTACT_MAX, contact).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("it did not answer within {} s", CONTACT_MAX.as_secs())),
    }
}
