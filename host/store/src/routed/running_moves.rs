//! The steps of moves that are under way. [`crate::moves`] runs them.

use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use crate::{Kind, Result};

/// A step of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoveStep {
    /// Copies the resources to this store.
    Copy(Arc<str>),
    /// Removes the former resources from this store.
    Prune(Arc<str>),
}

/// How far a step is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MoveProgress {
    /// Resources of the kind, as far as they were counted.
    pub resources: u64,
    /// Resources that were written or removed, or would be.
    pub written: u64,
    /// Dependents of the kind whose references now name the store of the kind, or would.
    pub dependents: u64,
    /// Resources of others in a cluster, which a removal leaves there.
    pub others: u64,
    /// The end of the step; `None` while it is under way.
    pub end: Option<Result<()>>,
}

/// The steps that are under way.
#[derive(Default)]
pub(crate) struct RunningMoves(pub(crate) Mutex<Vec<RunningMove>>);

/// A step that is under way.
pub(crate) struct RunningMove {
    pub(crate) kind: Kind,
    pub(crate) step: MoveStep,
    pub(crate) is_dry_run: bool,
    pub(crate) progress: watch::Receiver<MoveProgress>,
}
