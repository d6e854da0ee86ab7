//! The columns of pods, as kubectl shows them.
//!
//! Source: `printPod` in `pkg/printers/internalversion/printers.go` of Kubernetes.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::age as ages;
use crate::table::TableColumn;
use crate::table::cells::{condition, elements, is_deleting, number, or_none, text};
use crate::table::columns::{age, column, computed, text_or_none, wide};

/// Returns the columns of pods, besides the name.
pub(in crate::table) fn columns() -> Vec<TableColumn> {
    let address = |pod: &Value| match text(pod, "/status/podIPs/0/ip") {
        "" => or_none(text(pod, "/status/podIP")),
        address => address.into(),
    };
    vec![
        column("Ready", "string", computed(|pod| PodSummary::of(pod).ready())),
        column("Status", "string", computed(|pod| PodSummary::of(pod).word.into())),
        column("Restarts", "string", computed(|pod| PodSummary::of(pod).restarts())),
        age(),
        wide("IP", "string", computed(address)),
        wide("Node", "string", text_or_none("/spec/nodeName")),
        wide("Nominated Node", "string", text_or_none("/status/nominatedNodeName")),
        wide("Readiness Gates", "string", computed(readiness_gates)),
    ]
}

/// Returns the condition of the row of a pod that has ended.
pub(in crate::table) fn row_conditions(pod: &Value) -> Vec<Value> {
    let (phase, message) = match pod["status"]["phase"].as_str() {
        Some(phase @ "Succeeded") => (phase, "The pod has completed successfully."),
        Some(phase @ "Failed") => (phase, "The pod failed."),
        _ => return Vec::new(),
    };
    vec![json!({ "type": "Completed", "status": "True", "reason": phase, "message": message })]
}

/// Returns how many of the conditions that a pod waits for hold: `1/2`.
fn readiness_gates(pod: &Value) -> Value {
    let holds = |gate: &&Value| {
        gate["conditionType"]
            .as_str()
            .and_then(|name| condition(pod, name))
            .is_some_and(|found| found["status"] == "True")
    };
    match elements(pod, "/spec/readinessGates").count() {
        0 => or_none(""),
        all => format!("{}/{all}", elements(pod, "/spec/readinessGates").filter(holds).count()).into(),
    }
}

/// A pod in short.
struct PodSummary {
    ready: usize,
    containers: usize,
    /// Why it waits, or its phase.
    word: String,
    restarts: u64,
    /// The end of the last container that was started again.
    restarted: Option<Timestamp>,
}

impl PodSummary {
    fn of(pod: &Value) -> Self {
        let phase = text(pod, "/status/phase");
        let is_gated = condition(pod, "PodScheduled").is_some_and(|found| found["reason"] == "SchedulingGated");
        let word = match (is_gated, text(pod, "/status/reason"), phase) {
            (true, ..) => "SchedulingGated",
            (false, "", "") => "Pending",
            (false, "", phase) => phase,
            (false, reason, _) => reason,
        };
        let sidecars = elements(pod, "/spec/initContainers").filter(|container| is_sidecar(container)).count();
        let containers = elements(pod, "/spec/containers").count() + sidecars;
        let mut summary = Self { ready: 0, containers, word: word.to_owned(), restarts: 0, restarted: None };
        let initializes = summary.add_init_containers(pod);
        if !initializes || condition(pod, "Initialized").is_some_and(|found| found["status"] == "True") {
            summary.add_containers(pod);
        }
        if is_deleting(pod) && text(pod, "/status/reason") == "NodeLost" {
            summary.word = "Unknown".to_owned();
        } else if is_deleting(pod) && !matches!(phase, "Succeeded" | "Failed") {
            summary.word = "Terminating".to_owned();
        }
        summary
    }

    fn ready(&self) -> Value {
        format!("{}/{}", self.ready, self.containers).into()
    }

    fn restarts(&self) -> Value {
        match self.restarted {
            Some(time) if self.restarts > 0 => {
                let since = ages::short(Timestamp::now().as_second() - time.as_second());
                format!("{} ({since} ago)", self.restarts).into()
            }
            _ => self.restarts.to_string().into(),
        }
    }

    /// Adds the containers that run before the others, and returns whether the pod still waits for one of them.
    fn add_init_containers(&mut self, pod: &Value) -> bool {
        let all = elements(pod, "/spec/initContainers").count();
        let mut of_sidecars = (0, None);
        for (at, status) in elements(pod, "/status/initContainerStatuses").enumerate() {
            self.add_restarts(status);
            let is_sidecar = elements(pod, "/spec/initContainers")
                .any(|container| container["name"] == status["name"] && is_sidecar(container));
            if is_sidecar {
                of_sidecars.0 += number(status, "/restartCount");
                of_sidecars.1 = of_sidecars.1.max(last_end(status));
            }
            let terminated = status.pointer("/state/terminated");
            if terminated.is_some_and(|state| number(state, "/exitCode") == 0) {
                continue;
            }
            if is_sidecar && status["started"] == true {
                self.ready += usize::from(status["ready"] == true);
                continue;
            }
            self.word = match (terminated, text(status, "/state/waiting/reason")) {
                (Some(state), _) => format!("Init:{}", termination(state)),
                (None, "" | "PodInitializing") => format!("Init:{at}/{all}"),
                (None, reason) => format!("Init:{reason}"),
            };
            return true;
        }
        (self.restarts, self.restarted) = of_sidecars;
        false
    }

    fn add_containers(&mut self, pod: &Value) {
        let (mut runs, mut failure) = (false, None);
        let statuses: Vec<&Value> = elements(pod, "/status/containerStatuses").collect();
        for status in statuses.into_iter().rev() {
            self.add_restarts(status);
            if let Some(state) = status.pointer("/state/terminated") {
                self.word = termination(state);
                if number(state, "/exitCode") != 0 {
                    failure = Some(self.word.clone());
                }
            } else if !text(status, "/state/waiting/reason").is_empty() {
                text(status, "/state/waiting/reason").clone_into(&mut self.word);
            } else if status["ready"] == true && status.pointer("/state/running").is_some() {
                runs = true;
                self.ready += 1;
            }
        }
        if self.word == "Completed" {
            let is_ready = condition(pod, "Ready").is_some_and(|ready| ready["status"] == "True");
            match failure {
                _ if runs && is_ready => "Running".clone_into(&mut self.word),
                Some(failure) => self.word = failure,
                None if runs => "NotReady".clone_into(&mut self.word),
                None => {}
            }
        }
    }

    fn add_restarts(&mut self, status: &Value) {
        self.restarts = self.restarts.saturating_add(number(status, "/restartCount"));
        self.restarted = self.restarted.max(last_end(status));
    }
}

/// Returns whether a container of the beginning runs beside the others.
fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

fn last_end(status: &Value) -> Option<Timestamp> {
    text(status, "/lastState/terminated/finishedAt").parse().ok()
}

/// Returns why a container ended, in one word.
fn termination(state: &Value) -> String {
    match (text(state, "/reason"), number(state, "/signal")) {
        ("", 0) => format!("ExitCode:{}", number(state, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}
