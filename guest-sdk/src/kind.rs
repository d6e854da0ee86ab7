//! Types of resources, and the keys of single resources.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bindings::imports::homeostat::reconciler::types as wit;
use crate::host::store;
use crate::resource::{List, Patch, Propagation, Resource};
use crate::selector::Selector;
use crate::store_error::Error;

/// The key of one resource: its kind, its namespace and its name. Each reconcile is about one key.
///
/// `Display` writes it in the host's form: `apps/v1/Deployment default/web`.
pub use crate::bindings::imports::homeostat::reconciler::types::Key;

/// A type of resource, named by the Rust type of its `spec`.
///
/// [`#[derive(Resource)]`](derive@crate::Resource) implements it, with a schema. This is the same by hand:
///
/// ```
/// use homeostat_sdk::prelude::*;
///
/// #[derive(Serialize, Deserialize)]
/// struct Monitor {
///     url: String,
/// }
///
/// #[derive(Serialize, Deserialize)]
/// struct MonitorStatus {
///     state: String,
/// }
///
/// impl Kind for Monitor {
///     const API_VERSION: &str = "demo.homeostat.dev/v1";
///     const NAME: &str = "Monitor";
///     const PLURAL: &str = "monitors";
///     type Status = MonitorStatus;
/// }
/// ```
///
/// The Rust type names the fields that the controller uses. Other fields of a document are preserved: an
/// update writes only the differences. Each method counts as one effect, and needs the grant of the verb in
/// its name.
pub trait Kind: Serialize + DeserializeOwned {
    /// `group/version`, or the version alone for the core group: `apps/v1`, `v1`.
    const API_VERSION: &'static str;
    /// The kind's name in CamelCase: `Deployment`.
    const NAME: &'static str;
    /// The plural in lower case: `deployments`.
    const PLURAL: &'static str;
    /// Whether resources of this kind live in a namespace.
    const NAMESPACED: bool = true;
    /// Whether no resources of this kind are stored: the keys come from a [`Poller`](crate::Poller) or
    /// another feeder.
    const KEYS_ONLY: bool = false;
    /// The field of the document that the type describes: `data` for a `ConfigMap`.
    const FIELD: &'static str = "spec";

    /// The type of `status`; `()` for a kind that has none.
    type Status: Serialize + DeserializeOwned;

    /// Returns a structural schema of the document (OpenAPI v3), as text. The host fills in its defaults,
    /// drops unknown fields and rejects invalid documents. [`schema::document`](crate::schema::document) makes it from
    /// the Rust types. Without a schema, a document that does not fit the
    /// Rust type is [`Error::Malformed`] when it is read.
    #[must_use]
    fn schema() -> Option<String> {
        None
    }

    /// Returns the key of a resource of this kind. `namespace` is empty for kinds outside of namespaces.
    #[must_use]
    fn key(namespace: &str, name: &str) -> Key {
        Key { kind: kind_of::<Self>(), namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Reads one resource.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Forbidden`], [`Error::Invalid`] for a malformed key,
    /// [`Error::TooLarge`], [`Error::Unavailable`], and [`Error::Malformed`] when the document does not fit
    /// the type.
    fn get(key: &Key) -> Result<Resource<Self>, Error> {
        let found = store::get(key, wit::View::Whole)?;
        Resource::from_wit(&found)
    }

    /// Reads one resource; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// As [`Kind::get`], without [`Error::NotFound`].
    fn get_opt(key: &Key) -> Result<Option<Resource<Self>>, Error> {
        found(Self::get(key))
    }

    /// Reads one resource as [`Kind::get`] does, past every cache of the host: the server of a store that is far
    /// away answers. It costs a request to the server.
    ///
    /// # Errors
    ///
    /// As [`Kind::get`].
    fn get_live(key: &Key) -> Result<Resource<Self>, Error> {
        let found = store::get_live(key, wit::View::Whole)?;
        Resource::from_wit(&found)
    }

    /// Reads one resource as [`Kind::get_live`] does; `None` if it does not exist. Use it before deciding
    /// anything by the absence of a resource.
    ///
    /// # Errors
    ///
    /// As [`Kind::get_live`], without [`Error::NotFound`].
    fn get_live_opt(key: &Key) -> Result<Option<Resource<Self>>, Error> {
        found(Self::get_live(key))
    }

    /// Lists the resources that `selector` matches, ordered by namespace and name. Pages are read on demand.
    ///
    /// ```no_run
    /// # use homeostat_sdk::prelude::*;
    /// # fn pods<Pod: Kind>(parent: &Resource<Pod>) -> Result<(), Error> {
    /// let pods = Pod::list(Selector::everything().owned_by(parent)).all()?;
    /// # Ok(()) }
    /// ```
    fn list(selector: Selector) -> List<Self> {
        List::new(selector)
    }

    /// Changes the current document of a resource in place, except for its `status`.
    ///
    /// A controller without a read grant does not learn the result: the returned document has no `spec`,
    /// which is [`Error::Malformed`] for a type that requires one. The change has been made nevertheless.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], [`Error::Forbidden`], [`Error::Invalid`], [`Error::TooLarge`],
    /// [`Error::Unavailable`], [`Error::Malformed`].
    fn patch(key: &Key, patch: Patch) -> Result<Resource<Self>, Error> {
        let changed = store::patch(key, &patch.into_wit(), &wit::Precondition { uid: None, revision: None })?;
        Resource::from_wit(&changed)
    }

    /// Deletes a resource by its name. Returns whether it existed.
    ///
    /// [`Resource::delete`] is safer: it deletes only the resource that was read, not a new one with its
    /// name.
    ///
    /// # Errors
    ///
    /// [`Error::Forbidden`], [`Error::Unavailable`].
    fn delete(key: &Key, propagation: Propagation) -> Result<bool, Error> {
        crate::resource::delete(key, &wit::Precondition { uid: None, revision: None }, propagation)
    }
}

fn found<R>(read: Result<R, Error>) -> Result<Option<R>, Error> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(Error::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the kind as the contract's type.
pub(crate) fn kind_of<K: Kind>() -> wit::Kind {
    let (group, version) = split_api_version(K::API_VERSION);
    wit::Kind { group: group.to_owned(), version: version.to_owned(), name: K::NAME.to_owned() }
}

pub(crate) fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

impl Key {
    /// Returns the key of a resource of another kind with the name `name`, in the same namespace if that kind
    /// is namespaced.
    #[must_use]
    pub fn beside<K: Kind>(&self, name: &str) -> Key {
        K::key(if K::NAMESPACED { &self.namespace } else { "" }, name)
    }

    /// Returns whether it names a resource of kind `K`, in any version.
    #[must_use]
    pub fn is<K: Kind>(&self) -> bool {
        let (group, _) = split_api_version(K::API_VERSION);
        self.kind.group == group && self.kind.name == K::NAME
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name } = self;
        if !kind.group.is_empty() {
            write!(f, "{}/", kind.group)?;
        }
        write!(f, "{}/{} ", kind.version, kind.name)?;
        if !namespace.is_empty() {
            write!(f, "{namespace}/")?;
        }
        f.write_str(name)
    }
}
