//! Errors of the runtime.

use homeostat_store::Key;

/// Why the runtime rejected a request.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No controller has this name.
    #[error("there is no controller `{0}`")]
    UnknownController(String),
    /// The host already has the maximum number of controllers.
    #[error("limit controllers: the host already has the maximum of {0} controllers")]
    TooManyControllers(usize),
    /// The host is stopping and accepts no changes.
    #[error("the host is stopping")]
    Stopping,
    /// A swap to a component that manages another kind. The keys on the queue would mean nothing to it.
    #[error("the new component manages {new}, the running one manages {old}: remove the controller and add it again")]
    ManagedKindChanged {
        /// The kind that the running component manages.
        old: String,
        /// The kind that the new component manages.
        new: String,
    },
    /// Another placement for a running controller: its workers and feeders belong to the former leases.
    #[error(
        "the placement of controller `{0}` cannot change while it runs: delete it and add it again, or restart the host"
    )]
    PlacementChanged(String),
    /// This host does not hold the lease under which the key runs.
    #[error("this host does not hold the lease of {key}: {}", held_by(.holder.as_deref()))]
    NotHolder {
        /// The key.
        key: Key,
        /// The identity of the holder, if one is known.
        holder: Option<String>,
    },
    /// The start hook of a new component failed.
    #[error("its start hook failed: {0}")]
    StartHook(String),
    /// The grants of a controller do not cover a watch that its component requires.
    #[error(transparent)]
    Refused(#[from] homeostat_component::LoadError),
    /// The keys of a feeder do not fit the managed kind.
    #[error("the feeder `{feeder}` cannot run: {reason}")]
    Feeder {
        /// The feeder.
        feeder: String,
        /// The reason, for a person.
        reason: String,
    },
    /// No grant of the controller covers a watch of this key.
    #[error("no grant lets the controller watch {0}")]
    NotGranted(Key),
    /// Two components declare one kind differently.
    #[error("the kind {kind} is already declared differently: {difference}")]
    KindDiffers {
        /// The kind.
        kind: String,
        /// The difference.
        difference: String,
    },
    /// The kind of a document is not declared.
    #[error("the kind {kind} is not known here{}", near(.similar))]
    UnknownKind {
        /// The kind that the document names.
        kind: String,
        /// Declared kinds with similar names.
        similar: Vec<String>,
    },
    /// A resource of a namespace that does not exist.
    #[error("namespaces {0:?} not found")]
    MissingNamespace(String),
    /// A new resource of a namespace that is being deleted.
    #[error(
        "{resource} is forbidden: unable to create new content in namespace {namespace} because it is being terminated"
    )]
    TerminatingNamespace {
        /// The resource, as `configmaps "a"`.
        resource: String,
        /// The namespace.
        namespace: String,
    },
    /// What an admission plug-in of Kubernetes refuses, in its words.
    #[error("{0}")]
    Forbidden(String),
    /// An admission webhook refuses a write, or could not be called: the `Status` that a client of Kubernetes gets.
    #[error("{}", .0["message"].as_str().unwrap_or_default())]
    Rejected(Box<serde_json::Value>),
    /// A document whose namespace does not fit its kind, or that lacks required metadata.
    #[error("{0}")]
    BadDocument(String),
    /// The key is not on the queue.
    #[error("{0} is not on the queue; `homeostat enqueue` puts it there")]
    UnknownKey(Key),
    /// The key is running, and no re-run is pending that could be moved.
    #[error("{0} is running, and no further run of it is queued")]
    NothingQueued(Key),
    /// A parked key has no due time that could be moved.
    #[error("{0} is parked: `homeostat retry` and `homeostat queue expedite` run it again")]
    GivenUp(Key),
    /// The queue is full and does not have this key.
    #[error("limit keys: the queue of controller `{0}` is full")]
    NoRoom(String),
    /// While a controller is suspended except for deletions, no other key can go first.
    #[error("controller `{0}` is suspended except for deletions: no other key can go first")]
    DeletionsFirst(String),
    /// The kind of the key is not the managed one.
    #[error("controller `{controller}` manages {manages}, not {asked}")]
    NotManaged {
        /// The controller.
        controller: String,
        /// The kind that it manages.
        manages: String,
        /// The kind of the key.
        asked: String,
    },
    /// The kind is reserved: a component names it, or a definition declares it.
    #[error("the kind {0} is reserved for the host")]
    ReservedKind(String),
    /// A client writes a resource that only the host writes.
    #[error("resources of the kind {0} can only be read: the host itself writes them")]
    ReadOnlyKind(String),
    /// The controller has no revision to roll back to, or none with this number.
    #[error("controller `{controller}` has no {}", numbered(*.number))]
    NoRevision {
        /// The controller.
        controller: String,
        /// The requested number; `None` for the previous revision.
        number: Option<u64>,
    },
    /// A paused controller accepts no changes.
    #[error("controller `{0}` is paused: resume it first, with `homeostat rollout resume {0}`")]
    Paused(String),
    /// The HTTP client for guests could not be created.
    #[error("cannot create the HTTP client for guests")]
    Component(#[from] homeostat_component::Error),
    /// The store rejected the request, or failed.
    #[error("the store rejected the request")]
    Store(#[from] homeostat_store::Error),
}

impl Error {
    /// Refuses the write of a resource, in the words of Kubernetes. `resources` is the plural of its kind, as `pods`.
    pub(crate) fn forbidden(resources: &str, name: &str, reason: &str) -> Self {
        Self::Forbidden(format!("{resources} {name:?} is forbidden: {reason}"))
    }
}

fn held_by(holder: Option<&str>) -> String {
    holder.map_or_else(|| "no host holds it".to_owned(), |holder| format!("{holder:?} holds it"))
}

fn numbered(number: Option<u64>) -> String {
    number.map_or_else(|| "revision to roll back to".to_owned(), |number| format!("revision {number}"))
}

fn near(similar: &[String]) -> String {
    if similar.is_empty() { String::new() } else { format!("; did you mean {}?", similar.join(" or ")) }
}

/// Returns the result of a request; `None` if its resource does not exist.
pub(crate) fn found<R>(read: homeostat_store::Result<R>) -> homeostat_store::Result<Option<R>> {
    match read {
        Ok(resource) => Ok(Some(resource)),
        Err(homeostat_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
