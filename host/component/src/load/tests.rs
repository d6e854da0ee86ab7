use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use homeostat_digest::Digest;

use crate::engine::Engine;
use crate::fixture::{self, component, engine};
use crate::limits::Limits;
use crate::load_error::Reason;
use crate::options::EngineOptions;

const RECONCILER: &str = "homeostat:reconciler/reconciler@0.1.0";

async fn reasons(bytes: Vec<u8>) -> Vec<Reason> {
    engine(2).load(bytes).await.unwrap_err().reasons
}

#[tokio::test]
async fn empty_and_random_bytes_are_refused() {
    assert_eq!(reasons(Vec::new()).await, [Reason::Empty]);
    assert_eq!(reasons(b"#!/bin/sh".to_vec()).await, [Reason::NotWasm]);
    assert_eq!(reasons(b"\0as".to_vec()).await, [Reason::Truncated]);
    assert_eq!(reasons(b"\0asm\x0d\0\x01\0noise".to_vec()).await.len(), 1);
}

#[tokio::test]
async fn a_core_module_is_refused_with_how_to_build_a_component() {
    let found = reasons(component("(module)")).await;
    assert_eq!(found, [Reason::CoreModule]);
    assert!(found[0].to_string().contains("homeostat build"));
}

#[tokio::test]
async fn a_truncated_file_is_distinguished_from_a_damaged_one() {
    let whole = component("(component (core module (memory 1) (func (export \"f\"))))");
    let engine = engine(2);
    for length in 9..whole.len() {
        let refused = engine.load(&whole[..length]).await.unwrap_err();
        assert_eq!(refused.reasons, [Reason::Truncated], "cut off after {length} of {} bytes", whole.len());
    }
    let mut damaged = whole.clone();
    damaged[20] ^= 0xff;
    let refused = engine.load(damaged).await.unwrap_err();
    assert!(matches!(refused.reasons.as_slice(), [Reason::Malformed { .. }]), "{refused}");
}

#[tokio::test]
async fn a_component_that_is_too_large_is_refused_before_it_is_compiled() {
    let bytes = component("(component (core module))");
    let length = bytes.len() as u64;
    let options = EngineOptions { component_bytes_max: length - 1, instances_max: 1, ..EngineOptions::default() };
    let refused = Engine::new(options).unwrap().load(bytes).await.unwrap_err();
    assert_eq!(refused.reasons, [Reason::TooLarge { bytes: length, bytes_max: length - 1 }]);
}

#[tokio::test]
async fn code_that_does_not_match_its_digest_is_not_compiled() {
    let (engine, limits) = (engine(2), Limits::default());
    let (wanted, other) = (Digest::of(&fixture::good()), fixture::guest("global.get $spec", "unreachable"));
    let found = Digest::of(&other);
    let refused = engine.load_within(other, Some(&wanted), &limits, &BTreeMap::new()).await.unwrap_err();
    assert_eq!(refused.reasons, [Reason::OtherDigest { wanted: wanted.clone(), found: found.clone() }]);
    assert!(engine.load_known(&found, &limits, &BTreeMap::new()).await.is_none(), "nobody has compiled it");
    let loaded = engine.load_within(fixture::good(), Some(&wanted), &limits, &BTreeMap::new()).await.unwrap();
    assert_eq!(*loaded.digest(), wanted);
}

