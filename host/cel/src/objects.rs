//! Values beyond those of JSON: their forms and their texts.

pub(crate) mod addresses;
pub(crate) mod encoders;
pub(crate) mod named_formats;
pub(crate) mod semver;
pub(crate) mod time;
pub(crate) mod urls;
