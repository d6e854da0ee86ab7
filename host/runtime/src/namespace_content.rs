//! The content of namespaces: it is deleted with its namespace, which stays until then.
//!
//! A deleted namespace stays, as `Terminating`, until its content is gone and `spec.finalizers` is empty. Nothing can be
//! created in it meanwhile. The content that lives in the host's own store is deleted; that of other stores stays, because
//! other hosts may use it.
//!
//! Source: the namespace controller of Kubernetes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use homeostat_store::{
    Change, Event, EventType, Kind, Precondition, Propagation, Query, Request, Resource, ResourcePages, Scope,
    Selector, Subresource, Write,
};
use homeostat_workqueue::Next;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::NamespacePolicy;
use crate::clock::now;
use crate::conditions::{Condition, dated};
use crate::context::Context;
use crate::error::found;
use crate::initial_resources::create_missing;
use crate::kinds::KindInfo;
use crate::namespaces::{key, namespaces};
use crate::native_controller::{self, NativeReconciler};

/// The namespaces that always exist. One that is deleted is created again, as in Kubernetes.
const INITIAL: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
/// The entry of `spec.finalizers` that stands for the content.
const FINALIZER: &str = "kubernetes";
/// The wait before content with pending finalizers is looked for again.
const PAUSE: Duration = Duration::from_secs(1);

/// Returns whether the host manages namespaces: they are built in, and no server defines them.
fn are_managed(context: &Context) -> bool {
    context.kinds.has_built_in_schema(&namespaces()) && !context.stores.is_far(&namespaces())
}

/// Creates the namespaces that always exist.
///
/// # Errors
/// Those of the store.
pub(crate) async fn create_initial(context: &Context) -> homeostat_store::Result<()> {
    if !are_managed(context) || context.admission.namespaces.policy() == NamespacePolicy::Any {
        return Ok(());
    }
    for name in INITIAL {
        let document = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        create_missing(&*context.store, document).await?;
    }
    Ok(())
}

/// Deletes the content of deleted namespaces until the host ends.
pub(crate) async fn run(context: Arc<Context>, end: CancellationToken) {
    if are_managed(&context) {
        let (store, queue) = (context.store.clone(), native_controller::queue(PAUSE, PAUSE, None));
        native_controller::run(Arc::new(NamespaceReconciler { context }), store, queue, None, end).await;
    }
}

struct NamespaceReconciler {
    context: Arc<Context>,
}

impl NativeReconciler for NamespaceReconciler {
    /// The name of a namespace.
    type Item = Arc<str>;
    const NAME: &'static str = "namespaces";
    const CONCURRENCY_MAX: usize = 4;

    fn scope(&self) -> Option<Scope> {
        Some(Scope::Kind(namespaces()))
    }

    fn items(&self, event: &Event) -> Vec<Arc<str>> {
        let name = event.resource.key().name();
        if event.kind == EventType::Deleted || event.resource.is_deleting() {
            self.context.admission.namespaces.forget(name);
        }
        let is_initial = event.kind == EventType::Deleted && INITIAL.contains(&name);
        if event.resource.is_deleting() || is_initial { vec![name.into()] } else { Vec::new() }
    }

    async fn reconcile(&self, name: &Arc<str>) -> Result<Next, String> {
        self.sync(name).await.map_err(|error| {
            tracing::warn!(%error, namespace = &**name, "cannot delete the content of the namespace, it is retried");
            error.to_string()
        })
    }
}

impl NamespaceReconciler {
    async fn sync(&self, name: &str) -> homeostat_store::Result<Next> {
        let store = &*self.context.store;
        let Some(namespace) = found(store.get(&key(name)).await)? else {
            if INITIAL.contains(&name) {
                create_initial(&self.context).await?;
            }
            return Ok(Next::Done);
        };
        if !namespace.is_deleting() {
            return Ok(Next::Done);
        }
        if !names_finalizer(&namespace) {
            return Ok(Next::Done);
        }
        if namespace.status()["phase"] != "Terminating" {
            let change = Change::Merge(json!({ "status": { "phase": "Terminating" } }));
            found(store.write(Write::PatchStatus { key: key(name), change }).await)?;
        }
        let mut kinds = self.context.kinds.list();
        kinds.retain(|info| info.namespaced && !info.keys_only && !self.context.stores.is_far(&info.kind));
        // The content stays until the pods that use it are gone.
        let (pods, others): (Vec<_>, Vec<_>) = kinds.into_iter().partition(|info| info.kind == pods());
        for (kinds, are_counted) in [(pods, false), (others, true)] {
            let left = self.delete_contents(kinds, name).await;
            if !left.is_empty() {
                self.report(&namespace, left.conditions(are_counted)).await?;
                return left.failures.into_iter().next().map_or(Ok(Next::After(PAUSE)), Err);
            }
        }
        let Some(namespace) = found(store.get(&key(name)).await)? else { return Ok(Next::Done) };
        let others: Vec<&Value> = finalizers(&namespace).filter(|finalizer| *finalizer != FINALIZER).collect();
        let change = Change::Merge(json!({ "spec": { "finalizers": others } }));
        let precondition = Precondition { uid: Some(namespace.uid().to_owned()), revision: Some(namespace.revision()) };
        let write = Write::Patch { key: key(name), change, precondition };
        match store.submit(Request { subresource: Some(Subresource::Finalize), ..write.into() }).await {
            // A client may have added a finalizer.
            Err(homeostat_store::Error::Conflict { .. }) => Ok(Next::After(PAUSE)),
            finalized => found(finalized).map(|_| Next::Done),
        }
    }

