//! The amounts that a container, a pod or a claim asks for, and the bounds of a range. Pure.

use std::collections::{BTreeMap, BTreeSet};

use homeostat_store::schema::quantity_in_nanos;
use serde_json::Value;

/// Requests and limits by the names of the resources, in billionths.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Amounts {
    requests: BTreeMap<String, i128>,
    limits: BTreeMap<String, i128>,
    /// The amounts as they are written, for messages.
    shown: BTreeMap<(&'static str, String), String>,
    /// The resources with an amount in binary units, as `1Gi`.
    binary: BTreeSet<String>,
}

/// The lists of the amounts of a container.
const LISTS: [&str; 2] = ["requests", "limits"];

impl Amounts {
    /// Returns the amounts in the `resources` of a container, a pod or a claim. A limit without a request is its own request.
    pub(super) fn of(resources: &Value) -> Self {
        let mut amounts = Self::default();
        for list in LISTS {
            for (name, amount) in resources[list].as_object().into_iter().flatten() {
                let Some(number) = quantity_in_nanos(amount) else { continue };
                let shown = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
                if shown.ends_with('i') {
                    amounts.binary.insert(name.clone());
                }
                amounts.shown.insert((list, name.clone()), shown.clone());
                if list == "limits" {
                    amounts.limits.insert(name.clone(), number);
                    if !amounts.requests.contains_key(name) {
                        amounts.requests.insert(name.clone(), number);
                        amounts.shown.insert(("requests", name.clone()), shown);
                    }
                } else {
                    amounts.requests.insert(name.clone(), number);
                }
            }
        }
        amounts
    }

    fn lists(&mut self) -> [&mut BTreeMap<String, i128>; 2] {
        [&mut self.requests, &mut self.limits]
    }

    /// Adds the amounts of containers that run at the same time.
    fn add(&mut self, other: &Self) {
        self.merge(other, |mine, more| mine.saturating_add(more));
    }

    /// Takes the greater amounts, of containers that run one after the other.
    fn take_greater(&mut self, other: &Self) {
        self.merge(other, i128::max);
    }

    fn merge(&mut self, other: &Self, merged: fn(i128, i128) -> i128) {
        for (mine, others) in self.lists().into_iter().zip([&other.requests, &other.limits]) {
            for (name, more) in others {
                let amount = mine.entry(name.clone()).or_insert(0);
                *amount = merged(*amount, *more);
            }
        }
        // A sum was written by nobody.
        self.shown.clear();
        self.binary.extend(other.binary.iter().cloned());
    }

    fn show(&self, list: &'static str, name: &str) -> String {
        let number = if list == "requests" { &self.requests } else { &self.limits }.get(name).copied().unwrap_or(0);
        let shown = self.shown.get(&(list, name.to_owned())).cloned();
        shown.unwrap_or_else(|| in_units(number, self.binary.contains(name)))
    }
}

/// Returns a number of billionths as Kubernetes shows a quantity: in thousandths, in whole units, or in the greatest binary
/// unit that leaves no rest.
fn in_units(nanos: i128, is_binary: bool) -> String {
    const UNIT: i128 = 1_000_000_000;
    const BINARY: [&str; 6] = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];
    if nanos % UNIT != 0 {
        return format!("{}m", nanos / (UNIT / 1000));
    }
    let (mut whole, mut unit) = (nanos / UNIT, 0);
    while is_binary && whole != 0 && whole % 1024 == 0 && unit + 1 < BINARY.len() {
        (whole, unit) = (whole / 1024, unit + 1);
    }
    format!("{whole}{}", BINARY[unit])
}

/// Returns the amounts of a pod: the sum of its containers, or the greatest of those that run before.
///
/// Source: `podRequests` and `podLimits` in the admission plug-in `LimitRanger` of Kubernetes.
pub(super) fn of_pod(spec: &Value) -> Amounts {
    let containers = |list: &str| spec[list].as_array().cloned().unwrap_or_default();
    let mut sum = Amounts::default();
    containers("containers").iter().for_each(|container| sum.add(&Amounts::of(&container["resources"])));
    let (mut first, mut beside) = (Amounts::default(), Amounts::default());
    for container in containers("initContainers") {
        let own = Amounts::of(&container["resources"]);
        if container["restartPolicy"] == "Always" {
            sum.add(&own);
            beside.add(&own);
            first.take_greater(&beside);
        } else {
            let mut together = own;
            together.add(&beside);
            first.take_greater(&together);
        }
    }
    sum.take_greater(&first);
    let whole = Amounts::of(&spec["resources"]);
    for (mine, whole) in sum.lists().into_iter().zip([whole.requests, whole.limits]) {
        mine.extend(whole);
    }
    sum
}

/// The bounds of one limit of a range.
pub(super) struct Bounds<'r> {
    limit: &'r Value,
    kind: &'r str,
}

impl<'r> Bounds<'r> {
    pub(super) fn of(limit: &'r Value, kind: &'r str) -> Self {
        Self { limit, kind }
    }

    /// Returns name, amount and text of each bound.
    fn each(&self, list: &str) -> Vec<(&'r str, i128, &'r str)> {
        let bounds = self.limit[list].as_object().into_iter().flatten();
        let bound = |(name, amount): (&'r String, &'r Value)| {
            Some((name.as_str(), quantity_in_nanos(amount)?, amount.as_str().unwrap_or_default()))
        };
        bounds.filter_map(bound).collect()
    }

