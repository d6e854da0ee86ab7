//! The bounds of one limit of a range. Pure.

use homeostat_store::schema::Quantity;
use serde_json::Value;

use crate::amounts::{AmountMap, Amounts, amounts_in};

/// The bounds of one limit of a range.
pub(super) struct Bounds<'r> {
    limit: &'r Value,
    kind: &'r str,
}

impl<'r> Bounds<'r> {
    pub(super) fn of(limit: &'r Value, kind: &'r str) -> Self {
        Self { limit, kind }
    }

    fn each(&self, list: &str) -> AmountMap {
        amounts_in(&self.limit[list])
    }

    /// Returns what the bounds forbid in the amounts of a container or a pod.
    pub(super) fn faults(&self, amounts: &Amounts) -> Vec<String> {
        let least = self.each("min").into_iter().filter_map(|bound| self.below(amounts, &bound, true));
        let most = self.each("max").into_iter().filter_map(|bound| self.above(amounts, &bound));
        let ratio = self.each("maxLimitRequestRatio").into_iter().filter_map(|bound| self.ratio(amounts, &bound));
        least.chain(most).chain(ratio).collect()
    }

    /// Returns what the bounds forbid in the requests of a claim, which has no limits.
    pub(super) fn faults_of_claim(&self, amounts: &Amounts) -> Vec<String> {
        let least = self.each("min").into_iter().filter_map(|bound| self.below(amounts, &bound, false));
        let most = self.each("max").into_iter().filter_map(|(name, bound)| {
            let words = format!("maximum {name} usage per {} is {bound}", self.kind);
            match amounts.requests.get(&name) {
                None => Some(format!("{words}.  No request is specified")),
                Some(request) if *request > bound => Some(format!("{words}, but request is {request}")),
                Some(_) => None,
            }
        });
        least.chain(most).collect()
    }

    fn below(&self, amounts: &Amounts, (name, bound): &(String, Quantity), has_limits: bool) -> Option<String> {
        let words = format!("minimum {name} usage per {} is {bound}", self.kind);
        match (amounts.requests.get(name), amounts.limits.get(name)) {
            (None, _) => Some(format!("{words}.  No request is specified")),
            (Some(request), _) if request < bound => Some(format!("{words}, but request is {request}")),
            (_, Some(limit)) if has_limits && limit < bound => Some(format!("{words}, but limit is {limit}")),
            _ => None,
        }
    }

    fn above(&self, amounts: &Amounts, (name, bound): &(String, Quantity)) -> Option<String> {
        let words = format!("maximum {name} usage per {} is {bound}", self.kind);
        match (amounts.limits.get(name), amounts.requests.get(name)) {
            (None, _) => Some(format!("{words}.  No limit is specified")),
            (Some(limit), _) if limit > bound => Some(format!("{words}, but limit is {limit}")),
            (_, Some(request)) if request > bound => Some(format!("{words}, but request is {request}")),
            _ => None,
        }
    }

    fn ratio(&self, amounts: &Amounts, (name, bound): &(String, Quantity)) -> Option<String> {
        let words = format!("{name} max limit to request ratio per {} is {bound}, but", self.kind);
        let known = |list: &AmountMap| list.get(name).map(|amount| amount.nanos()).filter(|nanos| *nanos != 0);
        let Some(request) = known(&amounts.requests) else {
            return Some(format!("{words} no request is specified or request is 0"));
        };
        let Some(limit) = known(&amounts.limits) else {
            return Some(format!("{words} no limit is specified or limit is 0"));
        };
        // A ratio needs no exact arithmetic.
        let (ratio, bound) = (limit as f64 / request as f64, bound.nanos() as f64 / 1e9);
        (ratio > bound).then(|| format!("{words} provided ratio is {ratio:.6}"))
    }
}
