//! Conversion of documents between the versions of a kind whose definition names a webhook or a controller.
//!
//! A store has one version of each resource. The [`ConvertingStore`] in front of it shows and takes every served version:
//!
//! * A read converts what is stored in another version than the one that the caller names. Up to 500 resources or 4 MiB of
//!   them are one review of a webhook, and up to 64 or 512 KiB are one call of a component. The results are cached by uid and revision.
//! * A write is decided in the version of the client, outside of the store: on the converted current resource, by the
//!   same pure rules. The result is converted, and stored if the resource still has the revision that the decision
//!   relies on; otherwise the write is decided again. So no other write waits for a conversion.
//!
//! A failed conversion fails the one request that needs it, or ends the watch. The host's own work, such as garbage
//! collection and finalizers, uses the stored version and needs no conversion.
//!
//! Deliberately absent: services of a cluster, which a host cannot resolve, and the conversion of field owners, which
//! keep the names of the fields in the version that wrote them.

mod cache;
mod component;
mod converter;
mod converters;
mod document_converter;
mod review;
mod store;
#[cfg(test)]
mod tests;
mod watch;
mod webhook;
mod write;

pub(crate) use component::ControllerCode;
pub(crate) use converters::Converters;
pub(crate) use store::ConvertingStore;
pub(crate) use webhook::check;

/// The `apiVersion` of reviews.
const API_VERSION: &str = "apiextensions.k8s.io/v1";
