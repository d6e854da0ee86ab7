//! Evictions: the deletion of a pod, if its disruption budget allows it.
//!
//! The controller of disruptions writes into the status of a budget how many disruptions are allowed. An eviction takes
//! one of them before it deletes the pod.
//!
//! Source: `pkg/registry/core/pod/storage/eviction.go` of Kubernetes.

use std::sync::Arc;

use axum::response::Response;
use homeostat_store::{
    Change, Key, Kind, Precondition, Propagation, Query, Resource, ResourcePages, Revision, Selector, Write,
};
use serde_json::json;

use crate::params::DeleteOptions;
use crate::pod_condition::{PodCondition, is_true, this_second};
use crate::request::ResourceRequest;
use crate::status::{Failure, created};

/// How often an eviction is tried when others write the pod or the budget meanwhile.
const TRIES: u32 = 20;

/// Pods whose deletion a budget has not seen yet at most. Source: Kubernetes.
const DISRUPTED_MAX: usize = 2000;

/// Seconds after which a client may retry while a budget is being processed. Source: Kubernetes.
const PROCESSING_S: u32 = 10;

/// The condition of a pod that is evicted.
const DISRUPTED: PodCondition = PodCondition {
    name: "DisruptionTarget",
    reason: Some("EvictionByEvictionAPI"),
    message: Some("Eviction API: evicting"),
};

/// Answers a request to `pods/NAME/eviction`.
pub(crate) async fn answer(request: &ResourceRequest<'_>, key: &Key) -> Result<Response, Failure> {
    let eviction = request.http.document()?;
    let named = eviction["metadata"]["name"].as_str().unwrap_or_default();
    if named != key.name() {
        return Err(Failure::bad_request("name in URL does not match name in Eviction object"));
    }
    let options = eviction.get("deleteOptions").filter(|options| !options.is_null()).cloned();
    let deletion = DeleteOptions::read(options, &request.params)?;
    let dry_run = request.params.is_dry_run()? || deletion.is_dry_run()?;
    let evictor = Evictor { request, deletion, dry_run };
    let mut tries = TRIES;
    loop {
        let pod = request.http.api.host.store().get_live(key).await?;
        tries -= 1;
        match evictor.evict(&pod).await {
            Ok(()) => return Ok(created()),
            Err(failure) if failure.is_conflict() && tries > 0 && !evictor.names_revision()? => {}
            Err(failure) => return Err(failure),
        }
    }
}

/// One eviction.
struct Evictor<'r> {
    request: &'r ResourceRequest<'r>,
    deletion: DeleteOptions,
    dry_run: bool,
}

