//! A world without content, which answers at once.

use async_trait::async_trait;

use crate::effect::{Answer, Call, Effect, Effects, HttpError, StoreError};

/// A world without content, to measure the cost of a call alone.
///
/// Every resource is missing, events and log lines are dropped, clocks stand at zero, and no address can be
/// reached.
#[derive(Clone, Copy, Debug)]
pub struct EmptyWorld;

#[async_trait]
impl Effects for EmptyWorld {
    async fn perform(&self, _: &Call, effect: Effect) -> Answer {
        let gone = || StoreError::NotFound("nothing is here".to_owned());
        match effect {
            Effect::Get { .. } => Answer::Resource(Err(gone())),
            Effect::List { .. } => Answer::Page(Err(gone())),
            Effect::Write(_) => Answer::Written(Err(gone())),
            Effect::Follow { .. } | Effect::FollowAll { .. } | Effect::Enqueue { .. } | Effect::Reach(_) => {
                Answer::Done(Err(gone()))
            }
            Effect::Emit { .. } | Effect::Log { .. } => Answer::Unit,
            Effect::Config { .. } => Answer::Config(Vec::new()),
            Effect::Http(_) => Answer::Http(Err(HttpError::Unreachable("nothing is here".to_owned()))),
            // The runtime of Go refuses to start with a clock that reads zero.
            Effect::WallClock | Effect::MonotonicClock => Answer::Nanoseconds(1),
            Effect::Random { bytes } => Answer::Bytes(vec![0; bytes as usize].into()),
        }
    }
}
