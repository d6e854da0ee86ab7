//! Records in the status of each resource which versions reconciled it, in order, and then does what the
//! setting `bad` says. So one component can play every version, good or bad, and a test can see which
//! resources a bad version has touched.
//!
//! The setting `version` is the name of the version. The setting `bad` affects only resources whose number,
//! at the end of the name, is a multiple of `every` (default 1).
//!
//! | bad | does |
//! |---|---|
//! | `trap` | panics |
//! | `loop` | never returns, and calls nothing |
//! | `error` | fails with backoff |
//! | `again` | asks to be requeued at once |
//! | `note` | writes the status when the annotation `changed` differs from the recorded one; its own writes do not wake it |
//! | `write` | writes the status every time; its own writes do not wake it |
//! | `wake` | writes a label every time, which wakes it |
//! | `slow` | waits on the clock for 30 ms |
//! | `once` | fails on this version's first reconcile of a resource |

use std::hint::black_box;

use homeostat_sdk::prelude::*;

/// A resource of kind `Versioned`, whose status is the log.
#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", kind = "Versioned", status = VersionLogStatus)]
#[resource(schema = "disabled")]
struct VersionLog {}

#[derive(Clone, Default, Serialize, Deserialize)]
struct VersionLogStatus {
    /// The versions in order, without consecutive duplicates.
    by: Vec<String>,
    #[serde(default)]
    writes: u64,
    /// The annotation that was recorded last.
    #[serde(default)]
    noted: Option<String>,
}

struct Guest;

impl Reconciler for Guest {
    fn describe() -> Spec {
        Spec::manages::<VersionLog>().ignore_status()
    }

    fn reconcile(key: Key) -> Result<Outcome, Failure> {
        let Some(mut log) = VersionLog::get_opt(&key)? else {
            return Ok(Outcome::settled());
        };
        let (version, bad) = (config::require("version")?, config::get("bad")?.unwrap_or_default());
        let mut seen = log.status.clone().unwrap_or_default();
        let is_first = seen.by.last() != Some(&version);
        if is_first {
            seen.by.push(version);
            log.set_status(seen.clone())?;
        }
        let every: u64 = config::get_or("every", 1)?;
        let digits = key.name.trim_start_matches(|letter: char| !letter.is_ascii_digit());
        let is_meant = digits.parse::<u64>().is_ok_and(|number| number % every == 0);
        match bad.as_str() {
            _ if !is_meant => Ok(Outcome::settled()),
            "trap" => panic!("on purpose"),
            "loop" => busy(),
            "error" => Err(Failure::new("failed on purpose")),
            "again" => Ok(Outcome::again_after(Duration::ZERO)),
            "note" => {
                let changed = log.metadata.annotations.get("changed").cloned();
                if seen.noted != changed {
                    seen.noted = changed;
                    log.set_status(seen)?;
                }
                Ok(Outcome::settled())
            }
            "write" => {
                seen.writes += 1;
                log.set_status(seen)?;
                Ok(Outcome::settled())
            }
            "wake" => {
                let writes = log.metadata.labels.get("writes").and_then(|label| label.parse::<u64>().ok());
                log.metadata.labels.insert("writes".to_owned(), (writes.unwrap_or_default() + 1).to_string());
                log.update()?;
                Ok(Outcome::settled())
            }
            "slow" => {
                wait();
                Ok(Outcome::settled())
            }
            "once" if is_first => Err(Failure::new("failed on purpose, this once")),
            _ => Ok(Outcome::settled()),
        }
    }
}

fn busy() -> ! {
    let mut number = 0_u64;
    loop {
        number = black_box(number.wrapping_add(1));
    }
}

#[expect(clippy::disallowed_methods, reason = "a guest has its thread to itself, and this one is here to be slow")]
fn wait() {
    std::thread::sleep(Duration::from_millis(30));
}

homeostat_sdk::export!(Guest);
