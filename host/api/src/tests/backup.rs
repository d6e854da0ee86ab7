//! Backups and their readers.

use std::sync::Arc;

use homeostat_store::embedded::EmbeddedStore;
use homeostat_store::{Store, Write};

use super::*;
use crate::ServerBackend;

const BACKUP: &str = "/homeostat/v1/backup";

/// A server with an embedded store that is larger than the socket buffers.
async fn large(options: Options) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(EmbeddedStore::open(folder.path().join("store"), StoreOptions::default()).unwrap());
    for at in 0..8 {
        let document = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": format!("map-{at}") },
            "data": { "text": "x".repeat(900_000) },
        });
        store.write(Write::Create { document }).await.unwrap();
    }
    let engine = Engine::new(EngineOptions { instances_max: 1, ..EngineOptions::default() }).unwrap();
    let host = Host::start(HostOptions::new(engine, store.clone())).await.unwrap();
    let served = ServerBackend { backups: Some(store), ..ServerBackend::from(host.clone()) };
    let address = format!("unix:{}", folder.path().join("host.sock").display());
    let handle = serve(Options { address, ..options }, served).await.unwrap();
    Server { host, handle, _folder: folder }
}

#[tokio::test]
async fn a_backup_without_a_reader_delays_others_for_a_bounded_time() {
    let server = large(Options { stall_ms_max: 300, ..Options::default() }).await;
    let idle = server.send("GET", BACKUP, "", "").await;
    assert_eq!(idle.status(), 200);
    let refused = server.send("GET", BACKUP, "", "").await;
    assert_eq!(refused.status(), 429);
    assert!(refused.headers()["retry-after"].to_str().unwrap().parse::<u64>().is_ok());
    let second = async {
        loop {
            let response = server.send("GET", BACKUP, "", "").await;
            if response.status() == 200 {
                return response;
            }
            response.into_body().collect().await.unwrap();
        }
    };
    let second = soon(second).await;
    let length: usize = second.headers()["content-length"].to_str().unwrap().parse().unwrap();
    assert_eq!(second.into_body().collect().await.unwrap().to_bytes().len(), length);
    assert!(idle.into_body().collect().await.is_err(), "it was cut off");
}
