use std::sync::Arc;

use async_trait::async_trait;
use wasmtime::ResourceLimiter;
use wasmtime::component::ResourceTableError;

use super::super::State;
use crate::call::new_call;
use crate::call_context::CallContext;
use crate::effect::{Answer, Call, Effect, Effects, EntryPoint};
use crate::limits::LimitName;
use crate::limits::{Limits, WASM_PAGE_BYTES};

struct Silent;

#[async_trait]
impl Effects for Silent {
    async fn perform(&self, _: &Call, _: Effect) -> Answer {
        Answer::Unit
    }
}

fn with_state<T>(limits: &Limits, test: impl FnOnce(&mut State) -> T) -> T {
    let engine = wasmtime::Engine::default();
    let port = CallContext::new(new_call(&Arc::from("test"), EntryPoint::Reconcile, None), limits, Arc::new(Silent));
    test(State::store(&engine, Arc::new(port)).data_mut())
}

#[test]
fn all_memories_of_a_component_count_together() {
    let limits = Limits { memory_bytes_max: 100, ..Limits::default() };
    with_state(&limits, |state| {
        assert!(state.memory_growing(0, 60, None).unwrap());
        assert!(state.memory_growing(60, 70, None).unwrap());
        assert!(state.memory_growing(0, 30, None).unwrap());
        let error = state.memory_growing(30, 31, None).unwrap_err();
        assert!(error.to_string().contains("memory"), "{error}");
        assert_eq!(state.context.first_hit().unwrap().limit, LimitName::Memory);
        assert_eq!(state.context.cost().memory_bytes_max, 100);
    });
}

#[test]
fn pages_are_counted_when_a_memory_grows_but_not_when_it_starts() {
    let page = usize::try_from(WASM_PAGE_BYTES).unwrap();
    with_state(&Limits::default(), |state| {
        for pages in [17, 2] {
            assert!(state.memory_growing(0, pages * page, None).unwrap());
        }
        assert_eq!(state.context.cost().pages_grown, 0);
        assert!(state.memory_growing(17 * page, 18 * page, None).unwrap());
        assert!(state.memory_growing(2 * page, 5 * page, None).unwrap());
        assert_eq!(state.context.cost().pages_grown, 4);
    });
}

#[test]
fn table_elements_have_their_own_limit() {
    let limits = Limits { table_elements_max: 10, ..Limits::default() };
    with_state(&limits, |state| {
        assert!(state.table_growing(0, 10, None).unwrap());
        state.table_growing(0, 1, None).unwrap_err();
        assert_eq!(state.context.first_hit().unwrap().limit, LimitName::Tables);
    });
}

#[test]
fn a_table_too_large_for_the_pool_hits_the_limit_unlike_one_at_its_own_maximum() {
    with_state(&Limits::default(), |state| {
        assert!(state.table_growing(0, 2, Some(1)).unwrap());
        assert!(state.table_growing(0, 20_000, Some(20_000)).unwrap());
        state.table_growing(20_000, 20_001, Some(20_000)).unwrap_err();
        assert_eq!(state.context.first_hit().unwrap().limit, LimitName::Tables);
    });
}

#[test]
fn host_handles_of_a_guest_count_towards_the_limit_handles() {
    let limits = Limits { handles_max: 3, ..Limits::default() };
    with_state(&limits, |state| {
        for handle in 0..3 {
            state.table.push(handle).unwrap();
        }
        assert!(matches!(state.table.push(3), Err(ResourceTableError::Full)));
    });
}
