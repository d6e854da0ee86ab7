use miniz_oxide::deflate::compress_to_vec_zlib;

use super::*;
use crate::wasm::{CustomSection, prepend_section};

fn with_dependencies(json: &[u8]) -> Vec<u8> {
    prepend_section(&CustomSection { name: DEPENDENCIES.as_bytes(), content: &compress_to_vec_zlib(json, 6) }, &[])
}

#[test]
fn origin_includes_the_producers_of_inner_modules() {
    let component = wat::parse_str(
        r#"(component
            (core module (@producers (language "Rust" "") (processed-by "rustc" "1.95.0")))
            (@producers (processed-by "wit-component" "0.254.2"))
            (import "demo:pkg/in@0.1.0" (func))
            (component (import "inner" (func)))
            (instance (export "demo:pkg/out@0.1.0")))"#,
    );
    let origin = Origin::of(&component.unwrap()).unwrap();
    assert_eq!(origin.imports, ["demo:pkg/in@0.1.0"]);
    assert_eq!(origin.exports, ["demo:pkg/out@0.1.0"]);
    assert_eq!(origin.producers["language"]["Rust"], "");
    assert_eq!(origin.producers["processed-by"]["rustc"], "1.95.0");
    assert_eq!(origin.producers["processed-by"]["wit-component"], "0.254.2");
}

#[test]
fn dependencies_are_those_that_cargo_auditable_wrote() {
    let json = br#"{"packages":[
        {"name":"b","version":"1.0.0","source":"local","root":true,"dependencies":[1]},
        {"name":"a","version":"0.2.0","source":"crates.io","kind":"build"}],"format":1}"#;
    let origin = Origin::of(&with_dependencies(json)).unwrap();
    let told: Vec<_> =
        origin.dependencies.iter().map(|package| (package.name.as_str(), package.version.as_str())).collect();
    assert_eq!(told, [("a", "0.2.0"), ("b", "1.0.0")]);
    assert_eq!(origin.dependencies[0].kind.as_deref(), Some("build"));
}

#[test]
fn a_list_that_unpacks_to_too_much_is_refused() {
    let bomb = with_dependencies(&vec![b' '; DEPENDENCIES_BYTES_MAX + 1]);
    assert!(bomb.len() < 1 << 20);
    let refused = Origin::of(&bomb).unwrap_err().to_string();
    assert!(refused.contains("cannot be decompressed"), "{refused}");
    assert!(Origin::of(&with_dependencies(b"[]")).is_err());
}
