//! Converts `Site`s between `v1`, which has `spec.address`, and `v1beta1`, which has `spec.host` and `spec.port`.
//!
//! The guest misbehaves for documents with the annotation `attack`:
//!
//! | attack | does |
//! |---|---|
//! | `trap` | panics |
//! | `loop` | never returns, and calls nothing |
//! | `failure` | returns a failure |
//! | `read` | reads a resource, and returns the error |
//! | `config` | returns its setting `secret`, or fails without one |
//! | `flood` | returns 2 MiB |
//! | `name` | changes the name |

use std::hint::black_box;

use homeostat_sdk::prelude::*;
use serde_json::Value;

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "example.com", version = "v1", scope = "Cluster", schema = "disabled")]
struct Site {}

/// The converter manages no stored kind, so that it fixes no storage version.
#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", kind = "SiteConverter", keys_only, schema = "disabled")]
struct NoResource {}

struct Sites;

impl Reconciler for Sites {
    fn describe() -> Spec {
        Spec::manages::<NoResource>()
    }

    fn reconcile(_: Key) -> Result<Outcome, Failure> {
        Ok(Outcome::settled())
    }
}

impl Converter for Sites {
    fn convert(mut document: Value, desired: &str) -> Result<Value, Failure> {
        match document["metadata"]["annotations"]["attack"].as_str().unwrap_or_default() {
            "trap" => panic!("on purpose"),
            "loop" => busy(),
            "failure" => return Err(Failure::new("no port is left")),
            "read" => drop(Site::get(&Site::key("", "web"))?),
            "config" => document["spec"]["secret"] = config::require("secret")?.into(),
            "flood" => document["spec"]["flood"] = "x".repeat(2 << 20).into(),
            "name" => document["metadata"]["name"] = "x".into(),
            _ => {}
        }
        let Some(spec) = document["spec"].as_object_mut() else { return Ok(document) };
        if desired.ends_with("/v1") {
            let (host, port) = (spec.remove("host"), spec.remove("port"));
            if let (Some(Value::String(host)), Some(port)) = (host, port) {
                spec.insert("address".to_owned(), format!("{host}:{port}").into());
            }
        } else if let Some(Value::String(address)) = spec.remove("address") {
            let (host, port) = address.split_once(':').ok_or_else(|| Failure::never("spec.address: has no port"))?;
            let port: u16 = port.parse().map_err(|error| Failure::never(format!("spec.address: {error}")))?;
            spec.insert("host".to_owned(), host.into());
            spec.insert("port".to_owned(), port.into());
        }
        Ok(document)
    }
}

fn busy() -> ! {
    let mut number = 0_u64;
    loop {
        number = black_box(number.wrapping_add(1));
    }
}

homeostat_sdk::export!(Sites: converter);
