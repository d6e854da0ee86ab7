//! The layout of a component in a registry: a manifest, a configuration, and one layer with the component.
//!
//! Source: the CNCF's wasm OCI artifact.

use homeostat_digest::Digest;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::Error;
use crate::origin::Origin;

/// Maximum size of a component that is pulled or pushed, in bytes.
pub const COMPONENT_BYTES_MAX: u64 = 50 << 20;
/// Maximum size of a manifest, and of a configuration, in bytes.
pub const MANIFEST_BYTES_MAX: u64 = 1 << 20;

pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.wasm.config.v0+json";
const LAYER: &str = "application/wasm";
/// The annotation with a layer's file name. Clients that write layers to files skip layers without it.
const TITLE: &str = "org.opencontainers.image.title";
/// A constant, so that a component has one manifest, independent of its file name.
const FILE: &str = "component.wasm";
const ARCHITECTURE: &str = "wasm";
/// For components. Core modules have `wasip1`.
const OS: &str = "wasip2";
/// A constant, so that a component has one manifest, independent of the time and the pusher.
const CREATED: &str = "1970-01-01T00:00:00Z";

/// The blobs of a component, as its manifest names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    pub(crate) config: Blob,
    pub(crate) layer: Blob,
}

/// The digest and size of a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blob {
    pub(crate) digest: Digest,
    pub(crate) bytes: u64,
}

impl Blob {
    fn of(content: &[u8]) -> Self {
        Self { digest: Digest::of(content), bytes: content.len() as u64 }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManifestHeader {
    #[serde(default)]
    media_type: Option<String>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct ImageManifest {
    schema_version: u32,
    media_type: Option<String>,
    config: Descriptor,
    layers: Vec<Descriptor>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: u64,
    /// Written, but ignored when read.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    annotations: Option<Value>,
}

#[derive(Deserialize)]
struct Config {
    architecture: String,
    os: String,
}

impl Manifest {
    /// Parses a manifest. `what` names the artifact in errors.
    ///
    /// # Errors
    /// [`Error::Layout`] with the media type that was found; [`Error::TooLarge`].
    pub fn read(what: &str, bytes: &[u8]) -> Result<Self, Error> {
        let other = |reason: String| Error::Layout { what: what.to_owned(), reason };
        let unreadable = |error: serde_json::Error| other(format!("its manifest cannot be read: {error}"));
        // The media type first, so that the error names any other artifact by its type.
        let ManifestHeader { media_type } = serde_json::from_slice(bytes).map_err(unreadable)?;
        check_manifest_type(what, media_type.as_deref())?;
        let ImageManifest { schema_version, media_type: _, config, layers } =
            serde_json::from_slice(bytes).map_err(unreadable)?;
        if schema_version != 2 {
            return Err(other(format!("its manifest has the schema version {schema_version}, expected 2")));
        }
        if config.media_type != CONFIG {
            return Err(other(format!("its configuration is {:?}, expected {CONFIG}", config.media_type)));
        }
        let [layer] = &layers[..] else {
            return Err(other(format!("it has {} layers, and a component has one", layers.len())));
        };
        if layer.media_type != LAYER {
            return Err(other(format!("its layer is {:?}, expected {LAYER}", layer.media_type)));
        }
        let blob = |descriptor: &Descriptor, name: &str, bytes_max: u64| {
            let digest = Digest::parse(&descriptor.digest);
            let digest = digest.ok_or_else(|| other(format!("the digest of its {name} is not SHA-256")))?;
            if descriptor.size > bytes_max {
                return Err(Error::TooLarge { what: format!("the {name} of {what}"), bytes_max });
            }
            Ok(Blob { digest, bytes: descriptor.size })
        };
        let layer = blob(layer, "component", COMPONENT_BYTES_MAX)?;
        Ok(Self { config: blob(&config, "configuration", MANIFEST_BYTES_MAX)?, layer })
    }

    /// Returns the digest of the component itself, which is not that of the manifest.
    pub fn component(&self) -> &Digest {
        &self.layer.digest
    }
}

/// Checks the media type of a response or a manifest. A missing type is accepted.
///
/// # Errors
/// [`Error::Layout`].
pub(crate) fn check_manifest_type(what: &str, media_type: Option<&str>) -> Result<(), Error> {
    let bare = media_type.and_then(|whole| whole.split(';').next()).map(str::trim);
    match bare.filter(|bare| *bare != MANIFEST) {
        None => Ok(()),
        Some(other) => Err(Error::Layout {
            what: what.to_owned(),
            reason: format!("its manifest is {other:?}, expected {MANIFEST}"),
        }),
    }
}

/// Checks the configuration of an artifact.
///
/// # Errors
/// [`Error::Layout`].
pub(crate) fn check_config(what: &str, bytes: &[u8]) -> Result<(), Error> {
    let other = |reason: String| Error::Layout { what: what.to_owned(), reason };
    let read = serde_json::from_slice(bytes);
    let Config { architecture, os } =
        read.map_err(|error| other(format!("its configuration cannot be read: {error}")))?;
    if architecture != ARCHITECTURE || os != OS {
        return Err(other(format!("it is for {architecture}/{os}, and components are for {ARCHITECTURE}/{OS}")));
    }
    Ok(())
}

/// The manifest and configuration of a component.
pub(crate) struct ArtifactParts {
    pub(crate) manifest: Vec<u8>,
    pub(crate) config: Vec<u8>,
}

/// Makes the manifest and the configuration of a component. Both only depend on the component.
///
/// # Errors
/// [`Error::NotAComponent`], [`Error::TooLarge`].
pub(crate) fn pack(component: &[u8]) -> Result<ArtifactParts, Error> {
    if component.len() as u64 > COMPONENT_BYTES_MAX {
        return Err(Error::TooLarge { what: "the component".to_owned(), bytes_max: COMPONENT_BYTES_MAX });
    }
    let Origin { imports, exports, .. } = Origin::of(component)?;
    let layer = Blob::of(component);
    let config = json!({
        "created": CREATED, "architecture": ARCHITECTURE, "os": OS,
        "layerDigests": [layer.digest.as_str()],
        "component": { "exports": exports, "imports": imports, "target": null },
    });
    let config = config.to_string().into_bytes();
    let descriptor = |media_type: &str, Blob { digest, bytes }: Blob| Descriptor {
        media_type: media_type.to_owned(),
        digest: digest.to_string(),
        size: bytes,
        annotations: None,
    };
    let layer = Descriptor { annotations: Some(json!({ TITLE: FILE })), ..descriptor(LAYER, layer) };
    let manifest = ImageManifest {
        schema_version: 2,
        media_type: Some(MANIFEST.to_owned()),
        config: descriptor(CONFIG, Blob::of(&config)),
        layers: vec![layer],
    };
    let manifest = serde_json::to_vec(&manifest).expect("all of its fields are JSON");
    Ok(ArtifactParts { manifest, config })
}

#[cfg(test)]
mod tests;