    /// Returns what the bounds forbid in the amounts of a container or a pod.
    pub(super) fn faults(&self, amounts: &Amounts) -> Vec<String> {
        let least = self.each("min").into_iter().filter_map(|bound| self.below(amounts, bound, true));
        let most = self.each("max").into_iter().filter_map(|bound| self.above(amounts, bound));
        let ratio = self.each("maxLimitRequestRatio").into_iter().filter_map(|bound| self.ratio(amounts, bound));
        least.chain(most).chain(ratio).collect()
    }

    /// Returns what the bounds forbid in the requests of a claim, which has no limits.
    pub(super) fn faults_of_claim(&self, amounts: &Amounts) -> Vec<String> {
        let least = self.each("min").into_iter().filter_map(|bound| self.below(amounts, bound, false));
        let most = self.each("max").into_iter().filter_map(|(name, bound, shown)| {
            let words = format!("maximum {name} usage per {} is {shown}", self.kind);
            match amounts.requests.get(name) {
                None => Some(format!("{words}.  No request is specified")),
                Some(request) if *request > bound => {
                    Some(format!("{words}, but request is {}", amounts.show("requests", name)))
                }
                Some(_) => None,
            }
        });
        least.chain(most).collect()
    }

    fn below(&self, amounts: &Amounts, (name, bound, shown): (&str, i128, &str), has_limits: bool) -> Option<String> {
        let words = format!("minimum {name} usage per {} is {shown}", self.kind);
        match (amounts.requests.get(name), amounts.limits.get(name)) {
            (None, _) => Some(format!("{words}.  No request is specified")),
            (Some(request), _) if *request < bound => {
                Some(format!("{words}, but request is {}", amounts.show("requests", name)))
            }
            (_, Some(limit)) if has_limits && *limit < bound => {
                Some(format!("{words}, but limit is {}", amounts.show("limits", name)))
            }
            _ => None,
        }
    }

    fn above(&self, amounts: &Amounts, (name, bound, shown): (&str, i128, &str)) -> Option<String> {
        let words = format!("maximum {name} usage per {} is {shown}", self.kind);
        match (amounts.limits.get(name), amounts.requests.get(name)) {
            (None, _) => Some(format!("{words}.  No limit is specified")),
            (Some(limit), _) if *limit > bound => {
                Some(format!("{words}, but limit is {}", amounts.show("limits", name)))
            }
            (_, Some(request)) if *request > bound => {
                Some(format!("{words}, but request is {}", amounts.show("requests", name)))
            }
            _ => None,
        }
    }

    fn ratio(&self, amounts: &Amounts, (name, bound, shown): (&str, i128, &str)) -> Option<String> {
        let words = format!("{name} max limit to request ratio per {} is {shown}, but", self.kind);
        let known = |list: &BTreeMap<String, i128>| list.get(name).copied().filter(|amount| *amount != 0);
        let Some(request) = known(&amounts.requests) else {
            return Some(format!("{words} no request is specified or request is 0"));
        };
        let Some(limit) = known(&amounts.limits) else {
            return Some(format!("{words} no limit is specified or limit is 0"));
        };
        // A ratio needs no exact arithmetic.
        let (ratio, bound) = (limit as f64 / request as f64, bound as f64 / 1e9);
        (ratio > bound).then(|| format!("{words} provided ratio is {ratio:.6}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_needs_the_sum_of_its_containers_or_the_greatest_that_runs_before() {
        let container = |cpu: &str| json!({ "resources": { "requests": { "cpu": cpu } } });
        let beside = json!({ "restartPolicy": "Always", "resources": { "requests": { "cpu": "100m" } } });
        let needs = |spec: Value| of_pod(&spec).requests["cpu"] / 1_000_000;
        assert_eq!(needs(json!({ "containers": [container("100m"), container("0.2")] })), 300);
        assert_eq!(needs(json!({ "containers": [container("1")], "initContainers": [container("2")] })), 2000);
        assert_eq!(needs(json!({ "containers": [container("1")], "initContainers": [beside] })), 1100);
        let beside = json!({ "restartPolicy": "Always", "resources": { "requests": { "cpu": "100m" } } });
        let first = json!({ "containers": [container("1")], "initContainers": [beside, container("2")] });
        assert_eq!(needs(first), 2100);
        let whole = json!({ "containers": [container("1")], "resources": { "requests": { "cpu": "3" } } });
        assert_eq!(needs(whole), 3000);
    }

    #[test]
    fn a_sum_is_shown_in_the_units_of_its_parts() {
        const UNIT: i128 = 1_000_000_000;
        for (nanos, is_binary, text) in [
            (0, true, "0"),
            (2 * UNIT, false, "2"),
            (3 * UNIT / 2, false, "1500m"),
            (164 * 1024 * 1024 * UNIT, true, "164Mi"),
            (164 * 1024 * 1024 * UNIT, false, "171966464"),
            (1025 * UNIT, true, "1025"),
        ] {
            assert_eq!(in_units(nanos, is_binary), text);
        }
    }
}
