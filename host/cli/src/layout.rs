//! The names of the files and folders in a host's data folder.

/// The default data folder, below the folder of manifests.
pub(crate) const DATA: &str = ".homeostat";
/// The folder of components that controllers and their revisions name, below the data folder.
pub(crate) const COMPONENTS: &str = "components";
/// The folder of compiled components, in this user's cache or in a host's data.
pub(crate) const COMPILED: &str = "compiled";
/// The folder of pulled components, in this user's cache or in a host's data.
pub(crate) const PULLED: &str = "registry";
/// The file that remembers which content each far store had, in the data folder.
#[cfg_attr(
    not(any(feature = "kubernetes", feature = "nats")),
    expect(dead_code, reason = "stores that are far away read it")
)]
pub(crate) const CONTENTS: &str = "store-contents.json";
/// The file that remembers which kinds were moved between stores, in the data folder.
pub(crate) const MOVES: &str = "store-moves.json";
/// The store's file in the data folder.
pub(crate) const STORE: &str = "store.redb";
/// The file of the key that signs the tokens of service accounts, in the data folder.
pub(crate) const SERVICE_ACCOUNT_KEY: &str = "service-accounts.key";
