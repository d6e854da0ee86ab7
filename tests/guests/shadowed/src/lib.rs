//! Applies a `Part` for each of its resources, with a time and a random number in it, and counts its runs in
//! the status. With the setting `face` it behaves as another version:
//!
//! | face | difference |
//! |---|---|
//! | `field` | gives the part another size |
//! | `key` | applies a second part |
//! | `more` | counts twice, in two writes |
//! | `less` | applies no part |
//! | `look` | reads the part and lists all parts before and after it writes, and then reads the clock |
//! | `again` | asks to be requeued |
//! | `fail`, `trap`, `loop` | fails, panics, never returns |
//! | `ask` | sends an HTTP request |
//! | `tell` | emits another event |

use std::hint::black_box;

use homeostat_sdk::http;
use homeostat_sdk::prelude::*;
use wasip2::random::random;

/// An assembly of parts, as a resource of kind `Shadowed`.
#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", kind = "Shadowed", status = AssemblyStatus)]
#[resource(schema = "disabled")]
struct Assembly {
    size: u64,
}

#[derive(Default, Serialize, Deserialize)]
struct AssemblyStatus {
    count: u64,
}

#[derive(Resource, Serialize, Deserialize)]
#[resource(group = "demo.homeostat.dev", version = "v1", schema = "disabled")]
struct Part {
    size: u64,
    made_at: String,
    number: u64,
}

struct Guest;

impl Reconciler for Guest {
    fn describe() -> Spec {
        Spec::manages::<Assembly>()
            .ignore_status()
            .watch(Watch::of::<Part>(Mapping::label("demo.homeostat.dev/nobody")).secondary())
    }

    fn reconcile(key: Key) -> Result<Outcome, Failure> {
        let face: String = config::get_or("face", String::new())?;
        let Some(mut assembly) = Assembly::get_opt(&key)? else {
            return Ok(Outcome::settled());
        };
        if face == "look" {
            look(&key)?;
        }
        let size = assembly.spec.size + u64::from(face == "field");
        let part = |name: &str| {
            // The store keeps whole numbers of 64 bits with a sign, as Kubernetes does.
            let (made_at, number) = (Time::now().to_string(), random::get_random_u64() >> 1);
            Resource::new(&key.namespace, name, Part { size, made_at, number }).apply()
        };
        if face != "less" {
            part(&key.name)?;
        }
        if face == "key" {
            part(&format!("{}-second", key.name))?;
        }
        let mut count = assembly.status.as_ref().map_or(0, |counted| counted.count) + 1;
        assembly.set_status(AssemblyStatus { count })?;
        if face == "more" {
            count += 1;
            assembly.set_status(AssemblyStatus { count })?;
        }
        events::normal(if face == "tell" { "Told" } else { "Counted" }, Time::now().to_string());
        match face.as_str() {
            "look" => {
                look(&key)?;
                black_box(Time::now());
            }
            "again" => return Ok(Outcome::again_after(Duration::from_secs(3600))),
            "fail" => return Err(Failure::new("failed on purpose")),
            "trap" => panic!("on purpose"),
            "loop" => busy(),
            "ask" => drop(http::get("https://example.com/thing?token=secret").send()),
            _ => {}
        }
        Ok(Outcome::settled())
    }
}

fn look(key: &Key) -> Result<(), Failure> {
    Part::get_opt(&key.beside::<Part>(&key.name))?;
    for part in Part::list(Selector::everything().in_namespace(&key.namespace)) {
        part?;
    }
    Ok(())
}

fn busy() -> ! {
    let mut number = 0_u64;
    loop {
        number = black_box(number.wrapping_add(1));
    }
}

homeostat_sdk::export!(Guest);
