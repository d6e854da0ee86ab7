//! A host inside a program of your own, fed by a feeder of your own.
//!
//! `cargo run -p embed -- path/to/greeter.wasm` greets whoever is named on standard input, one name a line, and ends with the input.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use async_trait::async_trait;
use homeostat_component::{Engine, EngineOptions, Grants};
use homeostat_runtime::{Definition, Feeder, FeederError, Host, Intake, Options, Priority};
use homeostat_store::memory::MemoryStore;
use homeostat_store::{Kind, Scope, Store};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader, stdin};

/// Turns each line of standard input into a resource and its key.
struct Lines {
    host: Host,
}

#[async_trait]
impl Feeder for Lines {
    fn name(&self) -> &str {
        "lines"
    }

    async fn run(&self, intake: &Intake) -> Result<(), FeederError> {
        let mut lines = BufReader::new(stdin()).lines();
        while let Some(name) = lines.next_line().await.map_err(|error| FeederError(error.to_string()))? {
            let document = json!({
                "apiVersion": "demo.homeostat.dev/v1", "kind": "Greeting",
                "metadata": {"name": name.to_lowercase()}, "spec": {"name": name}
            });
            let fed = match self.host.apply_resource(document, "embed").await {
                // The controller watches the kind as well: equal keys merge, so it runs once.
                Ok(written) => intake.add(written.resource.key().clone(), Priority::NORMAL),
                Err(error) => return Err(FeederError(error.to_string())),
            };
            if !fed {
                return Ok(());
            }
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let path = std::env::args().nth(1).context("usage: embed COMPONENT.wasm")?;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(homeostat_store::Options::default()));
    let host = Host::start(Options::new(Engine::new(EngineOptions::default())?, store.clone())).await?;

    let grants: Grants = serde_json::from_value(json!({"resources": [
        {"kinds": ["demo.homeostat.dev/Greeting"], "verbs": ["get", "list", "watch", "update-status"]}
    ]}))?;
    let component = host.load(std::fs::read(&path)?, &grants).await?;
    host.put(Definition { grants, ..Definition::new("greeter", component) }).await?;

    let greetings = Kind::new("demo.homeostat.dev", "v1", "Greeting");
    let mut changes = store.watch(Scope::Kind(greetings), store.revision()).await?;
    host.feed("greeter", Arc::new(Lines { host: host.clone() }))?;
    let mut names = 0;
    while let Ok(Ok(event)) = tokio::time::timeout(Duration::from_secs(2), changes.next()).await {
        if let Some(message) = event.resource.document()["status"]["message"].as_str() {
            names += 1;
            tell(&format!("{}: {message}", event.resource.key().name()));
        }
    }
    tell(&format!("{names} greeted"));
    host.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "this is what the program is for")]
fn tell(line: &str) {
    println!("{line}");
}
