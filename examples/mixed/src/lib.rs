//! A `Site` runs as a Deployment, reads its settings from a ConfigMap, and is checked over HTTP.
//!
//! The code names no store. In `stores.yaml` Sites live in NATS, and Deployments and ConfigMaps in a
//! Kubernetes cluster. Without that file all of them live on the host.

use std::collections::BTreeMap;

use homeostat_sdk::http;
use homeostat_sdk::prelude::*;
use serde_json::{Value, json};

/// How long the service of a site may take to answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How often it is checked.
const CHECK_EVERY: Duration = Duration::from_secs(30);

/// The primary kind: what people want.
#[derive(Resource, Serialize, Deserialize, JsonSchema)]
#[resource(group = "demo.homeostat.dev", version = "v1", status = SiteStatus)]
#[resource(printcolumn(name = "Ready", type = "integer", json_path = ".status.ready"))]
#[resource(printcolumn(name = "Healthy", type = "boolean", json_path = ".status.healthy"))]
#[resource(printcolumn(name = "Age", type = "date", json_path = ".metadata.creationTimestamp"))]
struct Site {
    image: String,
    replicas: u32,
    /// An address that answers 200 while the site is well.
    health: Option<String>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct SiteStatus {
    #[serde(default)]
    ready: u32,
    /// The theme of the settings.
    theme: Option<String>,
    /// Whether the address answers 200; `None` without an address.
    healthy: Option<bool>,
}

/// The secondary kind, with the fields that this controller decides. Its schema is that of Kubernetes.
#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "apps", version = "v1", status = DeploymentStatus, schema = "disabled")]
struct Deployment {
    replicas: u32,
    selector: Value,
    template: Value,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DeploymentStatus {
    ready_replicas: u32,
}

/// The tertiary kind, which is only read.
#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "", version = "v1", kind = "ConfigMap", field = "data", schema = "disabled")]
struct Settings(BTreeMap<String, String>);

struct Sites;

impl Reconciler for Sites {
    fn describe() -> Spec {
        // The ConfigMap of a site has its name.
        Spec::manages::<Site>().ignore_status().owns::<Deployment>().watches::<Settings>(Mapping::same_name())
    }

    fn reconcile(key: Key) -> Result<Outcome, Failure> {
        let Some(mut site) = Site::get_opt(&key)? else {
            return Ok(Outcome::settled());
        };
        let settings = Settings::get_opt(&key.beside::<Settings>(&key.name))?;
        let theme = settings.and_then(|settings| settings.spec.0.get("theme").cloned());
        let deployed = deployment(&site, theme.as_deref()).apply_by_force()?;
        let ready = deployed.status.map_or(0, |status| status.ready_replicas);
        let healthy = site.spec.health.as_ref().map(|address| is_healthy(address));
        site.set_status(SiteStatus { ready, theme, healthy })?;
        Ok(if healthy.is_some() { Outcome::again_after(CHECK_EVERY) } else { Outcome::settled() })
    }
}

/// Returns the Deployment of a site. A change of the theme replaces its pods.
fn deployment(site: &Resource<Site>, theme: Option<&str>) -> Resource<Deployment> {
    let name = &site.metadata.name;
    let labels = json!({ "site": name });
    let environment = json!([{ "name": "THEME", "value": theme.unwrap_or("plain") }]);
    let container = json!({ "name": "web", "image": site.spec.image, "env": environment });
    let spec = Deployment {
        replicas: site.spec.replicas,
        selector: json!({ "matchLabels": labels }),
        template: json!({ "metadata": { "labels": labels }, "spec": { "containers": [container] } }),
    };
    Resource::new(&site.metadata.namespace, name, spec).owned_by(site)
}

fn is_healthy(address: &str) -> bool {
    http::get(address).timeout(TIMEOUT).without_body().send().is_ok_and(|answer| answer.status == 200)
}

homeostat_sdk::export!(Sites);

#[cfg(test)]
mod tests;
