//! The tests over several crates, with real guests, files and processes.

#![expect(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod admission_policies;
mod admission_webhooks;
mod apps;
mod backup;
mod bombs;
mod built_in;
mod canary;
mod cases;
mod changes;
mod cli;
mod clients;
mod commands;
mod comparison;
mod composition;
mod conformance;
mod contract;
mod controllers;
mod conversion;
mod costs;
mod crash;
mod cron_feeder;
mod delays;
mod discovery;
mod distribution;
mod documents;
mod effects;
mod elector;
mod end_to_end;
mod exposure;
mod fairness;
mod feeders;
mod file_feeder;
mod files;
mod fleet;
mod flood;
mod grants;
mod hostile;
mod inbox;
mod informer;
mod journey;
mod kinds;
mod kube;
mod kubectl;
mod languages;
mod lean;
mod limits;
mod malformed;
mod metrics;
mod modules;
mod nats_feeder;
mod neighbours;
mod new_pods;
mod operators;
mod outlived;
mod packages;
mod private;
mod projects;
mod protobuf;
mod python;
mod queue;
mod reads;
mod registry;
mod review_server;
mod roles;
mod rollout;
mod rules;
mod scopes;
mod secrets;
mod servers;
mod shadow;
mod simulation;
mod statuses;
mod stores;
mod swap;
mod tables;
mod testenv;
mod tls;
mod toolchains;
mod tools;
mod uptime;
mod walls;
mod warm;
mod webhooks;
mod wire;

/// Every file beside this one is a module, so that all its tests run.
#[test]
fn every_file_is_a_module() {
    let source = include_str!("main.rs");
    let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/it")).unwrap();
    for entry in folder {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("main.rs") {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            assert!(source.contains(&format!("mod {name};")), "{name}.rs is no module of the tests");
        }
    }
}
