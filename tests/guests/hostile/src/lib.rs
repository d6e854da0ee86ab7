//! Misbehaves in the way that the resource's name says. With any other name it behaves well: it writes a
//! status and settles.
//!
//! | name | does |
//! |---|---|
//! | `trap` | executes an unreachable instruction |
//! | `panic` | panics with the message `on purpose` |
//! | `loop` | never returns, and calls nothing |
//! | `memory` | allocates without end |
//! | `recurse` | exhausts the stack |
//! | `calls` | reads without end |
//! | `handles` | starts timers without end, and drops none of them |
//! | `log-flood` | logs without end |
//! | `event-flood` | emits a different event without end |
//! | `write-flood` | writes another status without end |
//! | `print-flood` | writes to standard output without end, never ending the line |
//! | `random-flood` | reads random bytes without end |
//! | `free-calls` | calls a function without end that is no effect: the resolution of the clock |
//! | `huge-text` | creates a document of 20 MB, larger than one call may transfer |
//! | `huge-list` | logs a line with half a million fields |
//! | `huge-random` | requests 2^64 - 1 random bytes |
//! | `deep-json` | creates a document of a hundred thousand nested lists, and fails with the store's error |
//! | `fail`, `fail-after`, `fail-never` | fails with backoff, not before an hour, permanently |
//! | `huge-error` | fails with a message of 10 MB |
//! | `huge-status` | writes a status of 2 MB, and fails with the store's error |
//! | `reach` | opens and creates files, connects to an address and looks a name up, and continues |
//! | `bad-json` | creates a document that is not JSON, and fails with the store's error |
//! | `foreign` | reads a `Secret`, and fails with the store's error |
//! | `centuries` | asks to be requeued after 2^64 - 1 ms |
//! | `again` | asks to be requeued at once |
//! | `report-later` | writes a status, and asks to be requeued after an hour |
//! | `slow` | waits on the clock until its deadline |

use std::fs::File;
use std::hint::black_box;
use std::net::TcpStream;
use std::thread;

use homeostat_sdk::prelude::*;
use homeostat_sdk::raw;
use wasip2::clocks::monotonic_clock;
use wasip2::random::random;

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", status = HostileStatus, schema = "disabled")]
struct Hostile {}

#[derive(Serialize, Deserialize)]
struct HostileStatus {
    message: String,
}

const HUGE_BYTES: usize = 10_000_000;
/// Twice the maximum of a document.
const LARGE_BYTES: usize = 2 << 20;
/// The maximum of random bytes in one call.
const RANDOM_BYTES: u64 = 64 << 10;
const MANY: usize = 500_000;
const DEPTH: usize = 100_000;

struct Guest;

impl Reconciler for Guest {
    fn describe() -> Spec {
        Spec::manages::<Hostile>()
    }

