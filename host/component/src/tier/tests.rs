use std::sync::Arc;
use std::time::Duration;

use homeostat_fixtures::demo_key;

use super::{Tier, TierPolicy};
use crate::engine::Engine;
use crate::fixture::Guest;
use crate::layers::EmptyWorld;
use crate::limits::{LimitName, Limits};
use crate::options::EngineOptions;
use crate::outcome::{CallReport, Fault, Outcome};
use crate::{CallSession, Component};

/// Loads a guest with code of one tier.
async fn load(tier: Tier, guest: Guest<'_>) -> Component {
    let tiers = if tier == Tier::Baseline { TierPolicy::Baseline } else { TierPolicy::Optimised };
    let options = EngineOptions { instances_max: 1, tiers, baseline_function_bytes_min: 0, ..EngineOptions::default() };
    let component = Engine::new(options).unwrap().load(guest.build()).await.unwrap();
    assert_eq!(component.tier(), tier);
    component
}

/// Calls a guest once with code of each tier, and returns the common result.
async fn result(guest: Guest<'_>, limits: &Limits) -> Result<Outcome, Fault> {
    let mut reports = Vec::new();
    for tier in [Tier::Baseline, Tier::Optimised] {
        let component = load(tier, guest).await;
        let mut caller = CallSession::new("test");
        let CallReport { result, cost } =
            component.reconcile(&mut caller, &demo_key("Thing", "a"), limits, Arc::new(EmptyWorld)).await;
        reports.push((result, cost.memory_bytes_max, cost.pages_grown));
    }
    let [baseline, optimised] = <[_; 2]>::try_from(reports).unwrap();
    assert_eq!(baseline, optimised);
    baseline.0
}

#[tokio::test]
async fn traps_of_both_tiers_have_the_same_message() {
    let items = "(table $none 1 funcref) (type $nothing (func))";
    for (reconcile, with) in [
        ("unreachable", "unreachable"),
        ("(i32.div_s (i32.const 1) (global.get $zero))", "divide by zero"),
        ("(i32.div_s (i32.const 0x80000000) (i32.sub (global.get $zero) (i32.const 1)))", "integer overflow"),
        ("(i32.trunc_f64_s (f64.const nan))", "invalid conversion"),
        ("(i32.load (i32.const 0x7fffffff))", "out of bounds memory access"),
        ("(call_indirect $none (type $nothing) (i32.const 0)) global.get $settled", "uninitialized element"),
        ("(call_indirect $none (type $nothing) (i32.const 7)) global.get $settled", "undefined element"),
    ] {
        let items = format!("{items} (global $zero (mut i32) (i32.const 0))");
        let fault = result(Guest { items: &items, reconcile, ..Guest::default() }, &Limits::default()).await;
        assert!(matches!(&fault, Err(Fault::Trap { message }) if message.contains(with)), "{with}: {fault:?}");
    }
}

#[tokio::test]
async fn limits_of_both_tiers_stop_a_guest_in_the_same_way() {
    let items = "(func $deep (param i32) (result i32) (i32.add (i32.const 1) (call $deep (local.get 0))))
        (table $grown 1 funcref)";
    let limits = Limits { cpu: Duration::from_millis(20), memory_bytes_max: 1 << 20, ..Limits::default() };
    for (reconcile, expected) in [
        ("(loop $again (br $again)) unreachable", LimitName::Cpu),
        ("(loop $again (drop (memory.grow (i32.const 1))) (br $again)) unreachable", LimitName::Memory),
        ("(call $deep (i32.const 1))", LimitName::Stack),
        ("(drop (table.grow $grown (ref.null func) (i32.const 20000))) global.get $settled", LimitName::Tables),
    ] {
        let fault = result(Guest { items, reconcile, ..Guest::default() }, &limits).await;
        assert!(matches!(&fault, Err(Fault::Limit { limit, .. }) if *limit == expected), "{expected}: {fault:?}");
    }
}

#[tokio::test]
async fn both_tiers_make_every_nan_the_same_nan() {
    // A NaN with a payload, in arithmetic of each width: the result must be the canonical one.
    let canonical = |width: u32, mantissa: u64, nan: u64| {
        format!(
            "(if (i{width}.ne (i{width}.reinterpret_f{width} (f{width}.add (f{width}.reinterpret_i{width}
                (i{width}.const {mantissa})) (f{width}.const 1))) (i{width}.const {nan})) (then unreachable))"
        )
    };
    let vector = "(if (i64.ne (i64x2.extract_lane 0 (f64x2.mul (i64x2.splat (i64.const 0x7ff8000000000123))
        (f64x2.splat (f64.const 1)))) (i64.const 0x7ff8000000000000)) (then unreachable))";
    let reconcile = [
        canonical(32, 0x7fc0_0123, 0x7fc0_0000),
        canonical(64, 0x7ff8_0000_0000_0123, 0x7ff8_0000_0000_0000),
        vector.to_owned(),
        "global.get $settled".to_owned(),
    ]
    .join("\n");
    let guest = Guest { reconcile: &reconcile, ..Guest::default() };
    assert_eq!(result(guest, &Limits::default()).await, Ok(Outcome::Settled));
}

#[tokio::test]
async fn a_stack_that_fits_optimised_code_fits_baseline_code() {
    // Some 9,000 frames fill the stack of optimised code to two thirds.
    let items = "(func $deep (param i32) (result i32)
        (if (result i32) (local.get 0)
            (then (i32.add (i32.const 1) (call $deep (i32.sub (local.get 0) (i32.const 1)))))
            (else (i32.const 0))))";
    let guest =
        Guest { items, reconcile: "(drop (call $deep (i32.const 9000))) global.get $settled", ..Guest::default() };
    assert_eq!(result(guest, &Limits::default()).await, Ok(Outcome::Settled));
}
