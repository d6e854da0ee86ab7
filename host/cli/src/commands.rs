//! The commands that talk to a running host, one file each.
//!
//! Each file has its `Args` and a `run` that prints the result. Failures are errors; `exit` maps them to exit
//! codes.

pub(crate) mod apply;
pub(crate) mod backup;
pub(crate) mod control;
pub(crate) mod delete;
pub(crate) mod describe;
pub(crate) mod events;
pub(crate) mod get;
pub(crate) mod grants;
pub(crate) mod graph;
pub(crate) mod hosts;
pub(crate) mod keys;
pub(crate) mod kubeconfig;
pub(crate) mod logs;
pub(crate) mod queue;
mod resource_args;
pub(crate) mod rollout;
pub(crate) mod stores;
pub(crate) mod top;
mod unanswered;
