//! The example `uptime`: a guest monitors real sites through `wasi:http`, which go down and come back.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use homeostat_fixtures::{demo, demo_key};
use homeostat_runtime::events::EventFilter;
use homeostat_runtime::{ControllerState, Definition};
use homeostat_testing::eventually;
use homeostat_tests::{TestHost, guest};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A site that answers every request with an adjustable status code.
struct Site {
    address: SocketAddr,
    code: Arc<AtomicU16>,
    task: JoinHandle<()>,
}

impl Site {
    async fn at(address: &str) -> Self {
        let listener = eventually("the address to be free", async || TcpListener::bind(address).await.ok()).await;
        let (address, code) = (listener.local_addr().unwrap(), Arc::new(AtomicU16::new(200)));
        let task = tokio::spawn(serve(listener, code.clone()));
        Self { address, code, task }
    }

    fn goes_down(self) -> SocketAddr {
        self.task.abort();
        self.address
    }
}

async fn serve(listener: TcpListener, code: Arc<AtomicU16>) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 4096];
        if stream.read(&mut request).await.is_ok_and(|count| count > 0) {
            let answer =
                format!("HTTP/1.1 {} x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n", code.load(Ordering::SeqCst));
            // The client may have disconnected.
            drop(stream.write_all(answer.as_bytes()).await);
        }
    }
}

async fn uptime() -> TestHost {
    let test = TestHost::start().await;
    let grants = serde_json::from_value(json!({
        "resources": [{"kinds": ["demo.homeostat.dev/Monitor"], "verbs": ["get", "list", "watch", "update-status"]}],
        "http": [{"urls": ["http://127.0.0.1:*/*"], "methods": ["GET"], "addresses": ["loopback"]}]
    }))
    .unwrap();
    let component = test.load(&guest("uptime")).await;
    let overrides = homeostat_runtime::Overrides {
        backoff: Some(homeostat_component::BackoffSpec {
            base: std::time::Duration::from_millis(50),
            max: std::time::Duration::from_millis(500),
            retries_max: None,
        }),
        ..homeostat_runtime::Overrides::default()
    };
    test.host.put(Definition { grants, overrides, ..Definition::new("uptime", component) }).await.unwrap();
    eventually("the controller", async || (test.status("uptime").state == ControllerState::Ready).then_some(())).await;
    test
}

/// B5, B6: Failures in a row back off. A success with a requested delay resets them.
#[tokio::test(flavor = "multi_thread")]
async fn a_site_that_goes_down_and_comes_back_is_reported_both_times() {
    let test = uptime().await;
    let key = demo_key("Monitor", "site");
    let site = Site::at("127.0.0.1:0").await;
    let url = format!("http://{}/health", site.address);
    test.apply(demo("Monitor", "site", json!({"url": url, "every": "100ms", "timeout": "2s"}))).await;
    let up = test.until(&key, "is up", |document| document["status"]["state"] == "up").await;
    assert_eq!(up.document()["status"]["lastCode"], 200);
    assert!(up.document()["status"]["latencyMillis"].is_u64(), "{}", up.document()["status"]);

    site.code.store(503, Ordering::SeqCst);
    test.until(&key, "says 503", |document| {
        document["status"]["lastCode"] == 503 && document["status"]["state"] == "down"
    })
    .await;
    site.code.store(200, Ordering::SeqCst);
    test.until(&key, "is up again", |document| document["status"]["state"] == "up").await;

    let address = site.goes_down();
    test.until(&key, "is down", |document| document["status"]["state"] == "down").await;
    eventually("three failures in a row", async || {
        let entries = test.host.queue("uptime", 1).ok()?;
        entries.first().is_some_and(|entry| entry.failures >= 3).then_some(())
    })
    .await;
    let back = Site::at(&address.to_string()).await;
    test.until(&key, "is up after the outage", |document| document["status"]["state"] == "up").await;
    eventually("the failures to be forgotten", async || {
        let entries = test.host.queue("uptime", 1).ok()?;
        entries.first().is_some_and(|entry| entry.failures == 0).then_some(())
    })
    .await;
    back.goes_down();
}

/// W11: A failed check writes the status, and that write causes no check beside the one after the backoff.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_site_is_checked_once_per_backoff_and_not_after_status_writes() {
    let test = uptime().await;
    let key = demo_key("Monitor", "site");
    let nobody = Site::at("127.0.0.1:0").await.goes_down();
    test.apply(demo("Monitor", "site", json!({"url": format!("http://{nobody}/"), "every": "1h", "timeout": "2s"})))
        .await;
    let filter = EventFilter { key: Some(key.clone()), ..EventFilter::default() };
    let failures = || test.host.queue("uptime", 1).unwrap().first().map_or(0, |entry| u64::from(entry.failures));
    eventually("five failures", async || (failures() >= 5).then_some(())).await;
    test.host.suspend("uptime", true).unwrap();
    // The queue counts a failure only if its delay had ended. A needless check would make the two counts
    // differ.
    let tries = eventually("each try to be counted once", async || {
        let status = test.status("uptime");
        (status.counts.running == 0 && status.reconciles == failures()).then_some(status.reconciles)
    })
    .await;
    let told = test.host.events().list(&filter).into_iter().filter(|event| event.reason == "ReconcileFailed");
    assert_eq!(told.map(|event| event.count).sum::<u64>(), tries);
    assert_eq!(test.get(&key).await.unwrap().document()["status"]["checks"], tries);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_to_an_address_without_a_grant_is_denied() {
    let test = uptime().await;
    test.apply(demo("Monitor", "outside", json!({"url": "http://192.0.2.1/", "every": "1s", "timeout": "1s"}))).await;
    let line = eventually("the refusal in the log", async || {
        let lines = test.host.logs().tail(Some("uptime"), 0, 100);
        lines.into_iter().find(|line| line.message.contains("no grant for GET http://192.0.2.1/"))
    })
    .await;
    assert!(line.message.contains("urls:"), "the line names the missing grant: {}", line.message);
    assert_eq!(line.key, Some(demo_key("Monitor", "outside")));
}
