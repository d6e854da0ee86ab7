//! Implementations of [`crate::Effects`] that wrap one another.
//!
//! The usual order, from the guest outwards: `Limited`, which belongs to one call, then those of its
//! controller: [`Roles`], [`Observed`], [`Granted`], the runtime's `KnownKinds`, [`Headers`], [`World`].
//! While a shadow runs, a [`Recorder`] is placed before [`Headers`]. A layer does not see what later ones add,
//! such as the secrets of `Headers`. [`DescribeWorld`] is the world of `describe`.
//! [`EmptyWorld`] replaces the world in measurements of the call alone.

mod describe_world;
mod empty_world;
mod granted;
mod http;
mod limited;
mod recorder;
mod world;

pub use describe_world::DescribeWorld;
pub use empty_world::EmptyWorld;
pub use granted::{DenialObserver, Granted, Observed, Roles};
pub use http::HttpClient;
pub(crate) use limited::{EffectTotals, LimitHit, Limited};
pub use recorder::Recorder;
pub use world::{
    EnqueuedKey, FollowTarget, GuestEvent, GuestLogLine, Headers, Secrets, Sink, Terms, World, WriteEnd, WriteTerm,
};
