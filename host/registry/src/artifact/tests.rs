use serde_json::Value;

use super::*;

fn component() -> Vec<u8> {
    wat::parse_str(r#"(component (import "demo:a/b" (func)) (core module))"#).unwrap()
}

fn changed(pointer: &str, value: Value) -> Result<Manifest, Error> {
    let mut manifest: Value = serde_json::from_slice(&pack(&component()).unwrap().manifest).unwrap();
    match manifest.pointer_mut(pointer) {
        Some(place) => *place = value,
        None => panic!("there is no {pointer}"),
    }
    Manifest::read("demo", manifest.to_string().as_bytes())
}

#[test]
fn packing_is_deterministic_and_follows_the_cncf_layout() {
    let ArtifactParts { manifest, config } = pack(&component()).unwrap();
    assert_eq!(pack(&component()).unwrap().manifest, manifest);
    let read = Manifest::read("demo", &manifest).unwrap();
    assert_eq!(read.component(), &Digest::of(&component()));
    assert_eq!(read.config, Blob::of(&config));
    check_config("demo", &config).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(manifest["config"]["mediaType"], "application/vnd.wasm.config.v0+json");
    assert_eq!(manifest["layers"][0]["mediaType"], "application/wasm");
    let config: Value = serde_json::from_slice(&config).unwrap();
    assert_eq!(config["component"]["imports"], json!(["demo:a/b"]));
    assert_eq!(config["layerDigests"], json!([Digest::of(&component()).as_str()]));
    assert!(pack(b"no component").is_err());
}

#[test]
fn other_artifact_is_named_by_its_media_type() {
    for (pointer, value, told) in [
        ("/mediaType", json!("application/vnd.oci.image.index.v1+json"), "image.index"),
        ("/config/mediaType", json!("application/vnd.oci.image.config.v1+json"), "image.config"),
        ("/layers/0/mediaType", json!("application/vnd.oci.image.layer.v1.tar+gzip"), "tar+gzip"),
        ("/layers", json!([]), "0 layers"),
        ("/schemaVersion", json!(1), "version 1"),
        ("/layers/0/digest", json!("sha512:00"), "SHA-256"),
        ("/layers/0/size", json!("many"), "cannot be read"),
    ] {
        let refused = changed(pointer, value).unwrap_err();
        assert!(matches!(refused, Error::Layout { .. }) && refused.to_string().contains(told), "{pointer}: {refused}");
    }
    let large = changed("/layers/0/size", json!(COMPONENT_BYTES_MAX + 1));
    assert!(matches!(large, Err(Error::TooLarge { bytes_max: COMPONENT_BYTES_MAX, .. })));
    assert!(matches!(changed("/config/size", json!(u64::MAX)), Err(Error::TooLarge { .. })));
    changed("/mediaType", Value::Null).expect("its type may stand in the answer alone");
    let module = json!({ "architecture": "wasm", "os": "wasip1" }).to_string();
    assert!(check_config("demo", module.as_bytes()).unwrap_err().to_string().contains("wasip1"));
}
