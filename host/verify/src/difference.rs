//! Where two traces of one key part, and who was the first to differ.

use std::fmt;

use homeostat_component::{Answer, Effect, Fault, Outcome};

use crate::Trace;

/// The first difference of two traces. What comes after follows from it.
#[derive(Clone, Debug, PartialEq)]
pub enum TraceDifference {
    /// The guest asked for the same, and was told something else: the world differs.
    Answer {
        /// The number of the effect, from 0.
        at: usize,
        /// What it asked for.
        effect: Effect,
        /// What it was told before.
        was: Answer,
        /// What it was told now.
        is: Answer,
    },
    /// Having been told the same, the guest asked for something else: the guest differs. `None`: it asked for nothing more.
    Effect {
        /// The number of the effect, from 0.
        at: usize,
        /// What it asked for before.
        was: Option<Effect>,
        /// What it asks for now.
        is: Option<Effect>,
    },
    /// Having asked for and been told the same, the guest came to another result: the guest differs.
    Result {
        /// What it came to before.
        was: Result<Outcome, Fault>,
        /// What it comes to now.
        is: Result<Outcome, Fault>,
    },
}

impl TraceDifference {
    /// Returns whether the guest, not the world, was the first to differ.
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
            Self::Result { was, is } => write!(f, "the guest differs: it came to {was:?}, and now to {is:?}"),
        }
    }
}

/// Returns the first difference of two traces, or `None` when effects, answers and results are equal. Digests are not compared.
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
