//! Implementations of [`crate::Effects`] that wrap one another, one file each.
//!
//! The usual order, from the guest outwards: `Limited` and `EffectCounter`, which belong to one call, then
//! those of its controller: [`Roles`], [`Observed`], [`Granted`], the runtime's `Declared`, [`Headers`],
//! [`World`]. While a shadow runs, a [`Recorder`] is placed before [`Headers`]. Outer layers do not see
//! additions of inner ones, such as the secrets of `Headers`. [`EmptyWorld`] replaces the world in
//! measurements of the call alone.

mod effect_counter;
mod empty_world;
mod granted;
mod http;
mod limited;
mod recorder;
mod world;

pub(crate) use effect_counter::{EffectCounter, EffectTotals};
pub use empty_world::EmptyWorld;
pub use granted::{DenialObserver, Granted, Observed, Roles};
pub use http::HttpClient;
pub(crate) use limited::{LimitHit, Limited};
pub use recorder::Recorder;
pub use world::{FollowTarget, GuestEvent, GuestLogLine, Headers, Secrets, Sink, World};
