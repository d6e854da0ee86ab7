//! The manifest of the hosts of a simulation, and the guest that it names.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use async_trait::async_trait;
use homeostat_component::{Component, Digest, Engine, EngineOptions};
use homeostat_fleet::{ShardBy, Shards};
use homeostat_runtime::CodeSource;
use homeostat_runtime::manifest::ComponentSource;
use homeostat_tests::guest;
use serde_json::{Value, json};

use super::NAME;

/// The guest of all hosts, compiled once.
pub(super) struct Code {
    pub(super) engine: Engine,
    pub(super) bytes: Vec<u8>,
    pub(super) component: Component,
}

pub(super) fn code() -> &'static Code {
    static LOADED: OnceLock<Code> = OnceLock::new();
    LOADED.get_or_init(|| {
        let bytes = std::fs::read(guest("guest-tally")).unwrap();
        let engine = Engine::new(EngineOptions { preemption: false, ..EngineOptions::default() }).unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let component = runtime.block_on(engine.load(bytes.clone())).unwrap();
        Code { engine, bytes, component }
    })
}

/// Returns the guest for every manifest.
pub(super) struct TallyCode;

#[async_trait]
impl CodeSource for TallyCode {
    async fn fetch(&self, _: &ComponentSource) -> Result<Vec<u8>, String> {
        Ok(code().bytes.clone())
    }

    async fn sweep(&self, _: &BTreeSet<Digest>) {}
}

/// The settings in the manifest of the controller.
#[derive(Clone, Copy)]
pub(super) struct Manifest {
    pub(super) placement: Placement,
    pub(super) version: u64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Placement {
    Singleton,
    Sharded(u32),
}

impl Placement {
    pub(super) fn shards(self) -> Shards {
        match self {
            Self::Singleton => Shards::SINGLETON,
            Self::Sharded(count) => Shards::new(count, ShardBy::Key).unwrap(),
        }
    }
}

impl Manifest {
    pub(super) fn document(self) -> Value {
        let placement = match self.placement {
            Placement::Singleton => json!("singleton"),
            Placement::Sharded(shards) => json!({"sharded": {"shards": shards}}),
        };
        // No canary fails: keys go back to an earlier version after a rollback alone.
        let gate = json!({
            "errors": "100%", "traps": 1_000_000, "limits": 1_000_000, "duration": "1000x", "writes": "1000x",
            "hotLoops": "1000x", "for": "10s", "reconciles": 1,
        });
        json!({
            "apiVersion": "homeostat.dev/v1alpha1",
            "kind": "Controller",
            "metadata": {"name": NAME},
            "spec": {
                "component": {"digest": code().component.digest().to_string()},
                "config": {"version": self.version.to_string()},
                "placement": placement,
                "concurrency": 3,
                "backoff": {"base": "5ms", "max": "5s"},
                "grants": {"resources": [{"kinds": ["*"], "verbs": ["*"], "namespaces": ["*"]}]},
                "rollout": {"strategy": "canary", "steps": ["10%", "50%"], "gate": gate},
            },
        })
    }
}
