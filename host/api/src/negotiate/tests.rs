use axum::http::HeaderValue;

use super::*;

fn accept(text: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(text))])
}

#[test]
fn the_first_form_that_is_known_is_taken() {
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
    assert_eq!(response_format(&accept(table)), ResponseFormat::Table);
    assert_eq!(
        response_format(&accept("application/json;as=Table;v=v1beta1;g=meta.k8s.io, application/json")),
        ResponseFormat::Document
    );
    assert_eq!(response_format(&accept("application/vnd.kubernetes.protobuf, */*")), ResponseFormat::Document);
    assert_eq!(
        response_format(&accept("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")),
        ResponseFormat::Metadata
    );
    assert_eq!(response_format(&HeaderMap::new()), ResponseFormat::Document);
    let weighted = "application/json;as=Table;v=v1;g=meta.k8s.io;q=0.1, application/json;q=0.9";
    assert_eq!(response_format(&accept(weighted)), ResponseFormat::Table, "weights do not count");
}

#[test]
fn all_groups_in_one_document_are_told_from_the_old_form() {
    let new = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    assert!(wants_all_groups(&accept(new)));
    assert!(!wants_all_groups(&accept("application/json")));
}
