//! Polls its own keys: the names in the setting `items`, separated by spaces, of a keys-only kind.
//!
//! Each reconcile increments the document `Tally` of the same name. A poll fails if `items` is missing. If it is
//! `endless`, the poll logs its begin and never ends.

use homeostat_sdk::prelude::*;

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", keys_only)]
struct Item {}

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", schema = "disabled")]
struct Tally {
    /// The number of reconciles of the item.
    count: u64,
}

struct Guest;

impl Reconciler for Guest {
    fn describe() -> Spec {
        // The watch only declares the kind; no tally has the label, so no tally queues a key.
        Spec::manages::<Item>()
            .watch(Watch::of::<Tally>(Mapping::label("demo.homeostat.dev/nobody")).secondary())
            .poll_every(Duration::from_millis(200))
    }

    fn reconcile(key: Key) -> Result<Outcome, Failure> {
        let count = match Tally::get_opt(&key.beside::<Tally>(&key.name))? {
            Some(tally) => tally.spec.count + 1,
            None => 1,
        };
        Resource::new(&key.namespace, &key.name, Tally { count }).apply()?;
        Ok(Outcome::settled())
    }
}

impl Poller for Guest {
    fn poll() -> Result<Vec<Key>, Failure> {
        let items = config::require("items")?;
        if items == "endless" {
            info!("an endless poll begins");
            sleep();
        }
        Ok(items.split_whitespace().map(|name| Item::key("default", name)).collect())
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a guest has its thread to itself, and this one is here to be interrupted"
)]
fn sleep() {
    std::thread::sleep(Duration::from_secs(86_400));
}

homeostat_sdk::export!(Guest: poller);
