//! A digest by which two stores can be compared: whether they have the same resources of a kind.

use xxhash_rust::xxh3::Xxh3;

use super::revision_offset::store_revision;
use crate::Resource;

/// The number and the digest of the resources of a kind: of their names, uids and revisions.
#[derive(Default)]
pub(crate) struct KindDigest {
    pub(crate) resources: u64,
    hash: Xxh3,
}

impl KindDigest {
    pub(crate) fn add(&mut self, resource: &Resource) {
        self.resources += 1;
        let (key, revision) = (resource.key(), store_revision(resource.revision()));
        self.hash.update(format!("{:?}", (key.namespace(), key.name(), resource.uid(), revision)).as_bytes());
    }

    pub(super) fn text(&self) -> String {
        format!("{:032x}", self.hash.digest128())
    }
}
