//! Logs everything it receives: each key that it reconciles, and each document passed to its mapper.
//!
//! A `Note` maps to the `Logging` of its name. So does a `Vault`, through the guest's own mapper, which sees the
//! password in it. A `Logging` with `spec.follows: all` follows every `Note`; with `color` it follows those with
//! a red `/spec/color`.

use homeostat_sdk::prelude::*;
use homeostat_sdk::{ChangedResource, info, watches};

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", schema = "disabled")]
struct Logging {
    #[serde(default)]
    follows: String,
}

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", schema = "disabled")]
struct Note {}

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", schema = "disabled")]
struct Vault {
    password: String,
}

struct Guest;

impl Reconciler for Guest {
    fn describe() -> Spec {
        Spec::manages::<Logging>()
            .watch(Watch::of::<Note>(Mapping::same_name()).named("notes"))
            .watch(Watch::of::<Vault>(Mapping::guest()).named("vaults"))
    }

    fn reconcile(key: Key) -> Result<Outcome, Failure> {
        let version = config::get("version")?.unwrap_or_default();
        let (namespace, name) = (&key.namespace, &key.name);
        info!("reconcile{version} {namespace}/{name}");
        let follows = Logging::get_opt(&key)?.map(|logging| logging.spec.follows).unwrap_or_default();
        match follows.as_str() {
            "all" => watches::follow_all::<Note>(Selector::everything())?,
            "color" => watches::follow_all::<Note>(Selector::everything().field("/spec/color", "red"))?,
            _ => {}
        }
        Ok(Outcome::settled())
    }
}

impl Mapper for Guest {
    fn map(_: &str, changed: ChangedResource) -> Result<Vec<Key>, Failure> {
        let vault: Resource<Vault> = changed.resource()?;
        let (key, password) = (changed.key(), &vault.spec.password);
        let (namespace, name) = (&key.namespace, &key.name);
        info!("map {namespace}/{name} {password}");
        Ok(vec![key.beside::<Logging>(name)])
    }
}

homeostat_sdk::export!(Guest: mapper);
