//! The lifecycle of a pod: a pure function of its spec, its last status and the clock.

use homeostat_sdk::prelude::*;

use crate::api::{Container, ContainerStatus, Phase, Pod, PodStatus, RestartPolicy, State};

/// The behaviour of this node.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The time that a container takes to start.
    pub(crate) startup: Duration,
    /// The time that the containers of a pod take to stop.
    pub(crate) shutdown: Duration,
    /// The time from the start of a container with a task until it has succeeded.
    pub(crate) task: Duration,
    /// An image whose name contains one of these cannot be pulled.
    pub(crate) bad_images: Vec<String>,
    /// The container of an image whose name contains one of these has a task, and ends by itself.
    pub(crate) task_images: Vec<String>,
}

impl Settings {
    fn can_pull(&self, image: &str) -> bool {
        !self.bad_images.iter().any(|bad| image.contains(bad))
    }

    /// Returns whether a container of a pod ends by itself.
    fn ends(&self, pod: &Pod, image: &str) -> bool {
        pod.restart_policy != RestartPolicy::Always && self.task_images.iter().any(|task| image.contains(task))
    }

    /// Returns the next status after `before`, and the time until it changes again.
    pub(crate) fn next(&self, pod: &Pod, before: &PodStatus, now: Time) -> (PodStatus, Option<Duration>) {
        let same = same_images(pod, before);
        let start = before.start_time.filter(|_| same).unwrap_or(now);
        let missing = self.startup.saturating_sub(now.since(start));
        let statuses = pod.containers.iter().map(|container| {
            let last = before.container_statuses.iter().find(|last| last.name == container.name);
            let status = self.container(container, last, missing.is_zero().then_some(now));
            if self.ends(pod, &container.image) { self.after_task(status, now) } else { status }
        });
        let container_statuses: Vec<_> = statuses.collect();
        let ready = container_statuses.iter().all(|container| container.ready);
        let has_ended = |of: &ContainerStatus| matches!(of.state, State::Terminated { .. });
        let is_over = !container_statuses.is_empty() && container_statuses.iter().all(has_ended);
        let is_up = container_statuses.iter().all(|of| !matches!(of.state, State::Waiting { .. }));
        let has_failed =
            |of: &ContainerStatus| matches!(of.state, State::Terminated { exit_code, .. } if exit_code != 0);
        let phase = match (is_over, is_up) {
            (true, _) if container_statuses.iter().any(has_failed) => Phase::Failed,
            (true, _) => Phase::Succeeded,
            (_, true) => Phase::Running,
            _ => Phase::Pending,
        };
        let mut conditions = before.conditions.clone();
        for scheduled in ["PodScheduled", "Initialized"] {
            conditions.set_at(Condition::new(scheduled, true), || now);
        }
        for up in ["ContainersReady", "Ready"] {
            let completed = || Condition::new(up, false).because("PodCompleted", "");
            let condition = if is_over { completed() } else { readiness(up, &container_statuses) };
            conditions.set_at(condition, || now);
        }
        let starting = !ready && !missing.is_zero() && pod.containers.iter().any(|of| self.can_pull(&of.image));
        let starts = starting.then_some(missing);
        let tasks = container_statuses.iter().filter_map(|of| match of.state {
            State::Running { started_at } if self.ends(pod, &of.image) => Some(self.until_done(started_at, now)),
            _ => None,
        });
        let again = tasks.chain(starts).min();
        (PodStatus { phase, start_time: Some(start), conditions, container_statuses }, again)
    }

    /// Returns the time until a container with a task has succeeded.
    fn until_done(&self, started_at: Time, now: Time) -> Duration {
        self.task.saturating_sub(now.since(started_at))
    }

    /// Ends a container whose task is done.
    fn after_task(&self, mut status: ContainerStatus, now: Time) -> ContainerStatus {
        if let State::Running { started_at } = status.state
            && self.until_done(started_at, now).is_zero()
        {
            let reason = "Completed".to_owned();
            status.state =
                State::Terminated { exit_code: 0, reason, started_at: Some(started_at), finished_at: Some(now) };
            status.ready = false;
            status.started = false;
        }
        status
    }

    /// Returns the time until the containers of a deleted pod have stopped. `deadline` is the end of its grace period.
    pub(crate) fn until_stopped(&self, deadline: Time, grace: Duration, now: Time) -> Duration {
        let early = grace.saturating_sub(self.shutdown);
        deadline.since(now).saturating_sub(early)
    }

    /// `up` is the current time if the container has had its time to start.
    fn container(&self, of: &Container, last: Option<&ContainerStatus>, up: Option<Time>) -> ContainerStatus {
        let Container { name, image } = of.clone();
        let same_image = last.filter(|last| last.image == image);
        let waiting = |reason: &str, message: String| State::Waiting { reason: reason.to_owned(), message };
        let state = match (same_image.map(|last| &last.state), up) {
            _ if !self.can_pull(&image) => waiting("ImagePullBackOff", format!("Back-off pulling image {image:?}")),
            (Some(last @ (State::Running { .. } | State::Terminated { .. })), _) => last.clone(),
            (_, Some(started_at)) => State::Running { started_at },
            (_, None) => waiting("ContainerCreating", String::new()),
        };
        let restarted = last.is_some_and(|last| last.image != image);
        let restart_count = last.map_or(0, |last| last.restart_count) + u32::from(restarted);
        let ready = matches!(state, State::Running { .. });
        let is_pulled = !matches!(state, State::Waiting { .. });
        let image_id = if is_pulled { image.clone() } else { String::new() };
        ContainerStatus { name, image, image_id, ready, started: ready, restart_count, state }
    }
}

/// Returns whether the last status refers to these containers with these images.
fn same_images(pod: &Pod, before: &PodStatus) -> bool {
    let now = pod.containers.iter().map(|container| (&container.name, &container.image));
    now.eq(before.container_statuses.iter().map(|container| (&container.name, &container.image)))
}

fn readiness(kind: &str, containers: &[ContainerStatus]) -> Condition {
    let unready: Vec<_> = containers.iter().filter(|of| !of.ready).map(|of| of.name.as_str()).collect();
    let condition = Condition::new(kind, unready.is_empty());
    if unready.is_empty() {
        condition
    } else {
        condition.because("ContainersNotReady", format_args!("containers with unready status: [{}]", unready.join(" ")))
    }
}

#[cfg(test)]
mod tests;
