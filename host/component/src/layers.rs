//! Implementations of [`crate::Effects`] that wrap one another.
//!
//! The usual order, from the guest outwards: `Limited`, which belongs to one call, then those of its
//! controller: [`Roles`], [`Observed`], [`Granted`], the runtime's `KnownKinds`, [`Headers`], [`World`].
//! While a shadow runs, a [`Recorder`] is placed before [`Headers`]. A layer does not see what later ones add,
//! such as the secrets of `Headers`. [`SealedWorld`] is the world of `describe` and `convert`.
//! [`EmptyWorld`] replaces the world in measurements of the call alone.

mod empty_world;
mod granted;
mod http;
mod limited;
mod recorder;
mod sealed_world;
mod world;

pub use empty_world::EmptyWorld;
pub use granted::{DenialObserver, Granted, Observed, Roles};
pub use http::HttpClient;
pub(crate) use limited::{EffectTotals, LimitHit, Limited};
pub use recorder::Recorder;
pub use sealed_world::SealedWorld;
pub use world::{
    EnqueuedKey, FollowTarget, GuestEvent, GuestLogLine, Headers, Secrets, Sink, Terms, World, WriteEnd, WriteTerm,
};
