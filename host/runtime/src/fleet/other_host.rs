//! Another host of a fleet, and where it serves its API.

use homeostat_fleet::Identity;

use super::roster::SharingHost;

/// Another host of a fleet, as the records in the stores tell. Other hosts write them, so all texts are
/// theirs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OtherHost {
    /// Its name.
    pub name: String,
    /// The name of its present run.
    pub identity: String,
    /// Where it serves its API, of at most 255 bytes. `None` if no record tells.
    pub address: Option<String>,
}

impl OtherHost {
    /// Returns the host with an identity, with what the hosts that renew their leases tell.
    pub(super) fn of(identity: &Identity, hosts: &[SharingHost]) -> Self {
        let known = hosts.iter().find(|host| host.identity == *identity);
        Self::new(identity, known.and_then(|host| host.description.address.clone()))
    }

    pub(super) fn new(identity: &Identity, address: Option<String>) -> Self {
        Self { name: identity.host().to_owned(), identity: identity.to_string(), address }
    }
}
