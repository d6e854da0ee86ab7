//! The streams of the containers of a pod: `log`, `exec`, `attach` and `portforward`. A kubelet serves them, and a host calls no
//! kubelet. So it checks what a server checks before that, and a pod without a node has an empty log.
//!
//! Source: `pkg/registry/core/pod` of Kubernetes.

use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use homeostat_store::schema::Reason;
use homeostat_store::{Key, Resource};
use serde::Deserialize;

use crate::params;
use crate::request::ResourceRequest;
use crate::status::Failure;

/// The options of a stream, as far as they are checked here.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StreamOptions {
    container: Option<String>,
    tail_lines: Option<i64>,
    limit_bytes: Option<i64>,
    since_seconds: Option<i64>,
    since_time: Option<String>,
    stream: Option<String>,
}

impl StreamOptions {
    /// Checks the options of a log.
    fn check(&self, pod: &str) -> Result<(), Failure> {
        let mut faults = Vec::new();
        if let Some(lines) = self.tail_lines.filter(|lines| *lines < 0) {
            faults.push(("tailLines", Reason::Invalid, format!("{lines}: must be greater than or equal to 0")));
        }
        if let Some(bytes) = self.limit_bytes.filter(|bytes| *bytes < 1) {
            faults.push(("limitBytes", Reason::Invalid, format!("{bytes}: must be greater than 0")));
        }
        match self.since_seconds {
            Some(_) if self.since_time.is_some() => {
                let detail = "at most one of `sinceTime` or `sinceSeconds` may be specified";
                faults.push(("[]", Reason::Forbidden, detail.to_owned()));
            }
            Some(seconds) if seconds < 1 => {
                faults.push(("sinceSeconds", Reason::Invalid, format!("{seconds}: must be greater than 0")));
            }
            _ => {}
        }
        if self.stream.is_some() {
            faults.push(("stream", Reason::Forbidden, "may not be specified".to_owned()));
        }
        let faults: Vec<_> =
            faults.into_iter().map(|(field, reason, detail)| (field.to_owned(), reason, detail)).collect();
        Failure::check_faults(("", "PodLogOptions"), pod, &faults)
    }
}

/// Answers a request for a stream of a pod.
pub(crate) async fn answer(request: &ResourceRequest<'_>, key: &Key, stream: &str) -> Result<Response, Failure> {
    let http = request.http;
    let is_log = stream == "log";
    let fits = match *http.method {
        Method::GET => true,
        Method::POST => !is_log,
        _ => false,
    };
    if !fits {
        return Err(http.not_allowed());
    }
    let options: StreamOptions = params::parse(http.uri)?;
    if is_log {
        options.check(key.name())?;
    }
    let pod = http.api.host.store().get_live(key).await?;
    if stream != "portforward" {
        check_container(&pod, options.container.as_deref().unwrap_or_default())?;
    }
    match pod.document()["spec"]["nodeName"].as_str().unwrap_or_default() {
        "" if is_log => Ok(StatusCode::NO_CONTENT.into_response()),
        "" => Err(Failure::bad_request(format!("pod {} does not have a host assigned", key.name()))),
        node => {
            let what = if is_log { "the log is" } else { "the containers are" };
            Err(Failure::unavailable(format!(
                "{what} on the node {node:?} of the pod {:?}, which this host does not call",
                key.name()
            )))
        }
    }
}

/// Checks that a pod has a container of this name, or one alone if the name is empty.
fn check_container(pod: &Resource, name: &str) -> Result<(), Failure> {
    let spec = &pod.document()["spec"];
    let names = |list: &str| -> Vec<&str> {
        let containers = spec[list].as_array().into_iter().flatten();
        containers.filter_map(|container| container["name"].as_str()).collect()
    };
    let containers = names("containers");
    let all = [names("initContainers"), containers.clone(), names("ephemeralContainers")].concat();
    let pod = pod.key().name();
    if name.is_empty() && containers.len() == 1 || all.contains(&name) {
        return Ok(());
    }
    Err(Failure::bad_request(if name.is_empty() {
        format!("a container name must be specified for pod {pod}, choose one of: [{}]", all.join(" "))
    } else {
        format!("container {name} is not valid for pod {pod}")
    }))
}
