//! A host embedded in your own program, with your own feeder.
//!
//! `cargo run -p embed -- path/to/greeter.wasm` greets the names on standard input, one name per line, and
//! ends with the input.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use homeostat_component::{Engine, EngineOptions, Grants};
use homeostat_runtime::{Definition, Feeder, FeederError, Host, Intake, Options, Priority};
use homeostat_store::memory::MemoryStore;
use homeostat_store::{Kind, Resource, Scope, Store, Watch};
use serde_json::json;
use tokio::sync::{Mutex, Notify, mpsc};

/// The maximum names read ahead.
const NAMES_MAX: usize = 16;
/// The time that greetings may take after the last name.
const DRAIN: Duration = Duration::from_secs(5);

/// Turns each name into a resource and its key.
struct Names {
    host: Host,
    names: Mutex<mpsc::Receiver<String>>,
    ended: Arc<Notify>,
}

impl Feeder for Names {
    fn name(&self) -> &str {
        "names"
    }

    async fn run(&self, intake: &Intake) -> Result<(), FeederError> {
        while let Some(name) = self.names.lock().await.recv().await {
            let document = json!({
                "apiVersion": "demo.homeostat.dev/v1", "kind": "Greeting",
                "metadata": {"name": name.to_lowercase()}, "spec": {"name": name}
            });
            match self.host.apply_resource(document, "embed", true).await {
                // The controller watches the kind as well: equal keys merge, so it runs once. If the queue is
                // full, the watch adds the key later.
                Ok(written) => {
                    let _told = intake.add(written.resource.key().clone(), Priority::NORMAL);
                }
                Err(error) => tell(&format!("{name} cannot be greeted: {:#}", anyhow::Error::from(error))),
            }
        }
        self.ended.notify_one();
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
    let component = host.load(std::fs::read(&path)?).await?;
    host.put(Definition { grants, ..Definition::new("greeter", component) }).await?;
    // A host that shuts down before the controller is ready drops queued keys.
    host.ready("greeter").await?;

    let greetings = Kind::new("demo.homeostat.dev", "v1", "Greeting");
    let telling = tokio::spawn(tell_greetings(
        store.watch(Scope::Kind(greetings), store.revision(&Scope::Everything).await?).await?,
    ));
    let (names, ended) = (Mutex::new(names()), Arc::new(Notify::new()));
    host.feed("greeter", Arc::new(Names { host: host.clone(), names, ended: ended.clone() }))?;

    ended.notified().await;
    // Queued keys still run; then the store closes, which ends the watch of the greetings.
    host.shutdown(DRAIN).await;
    tell(&format!("{} greeted", telling.await?));
    Ok(())
}

/// Reads standard input on its own thread: a read cannot be cancelled, and a thread need not be joined.
fn names() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(NAMES_MAX);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Prints every greeting until the store closes. Returns their number.
async fn tell_greetings(mut changes: Watch) -> usize {
    let mut greeted = 0;
    while let Ok(event) = changes.next().await {
        let (now, before) = (message(&event.resource), event.previous.as_deref().and_then(message));
        if let Some(text) = now.filter(|_| now != before) {
            greeted += 1;
            tell(&format!("{}: {text}", event.resource.key().name()));
        }
    }
    greeted
}

fn message(greeting: &Resource) -> Option<&str> {
    greeting.document()["status"]["message"].as_str()
}

#[expect(clippy::print_stdout, reason = "this is what the program is for")]
fn tell(line: &str) {
    println!("{line}");
}
