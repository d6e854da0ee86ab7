//! Guests that no compiler produces: each is stopped under the name of its limit, or refused, and the engine
//! runs the next one.
//!
//! `tests/it/hostile.rs` has the guests that a compiler can produce, and tests of a whole host with them.

use super::{Clock, FOREVER, engine, limit, run};
use crate::engine::Engine;
use crate::fixture::{self, Guest};
use crate::imports::OFFERED;
use crate::limits::LimitName;
use crate::limits::Limits;
use crate::load_error::Reason;
use crate::outcome::{CallReport, Fault, Outcome};

/// Returns a failure whose message has this address and length, in units of its encoding.
fn fails_with(address: u32, length: u32) -> String {
    format!(
        "(i32.store8 (i32.const 2048) (i32.const 1))
         (i32.store (i32.const 2056) (i32.const {address})) (i32.store (i32.const 2060) (i32.const {length}))
         global.get $settled"
    )
}

/// Runs a hostile guest, then checks that a good one runs on the same engine and nothing leaked.
async fn attack(guest: Guest<'_>, limits: Limits) -> CallReport<Outcome> {
    let engine = engine(2);
    let memory_bytes_max = limits.memory_bytes_max;
    let component = engine.load(guest.build()).await.unwrap();
    let report = run(&component, limits, Clock::default()).await;
    assert!(report.cost.memory_bytes_max <= memory_bytes_max, "{:?}", report.cost);
    goes_on(&engine).await;
    report
}

async fn goes_on(engine: &Engine) {
    let good = engine.load(fixture::good()).await.unwrap();
    assert_eq!(run(&good, Limits::default(), Clock::default()).await.result, Ok(Outcome::Settled));
    assert_eq!(engine.instances_free(), 2);
}

/// Loads a hostile guest, which must be refused, and returns the reason. A good one is loaded and runs after
/// it.
async fn refusal(component: Vec<u8>) -> String {
    let engine = engine(2);
    let refused = engine.load(component).await.unwrap_err();
    goes_on(&engine).await;
    refused.to_string()
}

fn trapped(report: &CallReport<Outcome>, with: &str) {
    assert!(matches!(&report.result, Err(Fault::Trap { message }) if message.contains(with)), "{with}: {report:?}");
}

#[tokio::test]
async fn an_endless_start_function_is_refused() {
    let items = format!("(func $hang {FOREVER}) (start $hang)");
    let reason = refusal(Guest { items: &items, ..Guest::default() }.build()).await;
    assert!(reason.contains("limit cpu"), "{reason}");
}

#[tokio::test]
async fn an_endless_callback_is_stopped_under_the_name_of_its_limit() {
    let guest = Guest { realloc: FOREVER, ..Guest::default() };
    let limits = Limits { cpu: std::time::Duration::from_millis(50), ..Limits::default() };
    assert_eq!(limit(&attack(guest, limits).await), LimitName::Cpu);
}

#[tokio::test]
async fn a_callback_that_calls_the_host_crashes_or_lies_traps() {
    for (realloc, with) in [
        ("(drop (call $now)) global.get $free", "cannot leave component instance"),
        ("unreachable", "unreachable"),
        ("i32.const -8", "beyond end of memory"),
    ] {
        trapped(&attack(Guest { realloc, ..Guest::default() }, Limits::default()).await, with);
    }
}

#[tokio::test]
async fn a_guest_whose_initial_memory_or_tables_exceed_the_limits_is_refused() {
    for (module, limit) in [
        ("(memory 1025)", "limit memory"),
        (&*"(memory 0)".repeat(16), "limit memories"),
        ("(table 100001 funcref)", "limit tables"),
    ] {
        let parts = format!("(core module $large {module}) (core instance (instantiate $large))");
        let reason = refusal(Guest { parts: &parts, ..Guest::default() }.build()).await;
        assert!(reason.contains(limit), "{reason}");
    }
}

#[tokio::test]
async fn endless_tables_are_stopped_under_the_name_of_their_limit() {
    let grow = "(loop $again (drop (table.grow $bomb (ref.null func) (i32.const 1000))) (br $again)) unreachable";
    let guest = Guest { items: "(table $bomb 1 funcref)", reconcile: grow, ..Guest::default() };
    let limits = Limits { table_elements_max: 10_000, ..Limits::default() };
    assert_eq!(limit(&attack(guest, limits).await), LimitName::Tables);
}

