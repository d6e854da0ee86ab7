//! A kind that follows the values of a bucket of other programs.

use homeostat_store::{Error, Kind, Result};

use crate::pattern::KeyPattern;

/// A kind whose resources follow the values that other programs write to a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignBucket {
    /// The kind.
    pub kind: Kind,
    /// Whether its resources have namespaces.
    pub namespaced: bool,
    /// The bucket of the values. The store reads it, and never creates it.
    pub bucket: String,
    /// The form of its keys, as `{namespace}/{name}`. Keys of another form are left alone.
    pub key: String,
    /// The form of a value.
    pub value: ValueForm,
    /// Where a status goes.
    pub status: StatusPlace,
}

/// The form of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ValueForm {
    /// The `spec` of its resource.
    #[default]
    Spec,
    /// A document, whose `spec` is that of its resource.
    Document,
}

/// Where the status of a resource goes besides the resource.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum StatusPlace {
    /// Nowhere.
    #[default]
    Nowhere,
    /// To a value of another bucket.
    Bucket {
        /// The bucket. The store never creates it.
        bucket: String,
        /// The form of its keys, as [`ForeignBucket::key`].
        key: String,
        /// The form of the value.
        form: StatusForm,
    },
    /// Into the value itself, at this JSON pointer: `/status`. The field is not part of the spec.
    Field(String),
}

/// The value of a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StatusForm {
    /// `{"status": …, "observedGeneration": …}`, where the generation is that of the resource.
    #[default]
    Wrapped,
    /// The status alone.
    Bare,
}

impl ForeignBucket {
    /// Checks what can be checked without a server.
    pub(super) fn check(&self) -> Result<()> {
        let Self { kind: _, namespaced, bucket, key, value: _, status } = self;
        let is_bucket = |name: &str, path: &str| {
            let rule = "must have letters, digits, `_` and `-` alone";
            if super::is_token(name) { Ok(()) } else { Err(Error::invalid(path, rule)) }
        };
        is_bucket(bucket, "bucket")?;
        KeyPattern::parse(key, *namespaced)?;
        match status {
            StatusPlace::Nowhere => Ok(()),
            StatusPlace::Bucket { bucket, key, form: _ } => {
                is_bucket(bucket, "status.bucket")?;
                KeyPattern::parse(key, *namespaced).map(drop).map_err(|error| match error {
                    Error::Invalid { path, reason } => Error::invalid(format!("status.{path}"), reason),
                    other => other,
                })
            }
            StatusPlace::Field(pointer) if pointer.len() > 1 && pointer.starts_with('/') => Ok(()),
            StatusPlace::Field(_) => Err(Error::invalid("status.field", "must be a JSON pointer that begins with /")),
        }
    }
}