    /// Sets these conditions of a namespace, and leaves others as they are.
    async fn report(&self, namespace: &Resource, conditions: [Condition; 5]) -> homeostat_store::Result<()> {
        let (status, now) = (namespace.status(), now());
        let before = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut after = before.to_vec();
        for condition in conditions.map(|condition| dated(status, condition, &now)) {
            match after.iter().position(|known| known["type"] == condition["type"]) {
                Some(at) => after[at] = condition,
                None => after.push(condition),
            }
        }
        if after == before {
            return Ok(());
        }
        let change = Change::Merge(json!({ "status": { "conditions": after } }));
        let key = namespace.key().clone();
        found(self.context.store.write(Write::PatchStatus { key, change }).await).map(drop)
    }

    /// Deletes the resources of these kinds in a namespace. Returns what stays; a kind that cannot be deleted holds up no other.
    async fn delete_contents(&self, kinds: Vec<KindInfo>, namespace: &str) -> RemainingContent {
        let mut left = RemainingContent::default();
        for info in kinds {
            match self.delete_content(&info.kind, namespace, &mut left.finalizers).await {
                Ok(0) => {}
                Ok(count) => {
                    left.counts.push(format!("{}.{} has {count} resource instances", info.plural, info.kind.group));
                }
                Err(error) => left.failures.push(error),
            }
        }
        left
    }

    /// Deletes the resources of a kind in a namespace, and counts the finalizers of those that stay. Returns how many stay: a
    /// later look finds what was created meanwhile, and what waits for finalizers.
    async fn delete_content(
        &self,
        kind: &Kind,
        namespace: &str,
        finalizers: &mut BTreeMap<String, usize>,
    ) -> homeostat_store::Result<usize> {
        let store = &*self.context.store;
        let selector = Selector { namespace: Some(namespace.to_owned()), ..Selector::default() };
        let mut pages = ResourcePages::new(store, Query { selector, ..Query::all(kind.clone()) });
        let mut left = 0;
        while let Some(page) = pages.next_page().await? {
            left += page.len();
            for finalizer in page.iter().flat_map(|resource| resource.finalizers()) {
                *finalizers.entry(finalizer.to_owned()).or_default() += 1;
            }
            for resource in page.iter().filter(|resource| !resource.is_deleting()) {
                let precondition = Precondition { uid: Some(resource.uid().to_owned()), revision: None };
                let (key, propagation) = (resource.key().clone(), Propagation::Background);
                match store.write(Write::Delete { key, precondition, propagation, grace_seconds: None }).await {
                    Ok(written) => left -= usize::from(written.change == Some(EventType::Deleted)),
                    Err(homeostat_store::Error::NotFound { .. }) => left -= 1,
                    Err(homeostat_store::Error::Conflict { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(left)
    }
}

/// What a namespace waits for.
#[derive(Default)]
struct RemainingContent {
    /// The kinds of the resources, each with their number, in words.
    counts: Vec<String>,
    /// The number of resources with each finalizer.
    finalizers: BTreeMap<String, usize>,
    /// Why resources could not be deleted, each for another kind.
    failures: Vec<homeostat_store::Error>,
}

impl RemainingContent {
    fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.failures.is_empty()
    }

    /// Returns the conditions that tell it, in the words of Kubernetes. What remains is told if it `is_counted`: Kubernetes
    /// does not count pods, and a kube-controller-manager that runs beside the host would take such a condition back.
    ///
    /// Source: `pkg/controller/namespace/deletion` of Kubernetes.
    fn conditions(&self, is_counted: bool) -> [Condition; 5] {
        let sorted = |mut texts: Vec<String>| {
            texts.sort_unstable();
            Some(texts.join(", ")).filter(|text| !text.is_empty())
        };
        let failures = sorted(self.failures.iter().map(ToString::to_string).collect()).map(|failures| {
            let count = self.failures.len();
            format!("Failed to delete all resource types, {count} remaining: {failures}")
        });
        let counts = sorted(self.counts.clone()).filter(|_| is_counted);
        let counts = counts.map(|counts| format!("Some resources are remaining: {counts}"));
        let held = self.finalizers.iter().map(|(name, count)| format!("{name} in {count} resource instances"));
        let held = sorted(held.collect()).filter(|_| is_counted);
        let held = held.map(|held| format!("Some content in the namespace has finalizers remaining: {held}"));
        [
            condition(
                "NamespaceDeletionDiscoveryFailure",
                ("ResourcesDiscovered", "All resources successfully discovered"),
                ("DiscoveryFailed", None),
            ),
            condition(
                "NamespaceDeletionGroupVersionParsingFailure",
                ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
                ("GroupVersionParsingFailed", None),
            ),
            condition(
                "NamespaceDeletionContentFailure",
                ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
                ("ContentDeletionFailed", failures),
            ),
            condition(
                "NamespaceContentRemaining",
                ("ContentRemoved", "All content successfully removed"),
                ("SomeResourcesRemain", counts),
            ),
            condition(
                "NamespaceFinalizersRemaining",
                ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
                ("SomeFinalizersRemain", held),
            ),
        ]
    }
}

/// Returns a condition that is true for a reason if there is a message, and false for another one otherwise.
fn condition(name: &'static str, is_false: (&'static str, &str), is_true: (&'static str, Option<String>)) -> Condition {
    match is_true {
        (reason, Some(message)) => (name, true, reason, message),
        (_, None) => (name, false, is_false.0, is_false.1.to_owned()),
    }
}

fn pods() -> Kind {
    Kind::new("", "v1", "Pod")
}

fn finalizers(namespace: &Resource) -> impl Iterator<Item = &Value> {
    let finalizers = namespace.document().pointer("/spec/finalizers").and_then(Value::as_array);
    finalizers.into_iter().flatten()
}

fn names_finalizer(namespace: &Resource) -> bool {
    finalizers(namespace).any(|finalizer| finalizer == FINALIZER)
}

#[cfg(test)]
mod tests;
