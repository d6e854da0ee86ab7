//! The controller under test: a component in the sandbox of the host, or a native one.

use std::sync::Arc;

use async_trait::async_trait;
use homeostat_component::{CallSession, Component, ControllerSpec, Effects, Fault, Limits, Outcome};
use homeostat_store::{Key, Resource};

/// A controller that the simulator runs.
#[async_trait(?Send)]
pub trait Reconciler {
    /// Returns the description of the controller.
    fn describe(&self) -> &ControllerSpec;

    /// Reconciles a key once. Every effect goes to `effects`.
    async fn reconcile(&self, key: &Key, effects: Arc<dyn Effects>) -> Result<Outcome, Fault>;

    /// Maps a change, for a watch whose mapping is `guest`.
    async fn map(&self, watch: &str, changed: &Resource, effects: Arc<dyn Effects>) -> Result<Vec<Key>, Fault>;
}

/// A component in the sandbox of the host.
pub struct ComponentReconciler {
    component: Component,
    controller: Arc<str>,
    limits: Limits,
}

impl ComponentReconciler {
    /// Runs `component` under the name `controller` and under `limits`.
    pub fn new(component: Component, controller: &str, limits: Limits) -> Self {
        Self { component, controller: controller.into(), limits }
    }
}

#[async_trait(?Send)]
impl Reconciler for ComponentReconciler {
    fn describe(&self) -> &ControllerSpec {
        self.component.describe()
    }

    async fn reconcile(&self, key: &Key, effects: Arc<dyn Effects>) -> Result<Outcome, Fault> {
        let mut session = CallSession::new(&self.controller);
        self.component.reconcile(&mut session, key, &self.limits, effects).await.result
    }

    async fn map(&self, watch: &str, changed: &Resource, effects: Arc<dyn Effects>) -> Result<Vec<Key>, Fault> {
        self.component.map(&self.controller, watch, changed, &self.limits, effects).await.result
    }
}
