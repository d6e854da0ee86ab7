//! Simulates a node: pods become ready after a delay, pods of tasks succeed, and pods disappear when they are deleted. No
//! containers run.
//!
//! | setting | default | means |
//! |---|---|---|
//! | `startup` | `300ms` | the time from the node's first sight of a pod until it is ready |
//! | `shutdown` | `0s` | the time from the deletion of a pod that has a node until it is stopped, at most its grace period |
//! | `bad-image` | `bad broken` | texts, separated by spaces: an image whose name contains one cannot be pulled |
//! | `task-image` | `task` | texts, separated by spaces: an image whose name contains one ends by itself, unless its pod restarts it always |
//! | `task-duration` | `500ms` | the time from the start of such a container until it has succeeded |
//! | `unscheduled` | `true` | whether pods without a node run, too; `false` where a scheduler gives each pod a node |
//!
//! A deleted pod that has a node (`spec.nodeName`) stays until this guest has stopped it. A finalizer of the guest holds the pods
//! without a node instead.

mod api;
mod node;

use api::{ContainerStatus, Pod, PodStatus, State};
use homeostat_sdk::prelude::*;
use node::Settings;

const FINALIZER: &str = "demo.homeostat.dev/kubelet";

struct Kubelet;

impl Reconciler for Kubelet {
    fn describe() -> Spec {
        Spec::manages::<Pod>()
    }

    fn reconcile(key: Key) -> Result<Outcome, Failure> {
        let Some(mut pod) = Pod::get_opt(&key)? else {
            return Ok(Outcome::settled());
        };
        let has_finalizer = pod.metadata.finalizers.iter().any(|name| name == FINALIZER);
        let has_node = !pod.spec.node_name.is_empty();
        if !has_node && !has_finalizer && !config::get_or("unscheduled", true)? {
            return Ok(Outcome::settled());
        }
        if has_finalizer || !has_node {
            // A pod that got its node later has its grace period too, at whose end it is stopped.
            return finalizer(&mut pod, FINALIZER, run, |pod| if has_node { Ok(()) } else { stop(pod) });
        }
        if !pod.is_deleting() {
            return run(&mut pod);
        }
        let grace = pod.stored()["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or_default();
        let (Some(deadline), 1..) = (pod.metadata.deletion_timestamp, grace) else {
            return Ok(Outcome::settled());
        };
        let missing = settings()?.until_stopped(deadline, Duration::from_secs(grace), Time::now());
        if !missing.is_zero() {
            return Ok(Outcome::again_after(missing));
        }
        stop(&mut pod)?;
        pod.delete_after(0)?;
        Ok(Outcome::settled())
    }
}

fn run(pod: &mut Resource<Pod>) -> Result<Outcome, Failure> {
    let before = pod.status.clone().unwrap_or_default();
    let (status, again) = settings()?.next(&pod.spec, &before, Time::now());
    let news = news(&before, &status);
    if pod.set_status(status)? {
        news.iter().for_each(News::tell);
    }
    Ok(again.map_or_else(Outcome::settled, Outcome::again_after))
}

fn stop(pod: &mut Resource<Pod>) -> Result<(), Failure> {
    for container in &pod.spec.containers {
        events::normal("Killing", format_args!("Stopping container {}", container.name));
    }
    Ok(())
}

fn settings() -> Result<Settings, Failure> {
    let Span(startup) = config::get_or("startup", Span(Duration::from_millis(300)))?;
    let Span(shutdown) = config::get_or("shutdown", Span(Duration::ZERO))?;
    let Span(task) = config::get_or("task-duration", Span(Duration::from_millis(500)))?;
    let [bad_images, task_images] = [("bad-image", "bad broken"), ("task-image", "task")].map(|(name, default)| {
        let texts = config::get_or(name, default.to_owned());
        texts.map(|texts| texts.split_whitespace().map(str::to_owned).collect())
    });
    Ok(Settings { startup, shutdown, task, bad_images: bad_images?, task_images: task_images? })
}

/// An event to emit.
enum News {
    Started(String),
    Failed(String),
}

/// Returns the events between two statuses.
fn news(before: &PodStatus, after: &PodStatus) -> Vec<News> {
    let changed = |now: &&ContainerStatus| {
        before.container_statuses.iter().all(|last| last.name != now.name || last.state != now.state)
    };
    let tell = |now: &ContainerStatus| match &now.state {
        State::Running { .. } => Some(News::Started(now.name.clone())),
        State::Waiting { reason, message } if reason == "ImagePullBackOff" => Some(News::Failed(message.clone())),
        State::Waiting { .. } | State::Terminated { .. } => None,
    };
    after.container_statuses.iter().filter(changed).filter_map(tell).collect()
}

impl News {
    fn tell(&self) {
        match self {
            Self::Started(container) => events::normal("Started", format_args!("Started container {container}")),
            Self::Failed(message) => events::warning("Failed", message),
        }
    }
}

homeostat_sdk::export!(Kubelet);

#[cfg(test)]
mod tests;
