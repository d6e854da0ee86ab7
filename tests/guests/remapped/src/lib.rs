//! Another version of `mapped`: its watch `guest` has another kind, and it has a poller.
//!
//! The status of a `Mapped` lists the `Origin` documents that name it, as `origin/NAME`, and each reconcile
//! increments the `Tally` of its name. The mapper reads `/spec/names` of an `Origin`, and fails for any other
//! document. The poller returns the names in the setting `items`, separated by spaces. In both, the name
//! `trap` causes a panic.

use homeostat_sdk::ChangedResource;
use homeostat_sdk::prelude::*;

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", kind = "Mapped", status = Sources, schema = "disabled")]
struct MappedSpec {}

#[derive(Serialize, Deserialize)]
struct Sources {
    /// Names of the origins, sorted.
    sources: Vec<String>,
}

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", schema = "disabled")]
struct Origin {
    names: Vec<String>,
}

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", schema = "disabled")]
struct Tally {
    /// The number of reconciles of the resource.
    count: u64,
}

struct Guest;

impl Reconciler for Guest {
    fn describe() -> Spec {
        Spec::manages::<MappedSpec>()
            .watch(Watch::of::<Origin>(Mapping::guest()).named("guest"))
            // It only declares the kind; no tally has the label, so no tally queues a key.
            .watch(Watch::of::<Tally>(Mapping::label("demo.homeostat.dev/nobody")).secondary())
            .poll_every(Duration::from_millis(200))
    }

    fn reconcile(key: Key) -> Result<Outcome, Failure> {
        let Some(mut mapped) = MappedSpec::get_opt(&key)? else {
            return Ok(Outcome::settled());
        };
        let all = Origin::list(Selector::everything().in_namespace(&key.namespace)).all()?;
        let naming = all.iter().filter(|origin| origin.spec.names.contains(&key.name));
        let sources = naming.map(|origin| format!("origin/{}", origin.metadata.name)).collect();
        mapped.set_status(Sources { sources })?;
        let tally = Tally::get_opt(&key.beside::<Tally>(&key.name))?;
        let count = tally.map_or(0, |tally| tally.spec.count) + 1;
        Resource::new(&key.namespace, &key.name, Tally { count }).apply()?;
        Ok(Outcome::settled())
    }
}

impl Mapper for Guest {
    fn map(watch: &str, changed: ChangedResource) -> Result<Vec<Key>, Failure> {
        let origin: Resource<Origin> = changed.resource()?;
        if watch != "guest" || changed.key().kind.name != Origin::NAME {
            return Err(Failure::never(format!("nobody should ask {watch:?} about a {}", changed.key().kind.name)));
        }
        origin.spec.names.iter().map(|name| Ok(changed.key().beside::<MappedSpec>(found(name)))).collect()
    }
}

impl Poller for Guest {
    fn poll() -> Result<Vec<Key>, Failure> {
        let items = config::get("items")?.unwrap_or_default();
        Ok(items.split_whitespace().map(|name| MappedSpec::key("default", found(name))).collect())
    }
}

fn found(name: &str) -> &str {
    assert_ne!(name, "trap", "on purpose");
    name
}

homeostat_sdk::export!(Guest: mapper, poller);
