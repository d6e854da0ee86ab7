//! The checks of stores on real servers: what `homeostat stores check` and a host warn of.

use std::path::Path;

use homeostat_tests::{Cluster, HostProcess, Output, run, run_with, shared_cluster, shared_nats};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::contents::until_state;
use super::hosts::file;

/// A folder whose file of stores has these settings.
fn folder(store: &Value) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let routes = [("far.dev/*", store["name"].as_str().unwrap())];
    let text = file(std::slice::from_ref(store), &routes).to_string();
    std::fs::write(folder.path().join("stores.yaml"), text).unwrap();
    folder
}

fn check(folder: &Path) -> Output {
    run(&["stores", "check", folder.to_str().unwrap()])
}

/// Returns a store with one replica in files of the shared server.
fn one_replica(bucket: &str, accept: &[&str]) -> Value {
    let nats = json!({
        "servers": [shared_nats().url()], "bucket": bucket, "create": {"replicas": 1}, "accept": accept,
    });
    json!({"name": "bus", "nats": nats})
}

/// The names of the settings that lose acknowledged writes when one server is lost.
const RISKS: [&str; 2] = ["replicas", "sync-interval"];

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn a_host_and_the_check_warn_of_settings_that_lose_acknowledged_writes() {
    let (folder, scratch) = (folder(&one_replica("checked-risks", &[])), tempfile::tempdir().unwrap());
    // The host makes the bucket.
    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    let notes = until_state(&host, "bus", "Ready")["notes"].clone();
    let notes: Vec<&str> = notes.as_array().unwrap().iter().map(|note| note.as_str().unwrap()).collect();
    for risk in RISKS {
        assert!(notes.iter().any(|note| note.starts_with(&format!("{risk}: "))), "{risk} is not in {notes:?}");
        host.wait_for_stderr(&format!("{risk}: "));
    }
    host.terminate();
    let checked = check(folder.path());
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    assert!(checked.stdout.starts_with("store/bus (nats): it can be used\n"), "{}", checked.stdout);
    for risk in RISKS {
        assert!(checked.stdout.contains(&format!("\n  warned: {risk}: ")), "{risk} is not in {}", checked.stdout);
    }
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn a_risk_that_the_operator_has_accepted_is_not_warned_of() {
    let (folder, scratch) = (folder(&one_replica("checked-accepted", &RISKS)), tempfile::tempdir().unwrap());
    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    let notes = until_state(&host, "bus", "Ready")["notes"].to_string();
    assert!(RISKS.iter().all(|risk| !notes.contains(risk)), "{notes}");
    host.terminate();
    assert_eq!(check(folder.path()).stdout, "store/bus (nats): it can be used\n");
}

#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn the_check_of_a_cluster_warns_of_a_missing_right_and_refuses_strangers() {
    let cluster = shared_cluster();
    let checked = |token: String| {
        let kubeconfig = cluster.kubeconfig_with(&cluster.url(), &json!({ "token": token }));
        check(folder(&json!({"name": "cluster", "kubernetes": {"kubeconfig": kubeconfig}})).path())
    };
    const USABLE: &str = "store/cluster (kubernetes): it can be used\n";
    let admin = checked(Cluster::token("admin"));
    assert_eq!((admin.code, &*admin.stdout), (Some(0), USABLE), "{}", admin.stderr);
    // No test gives this user a right in the shared cluster.
    let eve = checked(Cluster::token("eve"));
    assert_eq!(eve.code, Some(0), "{}", eve.stderr);
    let finding = eve.stdout.strip_prefix(USABLE).unwrap_or_else(|| panic!("{}", eve.stdout));
    assert!(finding.starts_with("  warned: the host may not read the namespace kube-system"), "{finding}");
    let stranger = checked("token-of-nobody".to_owned());
    assert_eq!(stranger.code, Some(1), "{}", stranger.stderr);
    assert!(stranger.stdout.starts_with("store/cluster (kubernetes): it cannot be used: "), "{}", stranger.stdout);
}

/// The variable names two files, and the settings name a context that only both together explain.
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[test]
fn the_files_of_kubeconfig_are_merged_and_the_context_chooses_among_them() {
    let cluster = shared_cluster();
    let files = tempfile::tempdir().unwrap();
    let paths = super::kubernetes::two_kubeconfigs(cluster, files.path());
    let variable = std::env::join_paths(&paths).unwrap().into_string().unwrap();
    let checked = |settings: Value| {
        let folder = folder(&json!({"name": "cluster", "kubernetes": settings}));
        let environment = [("KUBECONFIG", &*variable)];
        run_with(&["stores", "check", folder.path().to_str().unwrap()], &environment)
    };
    let second = checked(json!({"context": "second"}));
    assert_eq!((second.code, &*second.stdout), (Some(0), "store/cluster (kubernetes): it can be used\n"));
    let current = checked(json!({}));
    assert_eq!(current.code, Some(1), "the current context is that of the first file: {}", current.stdout);
}
