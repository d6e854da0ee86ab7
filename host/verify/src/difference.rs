//! Compares two traces of one key, and finds whether the guest or the world differed first.

use std::fmt;

use homeostat_component::{Answer, Effect, Fault, Outcome};

use crate::Trace;

/// The first difference of two traces. All later ones follow from it.
#[derive(Clone, Debug, PartialEq)]
pub enum TraceDifference {
    /// After equal effects the answer differs: the world differs.
    Answer {
        /// The number of the effect, from 0.
        at: usize,
        /// The effect.
        effect: Effect,
        /// The previous answer.
        was: Answer,
        /// The current answer.
        is: Answer,
    },
    /// After equal answers the guest's next effect differs: the guest differs. `None` means that it had no
    /// further effect.
    Effect {
        /// The number of the effect, from 0.
        at: usize,
        /// The previous effect.
        was: Option<Effect>,
        /// The current effect.
        is: Option<Effect>,
    },
    /// All effects and answers are equal, but the guest's result differs: the guest differs.
    Result {
        /// The previous result.
        was: Result<Outcome, Fault>,
        /// The current result.
        is: Result<Outcome, Fault>,
    },
}

impl TraceDifference {
    /// Returns whether the guest, not the world, differed first.
    pub fn is_of_the_guest(&self) -> bool {
        !matches!(self, Self::Answer { .. })
    }
}

impl fmt::Display for TraceDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer { at, effect, was, is } => {
                write!(f, "the world differs: effect {at}, {effect:?}, was answered {was:?}, and is now {is:?}")
            }
            Self::Effect { at, was, is } => write!(f, "the guest differs: effect {at} was {was:?}, and is now {is:?}"),
            Self::Result { was, is } => write!(f, "the guest differs: its result was {was:?}, and is now {is:?}"),
        }
    }
}

/// Returns the first difference of two traces, or `None` if effects, answers and results are equal. Digests
/// are not compared.
pub fn difference(was: &Trace, is: &Trace) -> Option<TraceDifference> {
    let ends = was.exchanges.len().max(is.exchanges.len());
    for at in 0..ends {
        let (before, now) = (was.exchanges.get(at), is.exchanges.get(at));
        let (effect_before, effect_now) = (before.map(|it| &it.effect), now.map(|it| &it.effect));
        if effect_before != effect_now {
            return Some(TraceDifference::Effect { at, was: effect_before.cloned(), is: effect_now.cloned() });
        }
        if let (Some(before), Some(now)) = (before, now)
            && before.answer != now.answer
        {
            let (was, is) = (before.answer.clone(), now.answer.clone());
            return Some(TraceDifference::Answer { at, effect: now.effect.clone(), was, is });
        }
    }
    (was.result != is.result).then(|| TraceDifference::Result { was: was.result.clone(), is: is.result.clone() })
}

#[cfg(test)]
mod tests;
