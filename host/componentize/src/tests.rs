use std::path::PathBuf;

use super::*;

fn wit() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit")
}

/// Returns the text of a module that exports the functions of the world `controller`.
fn module(body: &str) -> Vec<u8> {
    let text = format!(
        r#"(module
            {body}
            (memory (export "memory") 1)
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 0)
            (func (export "homeostat:reconciler/reconciler@0.1.0#describe") (result i32) i32.const 0)
            (func (export "homeostat:reconciler/reconciler@0.1.0#reconcile")
              (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32) i32.const 0))"#
    );
    wat::parse_str(text).expect("it is a module")
}

/// The first eight bytes of a component.
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

#[test]
fn a_module_with_and_without_wasi_becomes_a_component() {
    let wasi = r#"(import "wasi_snapshot_preview1" "random_get" (func (param i32 i32) (result i32)))"#;
    for body in ["", wasi] {
        let component = componentize(module(body), &wit(), "controller").expect("it fits");
        assert_eq!(&component[..8], COMPONENT, "{body}");
    }
}

#[test]
fn a_module_that_does_not_fit_is_refused_with_the_reason() {
    let empty = wat::parse_str("(module)").expect("it is a module");
    let error = componentize(empty, &wit(), "controller").expect_err("it has no exports").to_string();
    assert!(error.contains("homeostat:reconciler/reconciler@0.1.0"), "{error}");
    let stranger = module(r#"(import "env" "fork" (func))"#);
    let error = componentize(stranger, &wit(), "controller").expect_err("nobody has this import").to_string();
    assert!(error.contains("env"), "{error}");
    let error = componentize(b"no module".to_vec(), &wit(), "controller").expect_err("it is no module").to_string();
    assert!(error.starts_with("the module does not fit the world `controller`: "), "{error}");
}

#[test]
fn a_missing_world_and_a_missing_contract_are_named() {
    let error = componentize(module(""), &wit(), "operator").expect_err("there is no such world");
    assert_eq!(error.to_string(), "the contract has no world `operator`");
    let error = componentize(module(""), Path::new("/absent"), "controller").expect_err("there is no such folder");
    assert!(error.to_string().starts_with("the contract in /absent cannot be read: "), "{error}");
}

#[test]
fn the_contract_is_complete() {
    let folder = tempfile::tempdir().expect("folders can be made");
    for (path, text) in CONTRACT {
        let file = folder.path().join(path);
        std::fs::create_dir_all(file.parent().expect("it is in a folder")).expect("folders can be made");
        std::fs::write(file, text).expect("files can be written");
    }
    componentize(module(""), folder.path(), "controller").expect("the contract can be read");
}

#[test]
fn a_module_with_its_type_in_it_becomes_a_component_without_wasi() {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit()).expect("the contract can be read");
    let world = resolve.select_world(&[package], Some("controller")).expect("there is such a world");
    let typed = |body: &str| {
        let mut module = module(body);
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).expect("the type fits");
        module
    };
    let component = componentize_typed(&typed("")).expect("it fits");
    assert_eq!(&component[..8], COMPONENT);
    let wasi = r#"(import "wasi_snapshot_preview1" "random_get" (func (param i32 i32) (result i32)))"#;
    let error = componentize_typed(&typed(wasi)).expect_err("its type has no WASI").to_string();
    assert!(error.contains("wasi_snapshot_preview1"), "{error}");
}
