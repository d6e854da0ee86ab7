//! The named place that holds what a controller runs now: component, grants, limits and settings, replaced together.

use std::sync::Arc;

use arc_swap::ArcSwap;
use homeostat_component::{Component, Effects};

use crate::{Definition, Settings};

/// Reading never waits. Who took a [`Loaded`] keeps it: what runs finishes on what it began with.
pub(crate) struct Slot {
    current: ArcSwap<Loaded>,
}

/// One definition, ready to run.
pub(crate) struct Loaded {
    pub(crate) definition: Definition,
    pub(crate) settings: Settings,
    /// The way out of its sandboxes: the world behind its grants.
    pub(crate) effects: Arc<dyn Effects>,
    /// Counts the components that this slot has held, from 1.
    pub(crate) generation: u64,
}

impl Loaded {
    pub(crate) fn component(&self) -> &Component {
        &self.definition.component
    }
}

impl Slot {
    pub(crate) fn new(first: Loaded) -> Self {
        Self { current: ArcSwap::from_pointee(first) }
    }

    pub(crate) fn current(&self) -> Arc<Loaded> {
        self.current.load_full()
    }

    pub(crate) fn put(&self, next: Loaded) {
        self.current.store(Arc::new(next));
    }
}
