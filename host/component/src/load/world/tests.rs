use super::{InterfaceNames, LIFECYCLE, RECONCILER, check};
use crate::load_error::Reason;

fn names(imports: &[&str], exports: &[&str]) -> InterfaceNames {
    let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    InterfaceNames { imports: texts(imports), exports: texts(exports) }
}

#[test]
fn the_imports_of_every_guest_are_offered() {
    let imports = ["wasi:cli/stderr@0.2.6", "wasi:io/poll@0.2.0", "homeostat:reconciler/store@0.1.0"];
    assert_eq!(check(&names(&imports, &[RECONCILER, LIFECYCLE])), []);
}

#[test]
fn files_sockets_and_http_are_imported_without_a_grant() {
    let imports = ["wasi:filesystem/types@0.2.9", "wasi:sockets/tcp@0.2.12", "wasi:http/outgoing-handler@0.2.10"];
    assert_eq!(check(&names(&imports, &[RECONCILER])), []);
}

#[test]
fn an_unknown_imported_package_is_refused_by_name() {
    let reasons = check(&names(&["acme:magic/wand@1.0.0"], &[RECONCILER]));
    let texts: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    assert!(texts.len() == 1 && texts[0].contains("acme:magic/wand@1.0.0"), "{texts:?}");
}

#[test]
fn an_import_of_another_version_is_refused_with_the_offered_version() {
    let reasons = check(&names(&["wasi:io/poll@0.3.0"], &[RECONCILER]));
    assert!(reasons[0].to_string().contains("version 0.2.0"), "{}", reasons[0]);
}

#[test]
fn incoming_requests_are_refused() {
    let reasons = check(&names(&["wasi:http/incoming-handler@0.2.0"], &[RECONCILER]));
    assert!(matches!(reasons.as_slice(), [Reason::UnknownImport { .. }]), "{reasons:?}");
}

#[test]
fn another_version_of_the_contract_is_distinguished_from_a_missing_export() {
    let newer = "homeostat:reconciler/reconciler@0.2.0";
    let reasons = check(&names(&[], &[newer]));
    assert_eq!(reasons, [Reason::ExportVersion { found: newer.to_owned(), known: RECONCILER.to_owned() }]);
    let reasons = check(&names(&[], &["run"]));
    assert_eq!(reasons, [Reason::MissingExport { name: RECONCILER.to_owned() }]);
}
