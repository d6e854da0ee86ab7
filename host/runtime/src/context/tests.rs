use homeostat_component::EngineOptions;
use homeostat_store::memory::MemoryStore;

use super::*;

/// A context over a store, with room for one guest.
pub(crate) fn context(store: Arc<MemoryStore>) -> Arc<Context> {
    let engine = Engine::new(EngineOptions { instances_max: 1, ..EngineOptions::default() }).unwrap();
    Arc::new(Context::new(Options::new(engine, store)).unwrap())
}
