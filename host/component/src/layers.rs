//! Implementations of [`crate::Effects`] that wrap one another, one file each.
//!
//! The usual order, from the guest outwards: `Limited` and `EffectCounter`, which every call has for itself, then those of its controller:
//! [`Roles`], [`Observed`], [`Granted`], the runtime's `Declared`, [`Headers`], [`World`]. While a shadow is tried, a [`Recorder`] stands before
//! [`Headers`]. What is added by an
//! inner layer, as the secrets by `Headers`, is never seen by an outer one. [`EmptyWorld`] takes the place of the world where only the call matters.

mod accounted;
mod granted;
mod headers;
mod http;
mod limited;
mod nothing;
mod observed;
mod recorder;
mod roles;
mod world;

pub(crate) use accounted::{EffectCounter, EffectTotals};
pub use granted::Granted;
pub use headers::{Headers, Secrets};
pub use http::HttpClient;
pub(crate) use limited::{LimitHit, Limited};
pub use nothing::EmptyWorld;
pub use observed::{DenialObserver, Observed};
pub use recorder::Recorder;
pub use roles::Roles;
pub use world::{FollowTarget, GuestEvent, GuestLogLine, Sink, World};
