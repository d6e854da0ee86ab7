//! The commands that talk to a running host, one file each.
//!
//! Each has its `Args` and a `run` that prints what was asked for. What goes wrong is an error; `exit` turns it into a code.

pub(crate) mod apply;
pub(crate) mod backup;
pub(crate) mod control;
pub(crate) mod delete;
pub(crate) mod describe;
pub(crate) mod events;
pub(crate) mod get;
pub(crate) mod grants;
pub(crate) mod keys;
pub(crate) mod kubeconfig;
pub(crate) mod logs;
pub(crate) mod queue;
pub(crate) mod rollout;
pub(crate) mod top;
mod words;
