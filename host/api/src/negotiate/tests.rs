use axum::http::{HeaderValue, header};
use homeostat_component::KindDeclaration;
use homeostat_runtime::KindInfo;
use homeostat_store::Kind;

use super::*;
use crate::table::IncludeObjectPolicy;

fn accept(text: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(text))])
}

fn format(headers: &HeaderMap) -> &'static str {
    let kind = Kind::new("", "v1", "Pod");
    let declaration =
        KindDeclaration { kind, plural: "pods".to_owned(), namespaced: true, keys_only: false, schema: None };
    let info = KindInfo::declared(&declaration, "controller web");
    match response_format(headers, false, || Table::of(&info, IncludeObjectPolicy::Metadata)) {
        ResponseFormat::Document => "Document",
        ResponseFormat::Protobuf => "Protobuf",
        ResponseFormat::Cbor => "Cbor",
        ResponseFormat::Metadata => "Metadata",
        ResponseFormat::ProtobufMetadata => "ProtobufMetadata",
        ResponseFormat::Table(_) => "Table",
    }
}

#[test]
fn the_supported_format_with_the_greatest_weight_is_chosen() {
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
    assert_eq!(format(&accept(table)), "Table");
    assert_eq!(format(&accept("application/json;as=Table;v=v1beta1;g=meta.k8s.io, application/json")), "Table");
    assert_eq!(format(&accept("application/json;as=Table;v=v1alpha1;g=meta.k8s.io, application/json")), "Document");
    assert_eq!(format(&accept("application/vnd.kubernetes.protobuf, */*")), "Document");
    assert_eq!(format(&accept("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")), "Metadata");
    assert_eq!(format(&accept("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")), "Metadata");
    // A client of metadata in Go sends this.
    let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
    assert_eq!(format(&accept(metadata)), "ProtobufMetadata");
    assert_eq!(format(&accept("application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io")), "Document");
    assert_eq!(format(&HeaderMap::new()), "Document");
    let weighted = "application/json;as=Table;v=v1;g=meta.k8s.io;q=0.1, application/json;q=0.9";
    assert_eq!(format(&accept(weighted)), "Document");
    // What clients in Go send that allow CBOR.
    assert_eq!(format(&accept("application/json;q=0.9,application/cbor;q=1")), "Cbor");
    assert_eq!(format(&accept("application/cbor;q=0, application/json;q=0.1")), "Document");
}

#[test]
fn aggregated_discovery_is_recognised() {
    let new = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    assert!(wants_all_groups(&accept(new)));
    assert!(!wants_all_groups(&accept("application/json")));
}
