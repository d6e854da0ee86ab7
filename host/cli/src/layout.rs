//! The names of the files and folders in a host's data folder.

/// Where the store is when nobody says otherwise: below the folder.
pub(crate) const DATA: &str = ".homeostat";
/// The folder of the components that controllers and their revisions name, beside it.
pub(crate) const COMPONENTS: &str = "components";
/// The folder of compiled components, below that of this user or of a host.
pub(crate) const COMPILED: &str = "compiled";
/// The folder of what was pulled, below that of this user or of a host.
pub(crate) const PULLED: &str = "registry";
/// The file below the host's folder of data.
pub(crate) const STORE: &str = "store.redb";
