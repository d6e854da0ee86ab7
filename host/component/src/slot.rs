//! The named place that holds the current component.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::Component;

/// Holds one component, which can be replaced at any moment. Reading never waits.
///
/// Who took a [`Loaded`] keeps it for as long as it likes: what runs finishes on the component that it began with.
#[derive(Debug)]
pub struct Slot {
    current: ArcSwap<Loaded>,
}

/// A component and its number in the slot.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The component.
    pub component: Component,
    /// Counts the components that this slot has held, from 1.
    pub generation: u64,
}

impl Slot {
    /// Puts the first component in; its generation is 1.
    pub fn new(component: Component) -> Self {
        Self { current: ArcSwap::from_pointee(Loaded { component, generation: 1 }) }
    }

    /// Returns the component of now.
    pub fn current(&self) -> Arc<Loaded> {
        self.current.load_full()
    }

    /// Puts another component in, and returns its generation. Swaps at the same time get different generations; the highest stays.
    pub fn swap(&self, component: Component) -> u64 {
        let previous =
            self.current.rcu(|current| Loaded { component: component.clone(), generation: current.generation + 1 });
        previous.generation + 1
    }
}

#[cfg(test)]
mod tests;
