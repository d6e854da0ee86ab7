//! Watches and applies resources with kube-rs, and prints each event or response as a JSON object in a line.

use std::collections::VecDeque;

use anyhow::{Context, Result, bail};
use futures_util::{StreamExt, pin_mut};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{WatchStreamExt, utils::Backoff};
use kube::{Client, Config, Error};
use serde_json::{Value, json};

const USAGE: &str = "follow SERVER GROUP/VERSION/KIND PLURAL list|stream, or \
    apply SERVER GROUP/VERSION/KIND PLURAL MANAGER whole|status yield|force DOCUMENT";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut words: VecDeque<String> = std::env::args().skip(1).collect();
    let mut word = || words.pop_front().context(USAGE);
    let (verb, server, kind, plural) = (word()?, word()?, word()?, word()?);
    let resources = resources(&server, &kind, &plural)?;
    match verb.as_str() {
        "follow" => follow(resources, word()? == "stream").await,
        "apply" => {
            let (manager, part, force, document) = (word()?, word()?, word()?, word()?);
            let parameters = PatchParams { force: force == "force", ..PatchParams::apply(&manager) };
            apply(&resources, &parameters, part == "status", serde_json::from_str(&document)?).await
        }
        _ => bail!(USAGE),
    }
}

/// Returns the resources of a kind in the namespace `default`.
fn resources(server: &str, kind: &str, plural: &str) -> Result<Api<DynamicObject>> {
    let (api_version, kind) = kind.rsplit_once('/').context(USAGE)?;
    let (group, version) = api_version.split_once('/').context(USAGE)?;
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    };
    let client = Client::try_from(Config::new(server.parse()?))?;
    Ok(Api::namespaced_with(client, "default", &resource))
}

/// Prints every change until the process is killed. Prints errors too, and retries.
async fn follow(resources: Api<DynamicObject>, streams: bool) -> Result<()> {
    let config = if streams { watcher::Config::default().streaming_lists() } else { watcher::Config::default() };
    let events = watcher(resources, config).backoff(Soon);
    pin_mut!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => say(&json!({ "event": "init" })),
            Ok(Event::InitApply(object)) => print_event("init-apply", &object),
            Ok(Event::InitDone) => say(&json!({ "event": "init-done" })),
            Ok(Event::Apply(object)) => print_event("apply", &object),
            Ok(Event::Delete(object)) => print_event("delete", &object),
            Err(error) => say(&json!({ "event": "error", "message": error.to_string() })),
        }
    }
    Ok(())
}

async fn apply(
    resources: &Api<DynamicObject>,
    parameters: &PatchParams,
    of_status: bool,
    document: Value,
) -> Result<()> {
    let name = document["metadata"]["name"].as_str().context("metadata.name is missing")?.to_owned();
    let patch = Patch::Apply(document);
    let applied = if of_status {
        resources.patch_status(&name, parameters, &patch).await
    } else {
        resources.patch(&name, parameters, &patch).await
    };
    match applied {
        Ok(object) => say(&json!({ "applied": object })),
        Err(Error::Api(status)) => say(&json!({ "refused": status })),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// A constant backoff of 50 ms, because tests wait for it.
struct Soon;

impl Iterator for Soon {
    type Item = std::time::Duration;

    fn next(&mut self) -> Option<Self::Item> {
        Some(std::time::Duration::from_millis(50))
    }
}

impl Backoff for Soon {
    fn reset(&mut self) {}
}

fn print_event(event: &str, object: &DynamicObject) {
    say(&json!({
        "event": event,
        "name": object.metadata.name,
        "revision": object.metadata.resource_version,
        "text": object.data["spec"]["text"],
    }));
}

#[expect(clippy::print_stdout, reason = "this is what the program is for")]
fn say(line: &Value) {
    println!("{line}");
}