impl Evictor<'_> {
    /// Evicts a pod in exactly this state.
    async fn evict(&self, pod: &Arc<Resource>) -> Result<(), Failure> {
        let phase = pod.status()["phase"].as_str().unwrap_or_default();
        // Nothing depends on such a pod.
        if pod.is_deleting() || matches!(phase, "Pending" | "Succeeded" | "Failed") {
            return self.delete(pod).await;
        }
        let budgets = self.budgets_of(pod).await?;
        let budget = match budgets.as_slice() {
            [] => return self.delete(pod).await,
            [budget] => budget,
            _ => {
                return Err(Failure::internal(
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                ));
            }
        };
        if !(is_true(pod, "Ready") || needs(budget)) {
            return self.delete(pod).await;
        }
        self.take(budget, pod).await?;
        self.delete(pod).await
    }

    /// Returns at most two of the budgets that select a pod.
    async fn budgets_of(&self, pod: &Resource) -> Result<Vec<Arc<Resource>>, Failure> {
        let mut found = Vec::new();
        if pod.document()["metadata"]["labels"].as_object().is_none_or(serde_json::Map::is_empty) {
            return Ok(found);
        }
        let selector = Selector { namespace: Some(pod.key().namespace().to_owned()), ..Selector::default() };
        let store = self.request.http.api.host.store();
        let mut budgets = ResourcePages::new(&*store, Query { selector, ..Query::all(budgets()) });
        while let Some(budget) = budgets.next().await? {
            if selector_of(&budget).is_some_and(|selector| selector.matches(pod)) {
                found.push(budget);
            }
            if found.len() > 1 {
                break;
            }
        }
        Ok(found)
    }

    /// Takes one of the disruptions that a budget allows.
    async fn take(&self, budget: &Resource, pod: &Resource) -> Result<(), Failure> {
        let (name, status) = (budget.key().name(), budget.status());
        let number = |field: &str| status[field].as_i64().unwrap_or_default();
        if number("observedGeneration") < i64::try_from(budget.generation()).unwrap_or(i64::MAX) {
            let words = format!("The disruption budget {name} is still being processed by the server.");
            return Err(Failure::disruption(Some(PROCESSING_S), &words));
        }
        let allowed = number("disruptionsAllowed");
        let refused =
            |reason: &str| Failure::forbidden(format!("poddisruptionbudgets.policy {name:?} is forbidden: {reason}"));
        if allowed < 0 {
            return Err(refused("pdb disruptions allowed is negative"));
        }
        if status["disruptedPods"].as_object().is_some_and(|pods| pods.len() > DISRUPTED_MAX) {
            return Err(refused("DisruptedPods map too big - too many evictions not confirmed by PDB controller"));
        }
        if allowed == 0 {
            let (desired, current) = (number("desiredHealthy"), number("currentHealthy"));
            let words =
                format!("The disruption budget {name} needs {desired} healthy pods and has {current} currently");
            return Err(Failure::disruption(None, &words));
        }
        let metadata = json!({ "uid": budget.uid(), "resourceVersion": budget.revision().to_string() });
        let status = json!({ "disruptionsAllowed": allowed - 1, "disruptedPods": { pod.key().name(): this_second() } });
        let change = Change::Merge(json!({ "metadata": metadata, "status": status }));
        self.write(Write::PatchStatus { key: budget.key().clone(), change }).await.map(drop)
    }

    /// Reports the eviction in the status of a pod, and deletes the pod.
    async fn delete(&self, pod: &Resource) -> Result<(), Failure> {
        let Precondition { uid, revision } = self.deletion.precondition()?;
        let (uid, mut revision) = (uid.unwrap_or_else(|| pod.uid().to_owned()), revision.unwrap_or(pod.revision()));
        if uid == pod.uid() && revision == pod.revision() && !(self.dry_run || DISRUPTED.is_in(pod)) {
            revision = self.write(DISRUPTED.write(pod)).await?;
        }
        let (precondition, propagation) = (
            Precondition { uid: Some(uid), revision: Some(revision) },
            self.deletion.propagation(Propagation::Background)?,
        );
        let (key, grace_seconds) = (pod.key().clone(), self.deletion.grace_seconds());
        self.write(Write::Delete { key, precondition, propagation, grace_seconds }).await.map(drop)
    }

    /// Returns whether the client names the revision of the pod, so that another try would not help.
    fn names_revision(&self) -> Result<bool, Failure> {
        Ok(self.deletion.precondition()?.revision.is_some())
    }

    async fn write(&self, write: Write) -> Result<Revision, Failure> {
        let mut write = self.request.write(write)?;
        write.dry_run = self.dry_run;
        Ok(self.request.http.api.host.write_unreviewed(write).await?.resource.revision())
    }
}

fn budgets() -> Kind {
    Kind::new("policy", "v1", "PodDisruptionBudget")
}

/// Returns whether a budget counts a pod that is not ready.
fn needs(budget: &Resource) -> bool {
    if budget.document()["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow" {
        return false;
    }
    let number = |field: &str| budget.status()[field].as_i64().unwrap_or_default();
    !(number("currentHealthy") >= number("desiredHealthy") && number("desiredHealthy") > 0)
}

/// Returns the selector of a budget; `None` if it selects no pod, or is malformed.
fn selector_of(budget: &Resource) -> Option<Selector> {
    let selector = budget.document()["spec"].get("selector").filter(|selector| selector.is_object())?;
    Selector::of_labels(selector)
}
