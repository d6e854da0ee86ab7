//! The amounts of resources that a container, a pod or a claim asks for. Pure.

use std::collections::BTreeMap;

use homeostat_store::schema::Quantity;
use serde_json::Value;

/// Amounts by the names of the resources.
pub(crate) type AmountMap = BTreeMap<String, Quantity>;

/// Requests and limits.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Amounts {
    pub(crate) requests: AmountMap,
    pub(crate) limits: AmountMap,
}

/// Returns the amounts in an object with an amount by name.
pub(crate) fn amounts_in(list: &Value) -> AmountMap {
    let amounts = list.as_object().into_iter().flatten();
    amounts.filter_map(|(name, amount)| Some((name.clone(), Quantity::of(amount)?))).collect()
}

/// Returns the sum of two lists of amounts, in the notation of the first one.
pub(crate) fn sum(mut amounts: AmountMap, more: &AmountMap) -> AmountMap {
    merge(&mut amounts, more, Quantity::plus);
    amounts
}

fn merge(amounts: &mut AmountMap, others: &AmountMap, merged: fn(Quantity, Quantity) -> Quantity) {
    for (name, other) in others {
        amounts.entry(name.clone()).and_modify(|mine| *mine = merged(*mine, *other)).or_insert(*other);
    }
}

impl Amounts {
    /// Returns the amounts in the `resources` of a container, a pod or a claim. A limit without a request is its own request.
    pub(crate) fn of(resources: &Value) -> Self {
        let limits = amounts_in(&resources["limits"]);
        let mut requests = limits.clone();
        requests.extend(amounts_in(&resources["requests"]));
        Self { requests, limits }
    }

    /// Adds the amounts of containers that run at the same time.
    fn add(&mut self, other: &Self) {
        merge(&mut self.requests, &other.requests, Quantity::plus);
        merge(&mut self.limits, &other.limits, Quantity::plus);
    }

    /// Takes the greater amounts, of containers that run one after the other.
    fn take_greater(&mut self, other: &Self) {
        merge(&mut self.requests, &other.requests, Quantity::max);
        merge(&mut self.limits, &other.limits, Quantity::max);
    }
}

/// Returns the amounts of a pod: the sum of its containers, or the greatest of those that run before.
///
/// Source: `podRequests` and `podLimits` in the admission plug-in `LimitRanger` of Kubernetes.
pub(crate) fn of_pod(spec: &Value) -> Amounts {
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
    sum.requests.extend(whole.requests);
    sum.limits.extend(whole.limits);
    sum
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_needs_the_sum_of_its_containers_or_the_greatest_that_runs_before() {
        let container = |cpu: &str| json!({ "resources": { "requests": { "cpu": cpu } } });
        let beside = json!({ "restartPolicy": "Always", "resources": { "requests": { "cpu": "100m" } } });
        let needs = |spec: Value| of_pod(&spec).requests["cpu"].nanos() / 1_000_000;
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
        let container = |memory: &str| json!({ "resources": { "limits": { "memory": memory } } });
        let shown = |spec: Value| of_pod(&spec).limits["memory"].to_string();
        assert_eq!(shown(json!({ "containers": [container("100Mi"), container("64Mi")] })), "164Mi");
        assert_eq!(shown(json!({ "containers": [container("1500M"), container("500M")] })), "2G");
        assert_eq!(shown(json!({ "containers": [container("1Gi"), container("1")] })), "1073741825");
    }
}
