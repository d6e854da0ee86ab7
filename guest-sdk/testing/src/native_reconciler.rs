//! A native reconciler as the simulator runs it.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use async_trait::async_trait;
use homeostat_component::layers::SealedWorld;
use homeostat_component::{ControllerSpec, Effects, EntryPoint, Fault, Outcome};
use homeostat_sdk::bindings::mapper::exports::homeostat::reconciler::mapper::Guest as MapperGuest;
use homeostat_sdk::bindings::reconciler::exports::homeostat::reconciler::reconciler::Guest;
use homeostat_sdk::raw::types as wit;
use homeostat_sdk::testing::with_host;
use homeostat_sdk::{Mapper, Reconciler};
use homeostat_store::{Key, Resource};

use crate::convert;
use crate::native_host::NativeHost;

/// Maps a change for a watch.
pub(crate) type MapChange = fn(String, wit::Resource) -> Result<Vec<wit::Key>, wit::Failure>;

/// The reconciler `T`, called through its exports.
pub(crate) struct NativeReconciler<T> {
    spec: ControllerSpec,
    map: Option<MapChange>,
    reconciler: PhantomData<T>,
}

impl<T: Reconciler> NativeReconciler<T> {
    /// Describes the reconciler with these settings.
    pub(crate) fn new(config: &BTreeMap<String, String>) -> Self {
        let world = Arc::new(SealedWorld::new(config.clone()));
        let host = NativeHost::new(EntryPoint::Describe, None, world);
        let spec = convert::spec(with_host(Rc::new(host), <T as Guest>::describe));
        Self { spec, map: None, reconciler: PhantomData }
    }
}

impl<T: Reconciler + Mapper> NativeReconciler<T> {
    pub(crate) fn with_mapper(config: &BTreeMap<String, String>) -> Self {
        Self { map: Some(<T as MapperGuest>::map), ..Self::new(config) }
    }
}

#[async_trait(?Send)]
impl<T: Reconciler> homeostat_simulator::Reconciler for NativeReconciler<T> {
    fn describe(&self) -> &ControllerSpec {
        &self.spec
    }

    async fn reconcile(&self, key: &Key, effects: Arc<dyn Effects>) -> Result<Outcome, Fault> {
        let host = NativeHost::new(EntryPoint::Reconcile, Some(key.clone()), effects);
        let result = with_host(Rc::new(host), || <T as Guest>::reconcile(convert::to_key(key)));
        result.map(convert::outcome).map_err(convert::fault)
    }

    async fn map(&self, watch: &str, changed: &Resource, effects: Arc<dyn Effects>) -> Result<Vec<Key>, Fault> {
        let Some(map) = self.map else { return Ok(Vec::new()) };
        let resource = wit::Resource {
            key: convert::to_key(changed.key()),
            uid: changed.uid().to_owned(),
            revision: changed.revision().to_string(),
            generation: changed.generation(),
            json: changed.text().to_owned(),
        };
        let host = Rc::new(NativeHost::new(EntryPoint::Map, None, effects));
        let keys = with_host(host, || map(watch.to_owned(), resource)).map_err(convert::fault)?;
        Ok(keys.iter().map(convert::key).collect())
    }
}
