//! The bounds of the contract, as guests experience them.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use homeostat_store::Query;
use http_body_util::{BodyExt, Full};
use wasmtime::Store;
use wasmtime_wasi_http::{Error, WasiHttpHooks};

use super::HttpHooks;
use crate::bindings::{events as wit_events, log as wit_log, store as wit_store, types};
use crate::call::new_call;
use crate::call_context::CallContext;
use crate::call_context::State;
use crate::effect::{Answer, Call, Effect, Effects, EntryPoint, HttpResponse, Level, PageData, Severity};
use crate::limits::{Limits, contract};

/// Records effects, and answers requests with the given number of bytes.
#[derive(Default)]
struct World {
    effects: Mutex<Vec<Effect>>,
    body_bytes: usize,
}

#[async_trait]
impl Effects for World {
    async fn perform(&self, _: &Call, effect: Effect) -> Answer {
        let answer = match &effect {
            Effect::Http(_) => {
                let body = vec![b'x'; self.body_bytes].into();
                Answer::Http(Ok(HttpResponse { status: 200, headers: Vec::new(), body }))
            }
            Effect::List { .. } => {
                Answer::Page(Ok(PageData { items: Vec::new(), revision: "1".to_owned(), next: None }))
            }
            _ => Answer::Unit,
        };
        self.effects.lock().unwrap().push(effect);
        answer
    }
}

impl World {
    fn last(&self) -> Effect {
        self.effects.lock().unwrap().pop().unwrap()
    }
}

fn port(limits: &Limits, world: &Arc<World>) -> Arc<CallContext> {
    Arc::new(CallContext::new(new_call(&Arc::from("test"), EntryPoint::Reconcile, None), limits, world.clone()))
}

fn store(world: &Arc<World>) -> Store<State> {
    State::store(&wasmtime::Engine::default(), port(&Limits::default(), world))
}

#[tokio::test]
async fn an_event_is_truncated_at_the_bounds_of_the_contract() {
    let world = Arc::<World>::default();
    let (reason, message) = ("R".repeat(1000), "m".repeat(10_000));
    let mut store = store(&world);
    wit_events::Host::emit(store.data_mut(), wit_events::Severity::Warning, reason, message, None).await.unwrap();
    let Effect::Emit { severity, reason, message, .. } = world.last() else { panic!("no event") };
    assert_eq!(severity, Severity::Warning);
    assert_eq!(reason.len(), contract::EVENT_REASON_BYTES_MAX);
    assert_eq!(message.len(), contract::EVENT_MESSAGE_BYTES_MAX);
}

#[tokio::test]
async fn a_log_line_is_truncated_at_the_bounds_of_the_contract() {
    let world = Arc::<World>::default();
    let fields = vec![("name".to_owned(), "value".to_owned()); 100];
    let mut store = store(&world);
    wit_log::Host::write(store.data_mut(), wit_log::Level::Info, "m".repeat(10_000), fields).await.unwrap();
    let Effect::Log { level, message, fields } = world.last() else { panic!("no line") };
    assert_eq!((level, message.len()), (Level::Info, contract::LOG_MESSAGE_BYTES_MAX));
    assert_eq!(fields.len(), contract::LOG_FIELDS_MAX);
}

#[tokio::test]
async fn a_page_has_at_most_the_items_that_the_contract_allows() {
    let world = Arc::<World>::default();
    let mut store = store(&world);
    let mut list = async |limit| {
        let kind = types::Kind { group: String::new(), version: "v1".to_owned(), name: "Pod".to_owned() };
        let selector = types::Selector { namespace: None, labels: Vec::new(), fields: Vec::new(), owner: None };
        wit_store::Host::list(store.data_mut(), kind, selector, types::View::Whole, limit, None).await.unwrap()
    };
    for limit in [None, Some(contract::LIST_ITEMS_MAX)] {
        list(limit).await.unwrap();
        let Effect::List { query, .. } = world.last() else { panic!("no list") };
        assert_eq!(query.limit, Some(contract::LIST_ITEMS_MAX as usize), "{limit:?}");
    }
    for limit in [0, contract::LIST_ITEMS_MAX + 1] {
        assert!(matches!(list(Some(limit)).await, Err(types::StoreError::Invalid(_))), "{limit}");
    }
    assert!(world.effects.lock().unwrap().is_empty(), "nobody is asked");
}

#[tokio::test]
async fn a_live_read_is_the_plain_effect_with_a_mark() {
    let world = Arc::<World>::default();
    let mut store = store(&world);
    let kind = || types::Kind { group: String::new(), version: "v1".to_owned(), name: "Pod".to_owned() };
    let selector = || types::Selector { namespace: None, labels: Vec::new(), fields: Vec::new(), owner: None };
    wit_store::Host::list(store.data_mut(), kind(), selector(), types::View::Keys, None, None).await.unwrap().unwrap();
    let Effect::List { query: plain, .. } = world.last() else { panic!("no list") };
    wit_store::Host::list_live(store.data_mut(), kind(), selector(), types::View::Keys, None, None)
        .await
        .unwrap()
        .unwrap();
    let Effect::List { query, .. } = world.last() else { panic!("no list") };
    assert!(!plain.live);
    assert_eq!(query, Query { live: true, ..plain });
}

#[tokio::test]
async fn bodies_of_requests_and_of_their_answers_have_a_bound() {
    let limits = Limits { http_body_bytes_max: 1000, ..Limits::default() };
    for (asked, answered, wanted) in [(1000, 1000, "200"), (1001, 0, "request"), (0, 1001, "response")] {
        let world = Arc::new(World { body_bytes: answered, ..World::default() });
        let body = Full::new(Bytes::from(vec![b'x'; asked])).map_err(|never| match never {}).boxed_unsync();
        let request = ::http::Request::builder().uri("https://example.com/").body(body).unwrap();
        let io = Box::new(async { Ok(()) });
        let sent = Box::into_pin(HttpHooks::new(port(&limits, &world)).send_request(request, None, io)).await;
        let came = match sent {
            Ok((response, _)) => response.status().as_u16().to_string(),
            Err(Error::HttpRequestBodySize(Some(1000))) => "request".to_owned(),
            Err(Error::HttpResponseBodySize(Some(1000))) => "response".to_owned(),
            Err(other) => format!("{other:?}"),
        };
        assert_eq!(came, wanted);
        assert_eq!(world.effects.lock().unwrap().is_empty(), wanted == "request", "what is too large is not sent");
    }
}