#[tokio::test]
async fn a_table_larger_than_the_pool_is_stopped_under_the_name_of_its_limit() {
    let grow = "(drop (table.grow $bomb (ref.null func) (i32.const 20000))) global.get $settled";
    let guest = Guest { items: "(table $bomb 1 funcref)", reconcile: grow, ..Guest::default() };
    let report = attack(guest, Limits::default()).await;
    assert_eq!(limit(&report), LimitName::Tables);
    assert!(report.result.unwrap_err().to_string().contains("20001 elements asked for, 20000 fit in the pool"));
}

/// Resources of a type that the guest itself declares, unknown to the host.
#[tokio::test]
async fn handles_of_a_guest_are_counted_and_stopped_under_the_name_of_their_limit() {
    let parts = r#"(type $own (resource (rep i32)))
        (core func $make (canon resource.new $own))
        (core module $hold (import "" "make" (func $make (param i32) (result i32)))
            (func (export "hold") (param $left i32) (loop $again
                (drop (call $make (i32.const 1)))
                (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))))
        (core instance $held (instantiate $hold (with "" (instance (export "make" (func $make))))))"#;
    let guest = Guest {
        parts,
        imports: r#"(import "held" "hold" (func $hold (param i32)))"#,
        linked: r#"(with "held" (instance $held))"#,
        reconcile: "(call $hold (i32.const 11)) global.get $settled",
        ..Guest::default()
    };
    let report = async |handles_max| attack(guest, Limits { handles_max, ..Limits::default() }).await;
    assert_eq!(limit(&report(10).await), LimitName::Handles);
    assert_eq!(report(11).await.result, Ok(Outcome::Settled));
}

#[tokio::test]
async fn exponentially_growing_types_are_refused() {
    let doubled = |level| format!("(type $t{level} (tuple $t{0} $t{0}))", level - 1);
    let types: String = (1..60).map(doubled).collect();
    let reason = refusal(wat::parse_str(format!("(component (type $t0 (list u8)) {types})")).unwrap()).await;
    assert!(reason.contains("type size"), "{reason}");
}

#[tokio::test]
async fn endless_recursion_is_stopped_under_the_name_of_its_limit_with_its_frames() {
    let items = "(func $deeper (result i32) (i32.add (call $deeper) (i32.const 1)))";
    let report = attack(Guest { items, reconcile: "call $deeper", ..Guest::default() }, Limits::default()).await;
    assert_eq!(limit(&report), LimitName::Stack);
    assert!(report.result.unwrap_err().to_string().contains("deeper"));
}

#[tokio::test]
async fn invalid_utf8_from_a_guest_traps_and_reaches_nobody() {
    // One byte that starts no character, and half of a surrogate pair.
    let wide = 1 << 31;
    for (encoding, half, length, with) in [
        ("utf8", 0xff, 1, "invalid utf-8"),
        ("utf16", 0xd800, 1, "unpaired surrogate"),
        ("latin1+utf16", 0xd800, 1 | wide, "unpaired surrogate"),
    ] {
        let reconcile = format!("(i32.store (i32.const 3000) (i32.const {half})) {}", fails_with(3000, length));
        let report = attack(Guest { reconcile: &reconcile, encoding, ..Guest::default() }, Limits::default()).await;
        trapped(&report, with);
    }
    let reason =
        refusal(fixture::guest("(i32.store8 (i32.const 514) (i32.const 255)) global.get $spec", "i32.const 0"));
    assert!(reason.await.contains("utf-8"));
}

#[tokio::test]
async fn a_text_or_list_outside_of_the_guests_memory_traps() {
    for (address, length) in [(u32::MAX, 1), (0, u32::MAX), (65_535, 2), (3000, 1 << 30)] {
        let reconcile = fails_with(address, length);
        trapped(&attack(Guest { reconcile: &reconcile, ..Guest::default() }, Limits::default()).await, "out of bounds");
    }
    // The number of watches.
    let describe = "(i32.store (i32.const 1080) (i32.const 100000000)) global.get $spec";
    let reason = refusal(fixture::guest(describe, "i32.const 0")).await;
    assert!(reason.contains("out of bounds"), "{reason}");
}

