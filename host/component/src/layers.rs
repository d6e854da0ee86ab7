//! Implementations of [`crate::Effects`] that wrap one another, one file each.
//!
//! The usual order, from the guest outwards: [`Granted`], whatever records or disturbs, [`Headers`], [`World`]. What is added by an
//! inner layer, as the secrets by `Headers`, is never seen by an outer one.

mod granted;
mod headers;
mod http;
mod world;

pub use granted::Granted;
pub use headers::{Headers, Secrets};
pub use http::HttpClient;
pub use world::{Emitted, Followed, Line, Sink, World};
