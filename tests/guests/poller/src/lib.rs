//! Finds its keys itself: the names in the setting `items`, with spaces between them, of a kind of which nothing is stored.
//!
//! Each reconcile counts in the document `Tally` of the same name. A poll fails when `items` is missing, and never ends by itself when it
//! is `endless`.

use homeostat_sdk::prelude::*;

#[derive(Serialize, Deserialize)]
struct Item {}

impl Kind for Item {
    const API_VERSION: &str = "demo.homeostat.dev/v1";
    const NAME: &str = "Item";
    const PLURAL: &str = "items";
    const KEYS_ONLY: bool = true;
    type Status = ();
}

#[derive(Serialize, Deserialize)]
struct Tally {
    /// How often the item was looked at.
    count: u64,
}

impl Kind for Tally {
    const API_VERSION: &str = "demo.homeostat.dev/v1";
    const NAME: &str = "Tally";
    const PLURAL: &str = "tallies";
    type Status = ();
}

struct Guest;

impl Reconciler for Guest {
    fn describe() -> Spec {
        // The watch declares the kind; nothing has the label, so that a tally brings no key.
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
