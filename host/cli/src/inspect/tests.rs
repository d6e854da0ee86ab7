use super::*;

#[test]
fn an_inspection_is_shown_with_every_fact() {
    let inspection = |pages: u64| {
        json!({
            "file": "web.wasm", "digest": "sha256:1", "sizeBytes": 7, "optionalExports": ["mapper", "poller"], "pooled": true,
            "signatures": ["5f"], "producers": {"language": {"Rust": ""}, "processed-by": {"rustc": "1.95.0", "wit-component": "0.2"}},
            "dependencies": [{"name": "serde", "version": "1.0.0", "source": "crates.io"}],
            "exports": ["a", "b"], "imports": [], "memory": {"bytesMax": 1_179_648, "pagesGrown": pages}, "describe": {"concurrency": 4}, "watched": {"resources": []}, "grants": {"http": []},
            "calls": {"describe": {"cpuUs": 40, "memoryBytesMax": 1_179_648}}, "limits": {"memory": "128Mi"},
        })
    };
    let expected = "File:      web.wasm\nDigest:    sha256:1\nSize:      7 bytes\nSigned by: 5f\n\
        Producers: language: Rust\n           processed-by: rustc 1.95.0, wit-component 0.2\n\
        Packages:  serde 1.0.0 (crates.io)\nOptional:  mapper, poller\nInstances: pooled\n\
        Memory:    1152 KiB, not grown by describe\n\
        Calls:     describe: 40 µs of processor time, 1152 KiB\nExports:   a\n           b\nImports:   none\n\nDescribe:\n  concurrency: 4\n\n\
        Grants for its watches; required, but may be limited to some namespaces and names:\n  resources: []\n\n\
        Suggested grants for a manifest:\n  http: []\n\n\
        Suggested limits for a manifest; the other defaults are enough for the measured calls:\n  memory: 128Mi\n";
    assert_eq!(text(&inspection(0)).expect("it is shown"), expected);
    let grown = text(&inspection(1)).expect("it is shown");
    assert!(grown.contains("1152 KiB, of which describe grew 1 pages; "), "{grown}");
}

#[test]
fn everything_grants_everything() {
    let kind = homeostat_store::Kind::new("apps", "v1", "Deployment");
    let declared =
        KindDeclaration { kind, plural: "deployments".into(), namespaced: true, keys_only: false, schema: None };
    assert_eq!(grant(&declared, &[Verb::Get]).kinds, ["apps/Deployment"]);
    assert_eq!(Grants::everything().resources[0].kinds, ["*"]);
    assert!(!Grants::everything().http.is_empty());
}

#[test]
fn the_optional_exports_are_named_one_by_one() {
    assert_eq!(optional_exports(Exports::default()), [""; 0]);
    let exports = Exports { poller: true, lifecycle: true, mapper: false, converter: false };
    assert_eq!(optional_exports(exports), ["poller", "lifecycle"]);
}
