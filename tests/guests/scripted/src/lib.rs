//! Does what `spec.action` of its resource says, and settles when the resource is gone, so that deleting the
//! resource ends it.
//!
//! | action | does |
//! |---|---|
//! | `settle` | settles |
//! | `log` | logs its name, and asks to be requeued in an hour |
//! | `count` | logs how often this instance has counted, and settles |
//! | `again`, `later` | asks to be requeued in a millisecond, in an hour |
//! | `at-once` | asks to be requeued at once |
//! | `fail`, `fail-never` | fails with backoff, permanently |
//! | `panic` | panics |
//! | `live` | reads itself and the keys of its kind past every cache, and settles |
//! | `enqueue` | enqueues the keys in `spec.keys` with the delay `spec.afterMs`, held, and settles |
//! | `wait` | waits on the clock until its deadline |

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use homeostat_sdk::info;
use homeostat_sdk::prelude::*;

/// One action for a reconcile, as a resource of kind `Scripted`.
#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", kind = "Scripted", schema = "disabled")]
struct Script {
    action: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    keys: Vec<String>,
    #[serde(default, rename = "afterMs", skip_serializing_if = "Option::is_none")]
    after_ms: Option<u64>,
}

/// Reconciles of this instance that counted.
static COUNT: AtomicU32 = AtomicU32::new(0);

struct Guest;

impl Reconciler for Guest {
    fn describe() -> Spec {
        Spec::manages::<Script>()
    }

    fn reconcile(key: Key) -> Result<Outcome, Failure> {
        let Some(script) = Script::get_opt(&key)? else {
            return Ok(Outcome::settled());
        };
        match script.spec.action.as_str() {
            "settle" => Ok(Outcome::settled()),
            "log" => {
                info!("{}", key.name);
                Ok(Outcome::again_after(Duration::from_secs(3600)))
            }
            "count" => {
                info!("{}", COUNT.fetch_add(1, Ordering::Relaxed) + 1);
                Ok(Outcome::settled())
            }
            "again" => Ok(Outcome::again_after(Duration::from_millis(1))),
            "later" => Ok(Outcome::again_after(Duration::from_secs(3600))),
            "at-once" => Ok(Outcome::again_after(Duration::ZERO)),
            "fail" => Err(Failure::new("failed on purpose")),
            "fail-never" => Err(Failure::never("given up on purpose")),
            "panic" => panic!("on purpose"),
            "live" => {
                Script::get_live(&key)?;
                Script::list(Selector::everything()).live().keys()?;
                Ok(Outcome::settled())
            }
            "enqueue" => {
                let after = Duration::from_millis(script.spec.after_ms.unwrap_or_default());
                for name in &script.spec.keys {
                    let options = queue::Options { after, hold: !after.is_zero(), ..queue::Options::default() };
                    queue::enqueue(&key.beside::<Script>(name), options)?;
                }
                Ok(Outcome::settled())
            }
            "wait" => {
                wait();
                Ok(Outcome::settled())
            }
            action => Err(Failure::never(format!("the action `{action}` is unknown"))),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a guest has its thread to itself, and this one is here to be interrupted"
)]
fn wait() {
    thread::sleep(Duration::from_secs(86_400));
}

homeostat_sdk::export!(Guest);
