//! The estimated costs of rules in CEL beside a real kube-apiserver, on both sides of its limits: of each case in `costs.yaml`,
//! the largest size that fits and the next one go to both.

use std::collections::BTreeSet;

use homeostat_tests::{Answer, Request};
use serde_json::{Value, json};

use super::{DEFINITIONS, causes, definition};
use crate::comparison::{Pair, difference};

/// The place of the size in a case.
const SIZE: &str = "\"$N\"";
/// The largest size. It is above the bytes of a request, which bound what has no size.
const SIZE_MAX: u64 = 1 << 22;
/// Cases that fit at some size, and not at a larger one. The others fit at every size, or at none.
const LIMITED_MIN: usize = 60;
/// The end of a cause that names a limit.
const LIMIT: &str = "\"FieldValueForbidden\"";

/// A definition with rules whose estimated cost grows with a size.
struct Case {
    /// As the file has it.
    line: String,
    /// The definition with a place for the size.
    template: String,
}

impl Case {
    fn of(case: &Value) -> Self {
        let rule = |number: usize| {
            // Rules of one part differ in their texts.
            let text = format!("{}{}", case["rule"].as_str().unwrap(), " ".repeat(number));
            let mut rule = json!({ "rule": text });
            if case["message"].is_string() {
                rule["messageExpression"] = case["message"].clone();
            }
            rule
        };
        let count: usize = case["times"].as_u64().map_or(1, |count| count.try_into().unwrap());
        let mut schema = case["spec"].clone();
        let part = schema.pointer_mut(case["at"].as_str().unwrap_or_default()).unwrap();
        part["x-kubernetes-validations"] = (0..count).map(rule).collect();
        let template = definition("costs", &schema).to_string();
        assert!(template.contains(SIZE), "{case} has no size");
        Self { line: case.to_string(), template }
    }

    /// Returns the definition of a size.
    fn of_size(&self, size: u64) -> String {
        self.template.replace(SIZE, &size.to_string())
    }

    /// Returns whether a server accepts the definition of a size.
    ///
    /// # Errors
    /// The answer, if the server refuses the definition for something else than a limit.
    fn fits(&self, size: u64, ask: &impl Fn(&str) -> Answer) -> Result<bool, String> {
        let answer = ask(&self.of_size(size));
        let (status, places) = places(&answer);
        match status {
            201 => Ok(true),
            422 if !places.is_empty() && places.iter().all(|place| place.ends_with(LIMIT)) => Ok(false),
            _ => Err(format!("{} with {size} is refused for no limit: {}", self.line, answer.text)),
        }
    }

    /// Returns the largest size that a server accepts, and the next one. If it accepts all sizes, or none, they are the
    /// smallest and the largest one.
    ///
    /// # Errors
    /// As of [`Case::fits`].
    fn sizes(&self, ask: impl Fn(&str) -> Answer) -> Result<[u64; 2], String> {
        let [mut fits, mut exceeds] = [1, SIZE_MAX];
        if self.fits(fits, &ask)? && !self.fits(exceeds, &ask)? {
            while exceeds - fits > 1 {
                let middle = u64::midpoint(fits, exceeds);
                if self.fits(middle, &ask)? {
                    fits = middle;
                } else {
                    exceeds = middle;
                }
            }
        }
        Ok([fits, exceeds])
    }
}

fn request<'r>(path: &'r str, body: &'r str) -> Request<'r> {
    Request { method: "POST", body: body.as_bytes(), ..Request::get(path) }
}

/// Returns the status code, and field and reason of each cause.
fn places(answer: &Answer) -> (u16, BTreeSet<String>) {
    let body = answer.json();
    let causes = body["details"]["causes"].as_array().cloned().unwrap_or_default();
    (answer.status, causes.iter().map(|cause| format!("{} {}", cause["field"], cause["reason"])).collect())
}

/// Returns a line for the status code, and one for each cause with its message.
fn shown(answer: &Answer) -> String {
    let causes: Vec<String> = causes(&answer.json()).into_iter().collect();
    format!("{}\n{}", answer.status, causes.join("\n"))
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[expect(clippy::print_stdout, reason = "a person who reads the output of a test gets the counts")]
fn estimated_costs_reach_their_limits_where_those_of_a_real_api_server_do() {
    let cases: Vec<Value> = serde_saphyr::from_str(include_str!("costs.yaml")).unwrap();
    let cases: Vec<Case> = cases.iter().map(Case::of).collect();
    let (pair, path) = (Pair::start(), format!("{DEFINITIONS}?dryRun=All"));
    let (mut compared, mut limited, mut refused) = (0, 0, 0);
    let (mut different, mut other_words) = (Vec::new(), Vec::new());
    for case in &cases {
        // The sizes are sought here, which takes a fraction of the time that it takes there.
        let sizes = match case.sizes(|body| pair.send_here(&request(&path, body))) {
            Ok(sizes) => sizes,
            Err(fault) => {
                different.push(fault);
                continue;
            }
        };
        limited += usize::from(sizes != [1, SIZE_MAX]);
        let mut found = Vec::new();
        for size in sizes {
            let body = case.of_size(size);
            let answers = pair.send(&request(&path, &body));
            compared += 1;
            refused += usize::from(answers[0].status != 201);
            let [theirs, ours] = answers.each_ref().map(places);
            let [there, here] = answers.each_ref().map(shown);
            let shown = format!("{} with {size}\n{}", case.line, difference(&there, &here));
            if theirs != ours {
                found.push(shown);
            } else if there != here {
                other_words.push(shown);
            }
        }
        if !found.is_empty() {
            let theirs = case.sizes(|body| pair.send_there(&request(&path, body)));
            different.push(format!("{}  the limit there: {theirs:?}, here: {sizes:?}", found.concat()));
        }
    }
    println!("{limited} of {} cases have a limit; {compared} definitions, of which {refused} are refused", cases.len());
    println!("{} are refused in other words:\n{}", other_words.len(), other_words.join("\n"));
    assert!(different.is_empty(), "{} of {} cases differ:\n{}", different.len(), cases.len(), different.join("\n"));
    assert!(limited >= LIMITED_MIN, "only {limited} of {} cases have a limit", cases.len());
}
