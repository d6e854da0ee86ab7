//! Misbehaves in the export that comes first in the setting `attack`, in the way that comes second: `poll
//! loop`. All other exports settle.
//!
//! | way | does |
//! |---|---|
//! | `loop` | never returns, and calls nothing |
//! | `trap` | executes an unreachable instruction |
//! | `flood` | returns keys of 10 MB (`map` and `poll`) |

use std::hint::black_box;

use homeostat_sdk::ChangedResource;
use homeostat_sdk::prelude::*;

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", plural = "hostileexports", schema = "disabled")]
struct HostileExports {}

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", schema = "disabled")]
struct Bait {}

/// Together more than the limit of a result, and less than one call may transfer.
const KEYS: usize = 200;
const NAME_BYTES: usize = 50_000;

struct Guest;

impl Reconciler for Guest {
    fn describe() -> Spec {
        Spec::manages::<HostileExports>()
            .watch(Watch::of::<Bait>(Mapping::guest()))
            .poll_every(Duration::from_millis(100))
    }

    fn reconcile(_key: Key) -> Result<Outcome, Failure> {
        attack("reconcile")?;
        Ok(Outcome::settled())
    }
}

impl Mapper for Guest {
    fn map(_watch: &str, _changed: ChangedResource) -> Result<Vec<Key>, Failure> {
        attack("map")
    }
}

impl Poller for Guest {
    fn poll() -> Result<Vec<Key>, Failure> {
        attack("poll")
    }
}

impl Lifecycle for Guest {
    fn start() -> Result<(), Failure> {
        attack("start").map(drop)
    }

    fn stop() {
        drop(attack("stop"));
    }
}

fn attack(export: &str) -> Result<Vec<Key>, Failure> {
    let attack = config::require("attack")?;
    match attack.split_once(' ') {
        Some((wanted, way)) if wanted == export => Ok(misbehave(way)),
        _ => Ok(Vec::new()),
    }
}

fn misbehave(way: &str) -> Vec<Key> {
    match way {
        "loop" => busy(),
        "trap" => trap(),
        _ => vec![HostileExports::key("default", &"x".repeat(NAME_BYTES)); KEYS],
    }
}

fn busy() -> ! {
    let mut number = 0_u64;
    loop {
        number = black_box(number.wrapping_add(1));
    }
}

#[cfg(target_arch = "wasm32")]
fn trap() -> ! {
    core::arch::wasm32::unreachable()
}

#[cfg(not(target_arch = "wasm32"))]
fn trap() -> ! {
    std::process::abort()
}

homeostat_sdk::export!(Guest: mapper, poller, lifecycle);
