//! What the runtime can refuse.

use homeostat_store::Key;

/// Why the runtime did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No controller has this name.
    #[error("there is no controller `{0}`")]
    UnknownController(String),
    /// A controller that would be one more than there may be.
    #[error("limit controllers: the host has {0} controllers, and may have no more")]
    TooManyControllers(usize),
    /// The host is stopping and takes no changes.
    #[error("the host is stopping")]
    Stopping,
    /// A swap to a component that manages another kind. Its queue would hold keys that mean nothing to it.
    #[error("the new component manages {new}, the one that runs manages {old}: remove the controller and add it again")]
    ManagedKindChanged {
        /// What the running component manages.
        old: String,
        /// What the new one manages.
        new: String,
    },
    /// The start hook of a component that was to be put in failed.
    #[error("its start hook failed: {0}")]
    StartHook(String),
    /// A component must be told of changes that its grants do not let it be told of.
    #[error(transparent)]
    Refused(#[from] homeostat_component::LoadError),
    /// A key that the grants of its controller cover no watch of.
    #[error("no grant lets the controller watch {0}")]
    NotGranted(Key),
    /// Two components declare one kind differently.
    #[error("the kind {kind} is declared already, and differently: {difference}")]
    KindDiffers {
        /// The kind.
        kind: String,
        /// What differs.
        difference: String,
    },
    /// A document whose kind nobody declared.
    #[error("the kind {kind} is not known here{}", near(.similar))]
    UnknownKind {
        /// What the document says.
        kind: String,
        /// Kinds that look alike.
        similar: Vec<String>,
    },
    /// A document whose namespace does not fit its kind, or that lacks what every resource has.
    #[error("{0}")]
    BadDocument(String),
    /// The queue has no such key.
    #[error("{0} is not on the queue; `homeostat enqueue` puts it there")]
    UnknownKey(Key),
    /// A key that runs, and no further run of it is queued that could be moved.
    #[error("{0} is running, and no further run of it is queued")]
    NothingQueued(Key),
    /// A key that was given up has no due time that could be moved.
    #[error("{0} was given up: `homeostat retry` and `homeostat queue expedite` run it again")]
    GivenUp(Key),
    /// A queue that has as many keys as it may have, and not this one.
    #[error("limit keys: the queue of controller `{0}` has as many keys as it may have")]
    NoRoom(String),
    /// A controller whose keys are held back but for deletions lets no other key go first.
    #[error("controller `{0}` is suspended but for deletions: no other key can go before them")]
    DeletionsFirst(String),
    /// A key of a kind that is not the controller's.
    #[error("controller `{controller}` manages {manages}, not {asked}")]
    NotManaged {
        /// The controller.
        controller: String,
        /// What it manages.
        manages: String,
        /// The kind of the key.
        asked: String,
    },
    /// A component names a kind that the host has for itself, or somebody writes one that the host alone writes.
    #[error("the kind {0} is the host's own: nobody else can name or write it")]
    ReservedKind(String),
    /// A controller has no revision to go back to, or none of this number.
    #[error("controller `{controller}` has no {}", numbered(*.number))]
    NoRevision {
        /// The controller.
        controller: String,
        /// The number that was asked for; `None`: the one before.
        number: Option<u64>,
    },
    /// A controller that is paused takes no changes over.
    #[error("controller `{0}` is paused: resume it first, with `homeostat rollout resume {0}`")]
    Paused(String),
    /// What guests reach through the host could not be set up.
    #[error("the way out of the sandboxes cannot be set up")]
    Component(#[from] homeostat_component::Error),
    /// The store refused or failed.
    #[error("the store did not do it")]
    Store(#[from] homeostat_store::Error),
}

fn numbered(number: Option<u64>) -> String {
    number.map_or_else(|| "revision to go back to".to_owned(), |number| format!("revision {number}"))
}

fn near(similar: &[String]) -> String {
    if similar.is_empty() { String::new() } else { format!("; did you mean {}?", similar.join(" or ")) }
}