#[tokio::test]
async fn all_reasons_of_a_refusal_are_reported_at_once() {
    let text = r#"(component
        (import "wasi:nn/graph@0.2.0" (instance))
        (import "wasi:http/incoming-handler@0.2.0" (instance))
        (instance $empty)
        (export "homeostat:reconciler/mapper@0.9.0" (instance $empty)))"#;
    let refused = engine(2).load(component(text)).await.unwrap_err();
    let text = refused.to_string();
    assert_eq!(refused.reasons.len(), 4, "{text}");
    for part in ["4 reasons", "wasi:nn/graph@0.2.0", "serves no requests", "mapper@0.9.0", "does not export"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[tokio::test]
async fn an_export_of_another_type_is_refused() {
    let text = format!("(component (instance $empty) (export \"{RECONCILER}\" (instance $empty)))");
    let found = reasons(component(&text)).await;
    assert!(matches!(found.as_slice(), [Reason::ExportType { name, .. }] if name == RECONCILER), "{found:?}");
}

#[tokio::test]
async fn an_import_of_another_type_is_refused() {
    let parts = r#"(import "wasi:random/random@0.2.0" (instance (export "get-random-u64" (func (param "x" u32)))))"#;
    let found = reasons(fixture::Guest { parts, ..fixture::Guest::default() }.build()).await;
    assert!(matches!(found.as_slice(), [Reason::Link { .. }]), "{found:?}");
    let parts = r#"(import "homeostat:reconciler/watches@0.1.0" (instance (export "unfollow" (func))))"#;
    let found = reasons(fixture::Guest { parts, ..fixture::Guest::default() }.build()).await;
    assert!(
        matches!(found.as_slice(), [Reason::Link { reason }] if reason.contains("no function unfollow")),
        "{found:?}"
    );
}

#[tokio::test]
async fn a_component_too_large_for_the_pool_is_compiled_for_the_other_machine() {
    let memories = "(core module $m (memory 1)) (core instance (instantiate $m))";
    let code = async |bytes: Vec<u8>| super::code(&engine(2), &Digest::of(&bytes), Arc::new(bytes)).await.unwrap();
    let one = code(component(&format!("(component {memories})"))).await;
    assert_eq!(one.current().unpooled, None);
    let module = "(core module $m (memory 1))";
    let many = format!("(component {module} {})", "(core instance (instantiate $m))".repeat(5));
    let many = code(component(&many)).await.current();
    let reason = many.unpooled.as_deref().unwrap();
    assert!(reason.contains("5") && reason.contains("maximum of 2"), "it says which bound: {reason}");
}

/// 65 MiB: more than the default limit `memory`.
const PAGES: u32 = 1040;

#[tokio::test]
async fn a_guest_with_a_large_initial_memory_loads_under_a_large_enough_limit() {
    let little = Limits::default();
    let much = Limits { memory_bytes_max: 128 << 20, ..little.clone() };
    let at_once = fixture::Guest { items: "", ..fixture::Guest::default() }.text();
    let at_once = component(
        &at_once.replace("(memory (export \"memory\") 1 1024)", &format!("(memory (export \"memory\") {PAGES} 2048)")),
    );
    let grown = format!(
        "(if (i32.eq (memory.grow (i32.const {})) (i32.const -1)) (then unreachable)) global.get $spec",
        PAGES - 1
    );
    let grown = fixture::Guest { describe: &grown, ..fixture::Guest::default() }.text();
    let grown = component(&grown.replace("\"memory\") 1 1024)", "\"memory\") 1 2048)"));
    for bytes in [at_once, grown] {
        let engine = engine(2);
        let refused = engine.load(bytes.clone()).await.unwrap_err().to_string();
        assert!(refused.contains("limit memory") && refused.contains("`spec.limits.memory`"), "{refused}");
        let loaded = engine.load_within(bytes, None, &much, &BTreeMap::new()).await.unwrap();
        assert!(engine.load_known(loaded.digest(), &much, &BTreeMap::new()).await.unwrap().is_ok());
        assert!(engine.load_known(loaded.digest(), &little, &BTreeMap::new()).await.unwrap().is_err());
    }
}

#[tokio::test]
async fn describe_runs_under_the_default_limits_whatever_the_controllers_limits() {
    let least = Limits {
        deadline: Duration::from_millis(1),
        cpu: Duration::from_millis(1),
        memory_bytes_max: 1,
        memories_max: 0,
        table_elements_max: 0,
        ..Limits::default()
    };
    engine(2).load_within(fixture::good(), None, &least, &BTreeMap::new()).await.unwrap();
}
