//! One file for each target, with its property.

pub(crate) mod apply;
pub(crate) mod artifact;
pub(crate) mod compiled;
pub(crate) mod component;
pub(crate) mod definition;
pub(crate) mod document;
pub(crate) mod file;
pub(crate) mod fsck;
pub(crate) mod json_patch;
pub(crate) mod jsonpath;
pub(crate) mod manifest;
pub(crate) mod merge;
pub(crate) mod name;
pub(crate) mod pattern;
pub(crate) mod request;
pub(crate) mod schema;
pub(crate) mod selector;
pub(crate) mod token;
pub(crate) mod write;
