//! The conformance suite of stores: the cases that every store has to pass.
//!
//! [`suite!`] declares all cases as tests for one store. A case gets a [`Make`], which makes its [`Fixture`]: the
//! store, and what the case may expect of it. Cases on one server do not meet: each fixture has a group of its own.
//!
//! A store may differ from the others where a [`Difference`] says so, and nowhere else. Then a case asserts the
//! weaker promise of `homeostat_store::Store`; on a store without the difference it asserts the stronger one.
//!
//! Deliberately absent: stores and servers. Cases about files, memory bounds and virtual time are beside the store
//! in a file.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod applies;
mod deletes;
mod fixture;
mod garbage;
mod histories;
mod lists;
mod managers;
mod names;
mod schemas;
mod suite;
mod verbs;
mod versions;
mod watches;
mod writes;

pub use fixture::{Definition, Difference, Fixture, KindServer, Make, Making, NAMESPACES, Setup};
pub use suite::cases;
pub use verbs::{
    at_once, create, delete, everything_of, in_order, is_gone, is_waiting, next, small_history, update, update_status,
    with_metadata,
};
