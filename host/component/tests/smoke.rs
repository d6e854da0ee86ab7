use async_trait::async_trait;
use homeostat_component::*;
use homeostat_store::{Key, Kind};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

struct Fake(Mutex<Vec<Effect>>);
#[async_trait]
impl Effects for Fake {
    async fn perform(&self, _c: &Call, e: Effect) -> Answer {
        let mut l = self.0.lock().unwrap();
        if l.len() < 50 {
            l.push(e.clone());
        }
        match e {
            Effect::Get { key, .. } => { if key.name()=="gone" {return Answer::Resource(Err(StoreError::NotFound("x".into())));}
                let json = serde_json::json!({"apiVersion": key.kind().api_version(), "kind": key.kind().name, "metadata": {"name": key.name(), "namespace": key.namespace(), "uid":"u", "resourceVersion":"3"}, "spec": {"name":"Ann", "url": "https://example.com/x"}}).to_string();
                Answer::Resource(Ok(ResourceData{key, uid:"u".into(), revision:"3".into(), generation:1, json})) }
            Effect::List{..} => Answer::Page(Ok(PageData{items:vec![],revision:"3".into(),next:None})),
            Effect::Write(homeostat_store::Write::UpdateStatus{key, status, ..}) => Answer::Written(Ok(Written{resource: ResourceData{key, uid:"u".into(), revision:"4".into(), generation:1, json: serde_json::json!({"apiVersion":"demo.homeostat.dev/v1","kind":"X","metadata":{"name":"a","namespace":"d","uid":"u","resourceVersion":"4"},"spec":{"name":"Ann","url":"x"},"status":status}).to_string()}, change: None})),
            Effect::Write(_) => Answer::Written(Err(StoreError::Invalid("no".into()))),
            Effect::Follow{..}|Effect::FollowAll{..} => Answer::Done(Ok(())),
            Effect::Emit{..}|Effect::Log{..} => Answer::Unit,
            Effect::Config{..} => Answer::Config(vec![("items".into(),"a b c".into())]),
            Effect::Http(_) => Answer::Http(Ok(HttpResponse{status:200, headers:vec![("content-type".into(), Blob::from("text/plain"))], body: Blob::from("hello")})),
            Effect::WallClock|Effect::MonotonicClock => Answer::Nanoseconds(7),
            Effect::Random{bytes} => Answer::Bytes(Blob::from(vec![1;bytes as usize])),
        }
    }
}
fn load_bytes(n: &str) -> Vec<u8> {
    std::fs::read(format!("/tmp/tgt-sdk/wasm32-wasip2/release/{n}.wasm")).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn smoke() {
    let engine = Engine::new(EngineOptions::default()).unwrap();
    let grants = Grants::default();
    let http = Grants {
        http: vec![HttpGrant {
            urls: vec!["https://*".into()],
            methods: vec!["GET".into()],
            headers: Default::default(),
        }],
        ..Default::default()
    };
    for n in [
        "greeter",
        "guest_hostile",
        "guest_lifecycle",
        "guest_mapped",
        "guest_noop",
        "guest_poller",
        "guest_versioned",
        "guest_needy",
        "guest_wrong",
    ] {
        let t = Instant::now();
        match engine.load(load_bytes(n), &grants).await {
            Ok(c) => println!(
                "{n}: {:?} {:?}\n{:?}\n{}",
                t.elapsed(),
                c.exports(),
                c.facts(),
                serde_json::to_string(c.describe()).unwrap()
            ),
            Err(r) => println!("{n}: {:?} {r}", t.elapsed()),
        }
    }
    let who: Arc<str> = Arc::from("ctl");
    let h = engine.load(load_bytes("guest_hostile"), &grants).await.unwrap();
    let limits = Limits { deadline: Duration::from_secs(3), cpu: Duration::from_millis(300), ..Limits::default() };
    for n in [
        "well",
        "trap",
        "panic",
        "loop",
        "memory",
        "recurse",
        "calls",
        "log-flood",
        "event-flood",
        "fail",
        "fail-after",
        "fail-never",
        "huge-error",
        "huge-status",
        "bad-json",
        "foreign",
        "centuries",
        "again",
        "slow",
    ] {
        let fake = Arc::new(Fake(Mutex::default()));
        let key = Key::new(Kind::new("demo.homeostat.dev", "v1", "Hostile"), "default", n);
        let (h, who, limits, f) = (h.clone(), who.clone(), limits.clone(), fake.clone());
        let r = tokio::spawn(async move { h.reconcile(&who, &key, &limits, f).await }).await.unwrap();
        let mut s = format!("{r:?}");
        s.truncate(900);
        let mut e = serde_json::to_string(&fake.0.lock().unwrap().iter().take(3).collect::<Vec<_>>()).unwrap();
        e.truncate(300);
        println!("{n}: {s}\n    {e}");
    }
    let needy = engine.load(load_bytes("guest_needy"), &http).await.unwrap();
    let fake = Arc::new(Fake(Mutex::default()));
    let r = needy
        .reconcile(
            &who,
            &Key::new(Kind::new("demo.homeostat.dev", "v1", "Needy"), "default", "a"),
            &limits,
            fake.clone(),
        )
        .await;
    println!("needy {r:?} {}", serde_json::to_string(&*fake.0.lock().unwrap()).unwrap());
    let p = engine.load(load_bytes("guest_poller"), &grants).await.unwrap();
    println!("poll {:?}", p.poll(&who, &limits, fake.clone()).await);
    let l = engine.load(load_bytes("guest_lifecycle"), &grants).await.unwrap();
    println!("start {:?}", l.start(&who, &limits, fake.clone()).await);
    println!("stop {:?}", l.stop(&who, &limits, fake.clone()).await);

    let noop = engine.load(load_bytes("guest_noop"), &grants).await.unwrap();
    let key = Key::new(Kind::new("demo.homeostat.dev", "v1", "Noop"), "default", "a");
    for _ in 0..3 {
        let t = Instant::now();
        for _ in 0..5000 {
            let r = noop.reconcile(&who, &key, &limits, fake.clone()).await;
            assert!(r.result.is_ok());
        }
        println!("noop {:?}", t.elapsed() / 5000);
    }
    println!("{:?}", noop.reconcile(&who, &key, &limits, fake.clone()).await);
    let g = engine.load(load_bytes("greeter"), &grants).await.unwrap();
    let key = Key::new(Kind::new("demo.homeostat.dev", "v1", "Greeting"), "default", "a");
    for _ in 0..3 {
        let t = Instant::now();
        for _ in 0..5000 {
            let r = g.reconcile(&who, &key, &limits, fake.clone()).await;
            assert!(r.result.is_ok(), "{r:?}");
        }
        println!("greeter {:?}", t.elapsed() / 5000);
    }
}
