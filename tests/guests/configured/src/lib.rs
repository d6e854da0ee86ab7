//! Manages the kind that the setting `kind` names, and settles for every key. The setting `parts` names a further kind,
//! whose resources refer to managed ones in `/spec/for`.

use homeostat_sdk::prelude::*;

struct Guest;

impl Reconciler for Guest {
    fn describe() -> Spec {
        let managed = config::require("kind").unwrap_or_else(|error| panic!("{error}"));
        let parts = config::get("parts").unwrap_or_else(|error| panic!("{error}"));
        let spec = Spec::manages_dynamic(kind(&managed));
        match parts {
            Some(parts) => spec.watch(Watch::of_dynamic(kind(&parts), Mapping::field("/spec/for"))),
            None => spec,
        }
    }

    fn reconcile(_key: Key) -> Result<Outcome, Failure> {
        Ok(Outcome::settled())
    }
}

fn kind(name: &str) -> DynamicKind {
    DynamicKind::new("demo.homeostat.dev/v1", name, &format!("{}s", name.to_lowercase()))
}

homeostat_sdk::export!(Guest);