#[tokio::test]
async fn a_text_too_large_to_copy_is_stopped_under_the_name_of_its_limit() {
    let reconcile = format!("(drop (memory.grow (i32.const 400))) {}", fails_with(0, 20 << 20));
    let report = attack(Guest { reconcile: &reconcile, ..Guest::default() }, Limits::default()).await;
    assert_eq!(limit(&report), LimitName::Transfer);
}

#[tokio::test]
async fn a_result_at_an_invalid_address_traps() {
    for address in ["i32.const -1", "i32.const 65532", "i32.const 2049"] {
        trapped(&attack(Guest { reconcile: address, ..Guest::default() }, Limits::default()).await, "pointer");
    }
}

#[tokio::test]
async fn a_component_with_every_import_is_refused_only_for_those_not_offered() {
    // The template itself imports the clock.
    let offered = OFFERED.iter().filter(|name| !name.contains("monotonic-clock"));
    let parts: String = offered.map(|name| format!("(import \"{name}\" (instance))\n")).collect();
    let engine = engine(2);
    let all = engine.load(Guest { parts: &parts, ..Guest::default() }.build()).await.unwrap();
    assert_eq!(run(&all, Limits::default(), Clock::default()).await.result, Ok(Outcome::Settled));
    let others = ["wasi:nn/graph@0.2.0", "wasi:filesystem/types@0.3.0", "demo:a/b", "free"];
    let more: String = others.iter().map(|name| format!("(import \"{name}\" (instance))\n")).collect();
    let parts = format!("{parts}{more}");
    let refused = engine.load(Guest { parts: &parts, ..Guest::default() }.build()).await.unwrap_err();
    let named = |name: &&str| {
        refused
            .reasons
            .iter()
            .any(|reason| matches!(reason, Reason::UnknownImport { name: found, .. } if found.contains(*name)))
    };
    assert!(others.iter().all(named) && refused.reasons.len() == others.len(), "{refused}");
    goes_on(&engine).await;
}

/// The positions of all sections: the offset of the length field, its own length, and its value.
fn sections(component: &[u8]) -> Vec<(usize, usize, usize)> {
    let (mut found, mut at) = (Vec::new(), 8);
    while at < component.len() {
        let (mut length, mut digits) = (0, 0);
        loop {
            let byte = component[at + 1 + digits];
            length |= usize::from(byte & 0x7f) << (7 * digits);
            digits += 1;
            if byte & 0x80 == 0 {
                break;
            }
        }
        found.push((at + 1, digits, length));
        at += 1 + digits + length;
    }
    found
}

/// Encodes a number as LEB128.
fn leb128(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap());
    bytes
}

#[tokio::test]
async fn a_component_with_false_sizes_is_refused() {
    let good = fixture::good();
    let engine = engine(2);
    let sections = sections(&good);
    assert!(sections.len() > 10, "{sections:?}");
    for (at, digits, length) in sections {
        // The length of the section, and the number of its items that follows it.
        let inside = at + digits;
        let lies = [
            (at..inside, leb128(length - 1)),
            (at..inside, leb128(length + 1)),
            (at..inside, leb128(u32::MAX as usize)),
            (inside..inside + 1, leb128(u32::MAX as usize)),
            (inside..inside + 1, leb128(100_000)),
        ];
        for (place, lie) in lies {
            let mut bytes = good.clone();
            bytes.splice(place, lie);
            let refused = engine.load(bytes).await.unwrap_err();
            let reasons = refused.reasons.as_slice();
            assert!(matches!(reasons, [Reason::Truncated | Reason::Malformed { .. }]), "section at {at}: {refused}");
        }
    }
    goes_on(&engine).await;
}

/// Deep enough to exhaust the stack of a recursive parser.
#[tokio::test]
async fn nested_components_are_read_to_the_bottom_and_refused_for_missing_exports() {
    let header = b"\0asm\x0d\0\x01\0";
    let mut bytes = header.to_vec();
    for _ in 0..5000 {
        let section = [&[4], leb128(bytes.len()).as_slice(), &bytes].concat();
        bytes = [header.as_slice(), &section].concat();
    }
    let reason = refusal(bytes).await;
    assert!(reason.contains("does not export"), "{reason}");
}
