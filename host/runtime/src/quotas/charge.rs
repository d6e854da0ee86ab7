//! The charge of a write: the amounts that it adds to quotas, if these have room for it. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use homeostat_store::Resource;
use homeostat_store::schema::Quantity;
use serde_json::Value;

use super::scopes::match_all;
use super::usage::{CountedKind, of_container};
use crate::amounts::{AmountMap, Amounts, amounts_in, sum};

/// The limits that oblige each container to name its amount.
const OBLIGING: [&str; 6] = ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// Returns the quotas that a write changes, with their new statuses.
///
/// # Errors
/// The reason for which a quota forbids the write, in the words of Kubernetes.
pub(super) fn charged<'q>(
    counted: &CountedKind,
    quotas: &'q [Arc<Resource>],
    old: Option<&Value>,
    new: &Value,
) -> Result<Vec<(&'q Resource, Value)>, String> {
    let mut applying = Vec::new();
    for quota in quotas {
        let document = quota.document();
        let hard = amounts_in(&document["status"]["hard"]);
        let limited: BTreeSet<&str> =
            hard.keys().map(String::as_str).filter(|name| counted.is_limited_by(name)).collect();
        if limited.is_empty() || !match_all(counted, document, new) {
            continue;
        }
        let name = quota.key().name();
        if counted.is_pod() {
            check_obligations(&new["spec"], &limited).map_err(|reason| format!("failed quota: {name}: {reason}"))?;
        }
        let used = amounts_in(&document["status"]["used"]);
        if limited.iter().any(|name| !used.contains_key(*name)) {
            let limited = limited.into_iter().collect::<Vec<_>>().join(",");
            return Err(format!("status unknown for quota: {name}, resources: {limited}"));
        }
        applying.push((&**quota, hard, used));
    }
    let usage = counted.usage(new);
    let before = old.map(|old| counted.usage(old));
    let mut statuses = Vec::new();
    for (quota, hard, used) in applying {
        let was_counted = old.is_some_and(|old| match_all(counted, quota.document(), old));
        let before = before.as_ref().filter(|_| was_counted);
        let added = added(&usage, before, &hard);
        if added.is_empty() {
            continue;
        }
        let new_usage = sum(used.clone(), &added);
        let exceeded: Vec<&String> = added.keys().filter(|name| new_usage[*name] > hard[*name]).collect();
        if !exceeded.is_empty() {
            let shown = |amounts: &AmountMap| {
                let amounts = exceeded.iter().filter_map(|name| Some((name, amounts.get(*name)?)));
                amounts.map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(",")
            };
            let (name, added, used, hard) = (quota.key().name(), shown(&added), shown(&used), shown(&hard));
            return Err(format!("exceeded quota: {name}, requested: {added}, used: {used}, limited: {hard}"));
        }
        let mut status = quota.document()["status"].clone();
        let written = added.keys().map(|name| (name.clone(), Value::from(new_usage[name].to_string())));
        if let Some(used) = status["used"].as_object_mut() {
            used.extend(written);
        }
        statuses.push((quota, status));
    }
    Ok(statuses)
}

/// Returns what a write adds to the limited amounts, without zeros. Less than before adds nothing: the controller's next count
/// shows it.
fn added(usage: &AmountMap, before: Option<&AmountMap>, hard: &AmountMap) -> AmountMap {
    let more = |(name, amount): (&String, &Quantity)| {
        let before = before.and_then(|before| before.get(name));
        let more = before.map_or(*amount, |before| amount.minus(*before));
        (hard.contains_key(name) && more.nanos() != 0).then(|| (name.clone(), more))
    };
    usage.iter().filter_map(more).collect()
}

/// Checks that the containers of a pod name the amounts that a quota limits. A pod that names its own amounts needs none.
fn check_obligations(spec: &Value, limited: &BTreeSet<&str>) -> Result<(), String> {
    let whole = Amounts::of(&spec["resources"]);
    let is_of_pod = |name: &String| matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-");
    if whole.requests.keys().any(is_of_pod) {
        return Ok(());
    }
    let containers = ["containers", "initContainers"].iter().flat_map(|list| spec[list].as_array()).flatten();
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in containers {
        let resources = &container["resources"];
        let named = of_container(&amounts_in(&resources["requests"]), &amounts_in(&resources["limits"]));
        for name in OBLIGING.iter().filter(|name| limited.contains(*name) && !named.contains_key(**name)) {
            missing.entry(name).or_default().insert(container["name"].as_str().unwrap_or_default());
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let each = missing
        .into_iter()
        .map(|(name, containers)| format!("{name} for: {}", containers.into_iter().collect::<Vec<_>>().join(",")));
    Err(format!("must specify {}", each.collect::<Vec<_>>().join("; ")))
}
