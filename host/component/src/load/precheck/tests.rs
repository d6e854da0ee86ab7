use crate::fixture::{self, Guest, component};
use crate::limits::LimitName;
use crate::limits::Limits;
use crate::load_error::Reason;

fn check(bytes: &[u8]) -> Vec<Reason> {
    super::check(bytes, &Limits::default())
}

#[test]
fn a_good_component_passes_the_precheck_without_a_look_at_its_code() {
    assert_eq!(check(&fixture::good()), []);
}

#[test]
fn a_differing_record_is_reported_with_the_fields_of_both_contracts() {
    let interface = r#"(instance
        (type $k (record (field "group" string) (field "version" string) (field "name" string)))
        (export "kind" (type $kind (eq $k)))
        (type $d (record (field "kind" $kind) (field "plural" string) (field "namespaced" bool) (field "schema" (option string))))
        (export "kind-declaration" (type (eq $d))))"#;
    let text = format!(
        "(component (import \"homeostat:reconciler/types@0.1.0\" {interface})
            (import \"r\" (instance $r (type (instance)) ))
            (export \"homeostat:reconciler/reconciler@0.1.0\" (instance $r)))"
    )
    .replace("(instance $r (type (instance)) )", &interface.replacen("(instance", "(instance $r", 1));
    let reasons = check(&component(&text));
    let texts: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    let wanted = "its record kind-declaration has (kind, plural, namespaced, schema) where the contract of this host has (kind, plural, namespaced, keys-only, schema)";
    assert_eq!(texts.iter().filter(|text| text.contains(wanted)).count(), 2, "{texts:#?}");
    assert!(reasons.iter().any(|reason| matches!(reason, Reason::Link { .. })), "{texts:#?}");
    assert!(reasons.iter().any(|reason| matches!(reason, Reason::ExportType { .. })), "{texts:#?}");
}

#[test]
fn memories_and_tables_beyond_the_limits_of_describe_are_refused() {
    for (module, wanted) in [
        ("(memory 1025)", LimitName::Memory),
        (&*"(memory 0)".repeat(16), LimitName::Memories),
        ("(table 100001 funcref)", LimitName::Tables),
    ] {
        let parts = format!("(core module $large {module}) (core instance (instantiate $large))");
        let reasons = check(&Guest { parts: &parts, ..Guest::default() }.build());
        assert!(matches!(reasons.as_slice(), [Reason::Limit { limit, .. }] if *limit == wanted), "{reasons:?}");
        let unused = format!("(core module $large {module})");
        assert_eq!(check(&Guest { parts: &unused, ..Guest::default() }.build()), [], "nobody makes an instance of it");
    }
}

#[test]
fn an_async_component_is_refused_with_the_advice_to_build_without() {
    let text = "(component (core module $m (func (export \"f\") (result i32) unreachable)) (core instance $i (instantiate $m))
        (type $f (func async)) (func (export \"f\") (type $f) (canon lift (core func $i \"f\") async (callback (core func $i \"f\")))))";
    // Old versions of the text format cannot express it; then the compiler's message is sufficient.
    let from_text = wat::parse_str(text).map(|bytes| check(&bytes)).ok();
    let reason = Reason::Unsupported { needs: "requires the component model async feature".to_owned() };
    for reasons in from_text
        .into_iter()
        .filter(|reasons| matches!(reasons.as_slice(), [Reason::Unsupported { .. }]))
        .chain([vec![reason]])
    {
        let text = reasons[0].to_string();
        assert!(text.contains("async") && text.contains("synchronous"), "{text}");
    }
}

#[test]
fn a_component_with_disabled_features_is_distinguished_from_a_malformed_one() {
    let wide = component("(component (core module (memory i64 1) (func (drop (i32.load (i64.const 0))))))");
    assert!(matches!(Reason::explain(&wide, "memory64 is off".to_owned()), Reason::Unsupported { .. }));
    let bad = component("(component (core module (func (result i32) i64.const 0)))");
    assert!(matches!(Reason::explain(&bad, "type mismatch".to_owned()), Reason::Malformed { .. }));
}
