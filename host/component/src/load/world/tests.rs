use super::{LIFECYCLE, Names, RECONCILER, check};
use crate::grants::{Grants, HttpGrant};
use crate::load::Reason;

fn names(imports: &[&str], exports: &[&str]) -> Names {
    let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Names { imports: texts(imports), exports: texts(exports) }
}

fn with_http() -> Grants {
    let grant = HttpGrant {
        urls: vec!["https://a.example/*".into()],
        methods: vec!["GET".into()],
        addresses: vec![],
        headers: [].into(),
    };
    Grants { http: vec![grant], ..Grants::default() }
}

#[test]
fn what_every_guest_imports_is_offered() {
    let imports = ["wasi:cli/stderr@0.2.6", "wasi:io/poll@0.2.0", "homeostat:reconciler/store@0.1.0"];
    assert_eq!(check(&names(&imports, &[RECONCILER, LIFECYCLE]), &Grants::default()), []);
}

#[test]
fn files_and_sockets_are_refused_with_what_to_do_instead() {
    let imports = ["wasi:filesystem/types@0.2.0", "wasi:sockets/tcp@0.2.0", "acme:magic/wand@1.0.0"];
    let reasons = check(&names(&imports, &[RECONCILER]), &Grants::default());
    let texts: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    assert_eq!(reasons.len(), 3);
    assert!(texts[0].contains("no files"), "{texts:?}");
    assert!(texts[1].contains("wasi:http/outgoing-handler"), "{texts:?}");
    assert!(texts[2].contains("acme:magic/wand@1.0.0"), "{texts:?}");
}

#[test]
fn another_version_of_an_import_is_refused_with_the_one_that_is_offered() {
    let reasons = check(&names(&["wasi:io/poll@0.3.0"], &[RECONCILER]), &Grants::default());
    assert!(reasons[0].to_string().contains("version 0.2.0"), "{}", reasons[0]);
}

#[test]
fn http_needs_a_grant_and_says_so_once() {
    let http = names(&["wasi:http/outgoing-handler@0.2.0", "wasi:http/types@0.2.0"], &[RECONCILER]);
    let reasons = check(&http, &Grants::default());
    assert!(matches!(reasons.as_slice(), [Reason::ImportWithoutGrant { .. }]), "{reasons:?}");
    assert!(reasons[0].to_string().contains("grants:\n  http:"), "{}", reasons[0]);
    assert_eq!(check(&http, &with_http()), []);
}

#[test]
fn incoming_requests_are_refused_even_with_a_grant() {
    let reasons = check(&names(&["wasi:http/incoming-handler@0.2.0"], &[RECONCILER]), &with_http());
    assert!(matches!(reasons.as_slice(), [Reason::UnknownImport { .. }]), "{reasons:?}");
}

#[test]
fn another_version_of_the_contract_is_told_from_a_missing_export() {
    let newer = "homeostat:reconciler/reconciler@0.2.0";
    let reasons = check(&names(&[], &[newer]), &Grants::default());
    assert_eq!(reasons, [Reason::ExportVersion { found: newer.to_owned(), known: RECONCILER.to_owned() }]);
    let reasons = check(&names(&[], &["run"]), &Grants::default());
    assert_eq!(reasons, [Reason::MissingExport { name: RECONCILER.to_owned() }]);
}
