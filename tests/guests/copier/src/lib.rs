//! Copies `data.at` of each `ConfigMap` into the `Mirror` of its name, to show which change a controller has seen last.

use homeostat_sdk::prelude::*;

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "", version = "v1", kind = "ConfigMap", field = "data", schema = "disabled")]
struct Source {
    at: String,
}

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", schema = "disabled")]
struct Mirror {
    at: String,
}

struct Guest;

impl Reconciler for Guest {
    fn describe() -> Spec {
        // The watch only declares the kind; no mirror has the label, so no mirror queues a key.
        Spec::manages::<Source>().watch(Watch::of::<Mirror>(Mapping::label("demo.homeostat.dev/nobody")).secondary())
    }

    fn reconcile(key: Key) -> Result<Outcome, Failure> {
        if let Some(source) = Source::get_opt(&key)? {
            Resource::new(&key.namespace, &key.name, Mirror { at: source.spec.at }).apply()?;
        }
        Ok(Outcome::settled())
    }
}

homeostat_sdk::export!(Guest);