    fn reconcile(key: Key) -> Result<Outcome, Failure> {
        match key.name.as_str() {
            "trap" => trap(),
            "panic" => panic!("on purpose"),
            "loop" => busy(),
            "memory" => allocate(),
            "recurse" => Ok(Outcome::again_after(Duration::from_millis(recurse(1)))),
            "calls" => call(&key),
            "handles" => hold(),
            "log-flood" => flood(|number| info!("line {number}")),
            "event-flood" => flood(|number| events::normal("Flood", number)),
            "write-flood" => flood(|number| drop(settle(&key, &number.to_string()))),
            "print-flood" => flood(print),
            "random-flood" => flood(|_| drop(random::get_random_bytes(RANDOM_BYTES))),
            "free-calls" => flood(|_| {
                black_box(monotonic_clock::resolution());
            }),
            "huge-text" => create(&" ".repeat(2 * HUGE_BYTES)),
            "huge-list" => {
                raw::log::write(raw::log::Level::Info, "fields", &vec![(String::new(), String::new()); MANY]);
                Ok(Outcome::settled())
            }
            "huge-random" => {
                drop(random::get_random_bytes(u64::MAX));
                Ok(Outcome::settled())
            }
            "deep-json" => create(&"[".repeat(DEPTH)),
            "fail" => Err(Failure::new("failed on purpose")),
            "fail-after" => Err(Failure::new("failed on purpose").after(Duration::from_secs(3600))),
            "fail-never" => Err(Failure::never("failed on purpose")),
            "huge-error" => Err(Failure::new("x".repeat(HUGE_BYTES))),
            "huge-status" => settle(&key, &"x".repeat(LARGE_BYTES)),
            "bad-json" => create("{\"apiVersion\": \"v1\", \"kind\""),
            "foreign" => foreign(&key),
            "centuries" => Ok(Outcome::again_after(Duration::from_millis(u64::MAX))),
            "again" => Ok(Outcome::again_after(Duration::ZERO)),
            "report-later" => {
                settle(&key, "well")?;
                Ok(Outcome::again_after(Duration::from_secs(3600)))
            }
            "reach" => {
                let reached = File::open("/etc/passwd").is_ok()
                    || File::create("/etc/cron.d/mine").is_ok()
                    || TcpStream::connect(("10.0.0.1", 80)).is_ok()
                    || TcpStream::connect(("internal.example", 80)).is_ok();
                settle(&key, if reached { "something was there" } else { "nothing was there" })
            }
            "slow" => {
                wait();
                Ok(Outcome::settled())
            }
            _ => settle(&key, "well"),
        }
    }
}

fn create(json: &str) -> Result<Outcome, Failure> {
    match raw::store::create(json) {
        Ok(_) => Ok(Outcome::settled()),
        Err(error) => Err(Failure::new(Error::from(error))),
    }
}

fn settle(key: &Key, message: &str) -> Result<Outcome, Failure> {
    let Some(mut resource) = Hostile::get_opt(key)? else {
        return Ok(Outcome::settled());
    };
    resource.set_status(HostileStatus { message: message.to_owned() })?;
    Ok(Outcome::settled())
}

#[cfg(target_arch = "wasm32")]
fn trap() -> ! {
    core::arch::wasm32::unreachable()
}

#[cfg(not(target_arch = "wasm32"))]
fn trap() -> ! {
    std::process::abort()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a guest has its thread to itself, and this one is here to be interrupted"
)]
fn wait() {
    thread::sleep(Duration::from_secs(86_400));
}

fn busy() -> ! {
    let mut number = 0_u64;
    loop {
        number = black_box(number.wrapping_add(1));
    }
}

fn allocate() -> ! {
    let mut kept = Vec::new();
    loop {
        kept.push(black_box(vec![1_u8; 1 << 20]));
    }
}

/// Recurses deeper than any stack. `black_box` keeps the compiler from turning it into a loop.
#[expect(unconditional_recursion, reason = "that is what it is for")]
fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    recurse(depth + 1) + frame[63]
}

fn call(key: &Key) -> ! {
    loop {
        drop(black_box(Hostile::get_opt(key)));
    }
}

fn hold() -> ! {
    let mut timers = Vec::new();
    loop {
        timers.push(monotonic_clock::subscribe_duration(u64::MAX));
    }
}

fn flood(write: impl Fn(u64)) -> ! {
    let mut number = 0_u64;
    loop {
        write(number);
        number += 1;
    }
}

#[expect(clippy::print_stdout, reason = "it is what the host has to bear")]
fn print(number: u64) {
    print!("{number} ");
}

fn foreign(key: &Key) -> Result<Outcome, Failure> {
    let kind = raw::types::Kind { group: String::new(), version: "v1".to_owned(), name: "Secret".to_owned() };
    let secret = Key { kind, ..key.clone() };
    match raw::store::get(&secret, raw::types::View::Whole) {
        Ok(_) => Ok(Outcome::settled()),
        Err(error) => Err(Failure::new(Error::from(error))),
    }
}

homeostat_sdk::export!(Guest);
