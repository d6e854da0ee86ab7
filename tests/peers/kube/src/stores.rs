//! A controller of kube-rs in a cluster, with its client, its reflector and its scheduler.

use std::sync::Arc;

use anyhow::{Context, Result};
use futures_util::StreamExt;
use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind, Object};
use kube::runtime::controller::{Action, Config};
use kube::runtime::{Controller, watcher};
use kube::{Api, Client, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::arguments::Contender;
use crate::commands;

/// The wait after a failure, before the next try.
const RETRY_AFTER: std::time::Duration = std::time::Duration::from_millis(100);

#[derive(Clone, Debug, Deserialize, Serialize)]
struct MeasuredText {
    text: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct Length {
    characters: usize,
}

/// The kind of the guest `status`.
type Measured = Object<MeasuredText, Length>;

/// How the reconciler reaches the cluster.
struct Cluster {
    client: Client,
    resource: ApiResource,
}

/// Runs a controller until the driver ends it.
pub(crate) async fn control(contender: &Contender) -> Result<()> {
    let file = contender.server.as_deref().context("the work needs a cluster")?;
    let kubeconfig = Kubeconfig::read_from(file)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    let kind = GroupVersionKind::gvk("demo.homeostat.dev", "v1", "Measured");
    let resource = ApiResource::from_gvk_with_plural(&kind, "measureds");
    let all: Api<Measured> = Api::all_with(client.clone(), &resource);
    let workers = u16::try_from(contender.size.workers).context("there are too many workers")?;
    commands::obey(async move {
        let controller = Controller::new_with(all, watcher::Config::default(), resource.clone())
            .with_config(Config::default().concurrency(workers));
        let again = |_: Arc<Measured>, _: &kube::Error, _: Arc<Cluster>| Action::requeue(RETRY_AFTER);
        let ended = controller.run(reconcile, again, Arc::new(Cluster { client, resource }));
        drop(tokio::spawn(ended.for_each(|_| std::future::ready(()))));
        Ok(())
    })
    .await
}

/// Writes the length of the text into the status.
async fn reconcile(measured: Arc<Measured>, context: Arc<Cluster>) -> Result<Action, kube::Error> {
    let characters = measured.spec.text.chars().count();
    if measured.status.as_ref().is_some_and(|status| status.characters == characters) {
        return Ok(Action::await_change());
    }
    let namespace = measured.namespace().unwrap_or_default();
    let api: Api<Measured> = Api::namespaced_with(context.client.clone(), &namespace, &context.resource);
    let patch = Patch::Merge(json!({"status": Length { characters }}));
    drop(api.patch_status(&measured.name_any(), &PatchParams::default(), &patch).await?);
    Ok(Action::await_change())
}
