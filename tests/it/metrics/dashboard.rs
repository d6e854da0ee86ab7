//! The dashboard and the list of metrics, compared with the metrics of a running host.

use std::collections::BTreeSet;

use serde_json::Value;

use super::scrape::Scrape;
use super::{Host, beside_the_dashboard};

/// The words of PromQL that precede a list of labels.
const GROUPINGS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
/// The other words of PromQL.
const WORDS: [&str; 6] = ["and", "or", "unless", "bool", "offset", "inf"];

/// The metrics and labels in an expression.
#[derive(Debug, Default, PartialEq)]
struct ExpressionNames {
    metrics: BTreeSet<String>,
    /// Metric and label of each matcher, as of `metric{label="value"}`.
    chosen: BTreeSet<(String, String)>,
    /// The labels in groupings.
    grouped: BTreeSet<String>,
}

/// Returns the metrics and labels in an expression of PromQL.
fn expression_names(expression: &str) -> ExpressionNames {
    let mut names = ExpressionNames::default();
    let tokens = tokens(expression);
    let (mut at, mut metric) = (0, String::new());
    while let Some(token) = tokens.get(at) {
        let next = tokens.get(at + 1).map(String::as_str);
        let until = |end: &str| tokens[at..].iter().position(|token| token == end).map(|length| at + length).unwrap();
        let is_word = token.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
        match token.as_str() {
            "{" => {
                let pairs = tokens[at + 1..until("}")].split(|token| token == ",");
                names.chosen.extend(pairs.map(|pair| (metric.clone(), pair[0].clone())));
                at = until("}");
            }
            // Skips a duration.
            "[" => at = until("]"),
            word if GROUPINGS.contains(&word) => {
                let end = until(")");
                names.grouped.extend(tokens[at + 2..end].iter().filter(|token| *token != ",").cloned());
                at = end;
            }
            word if !is_word || WORDS.contains(&word) || matches!(next, Some("(" | "by" | "without")) => {}
            word => {
                metric = word.to_owned();
                names.metrics.insert(metric.clone());
            }
        }
        at += 1;
    }
    names
}

/// Splits an expression into words, strings, and single other characters.
fn tokens(expression: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = expression.trim_start();
    while let Some(first) = rest.chars().next() {
        let in_word = |letter: char| letter.is_ascii_alphanumeric() || "_:.$".contains(letter);
        let length = match first {
            '"' => rest[1..].find('"').map(|length| length + 2).unwrap(),
            letter if in_word(letter) => rest.find(|letter| !in_word(letter)).unwrap_or(rest.len()),
            letter => letter.len_utf8(),
        };
        tokens.push(rest[..length].to_owned());
        rest = rest[length..].trim_start();
    }
    tokens
}

#[test]
fn expression_names_finds_metrics_matchers_and_groupings() {
    let found = expression_names(
        "histogram_quantile(0.9, sum by (controller, le) (rate(a_bucket{controller=~\"$c\", x=\"y{\"}[5m]))) / sum(b) > 0",
    );
    let set = |words: &[&str]| words.iter().map(ToString::to_string).collect::<BTreeSet<String>>();
    assert_eq!(found.metrics, set(&["a_bucket", "b"]));
    assert_eq!(found.grouped, set(&["controller", "le"]));
    let chosen = [("a_bucket", "controller"), ("a_bucket", "x")];
    assert_eq!(found.chosen, chosen.map(|(metric, label)| (metric.to_owned(), label.to_owned())).into());
}

/// Collects the values of all string fields of this name in a document.
fn texts<'d>(document: &'d Value, name: &str, found: &mut Vec<&'d str>) {
    match document {
        Value::Array(items) => items.iter().for_each(|item| texts(item, name, found)),
        Value::Object(fields) => {
            found.extend(fields.get(name).and_then(Value::as_str));
            fields.values().for_each(|value| texts(value, name, found));
        }
        _ => {}
    }
}

/// Returns the labels in `{{label}}`.
fn legend_labels(legend: &str) -> Vec<&str> {
    legend.split("{{").skip(1).map(|rest| rest.split("}}").next().unwrap().trim()).collect()
}

#[test]
fn the_dashboard_names_only_existing_metrics_and_labels() {
    let host = Host::start();
    let scrape = host.scrape();
    let dashboard: Value = serde_json::from_str(&beside_the_dashboard("homeostat.json")).unwrap();
    let mut targets = Vec::new();
    let panels = dashboard["panels"].as_array().unwrap();
    for target in panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten()) {
        targets.push((target["expr"].as_str().unwrap(), target["legendFormat"].as_str().unwrap_or_default()));
    }
    assert!(targets.len() > 30, "{} expressions", targets.len());
    for (expression, legend) in targets {
        let ExpressionNames { metrics, chosen, grouped } = expression_names(expression);
        assert!(!metrics.is_empty(), "{expression}");
        for metric in &metrics {
            // A metric that this system cannot measure has a family without samples.
            let is_there = scrape.find(metric, &[]).is_some() || scrape.families.contains_key(metric);
            assert!(is_there, "there is no {metric}: {expression}");
            for label in &grouped {
                assert!(scrape.labels(metric).contains(label.as_str()), "{metric} has no label {label}: {expression}");
            }
        }
        for (metric, label) in &chosen {
            assert!(scrape.labels(metric).contains(label.as_str()), "{metric} has no label {label}: {expression}");
        }
        for label in legend_labels(legend) {
            assert!(grouped.contains(label), "the legend has {label}, which the grouping removes: {expression}");
        }
    }
    variables_are_there(&dashboard, &scrape);
}

/// Asserts that the variables of the dashboard exist, and that their source is a series of the host.
fn variables_are_there(dashboard: &Value, scrape: &Scrape) {
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: Vec<&str> = variables.iter().map(|variable| variable["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["datasource", "controller"]);
    let definition = variables[1]["definition"].as_str().unwrap();
    let inside = definition.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')')).unwrap();
    let (metric, label) = inside.split_once(", ").unwrap();
    assert!(scrape.labels(metric).contains(label), "{definition}");
    assert_eq!(variables[1]["query"]["query"], definition);
    let mut uids = Vec::new();
    texts(&dashboard["panels"], "uid", &mut uids);
    assert!(!uids.is_empty() && uids.iter().all(|uid| *uid == "${datasource}"), "{uids:?}");
}

#[test]
fn the_dashboard_shows_every_metric() {
    let host = Host::start();
    let dashboard = beside_the_dashboard("homeostat.json");
    for name in host.scrape().families.keys().filter(|name| *name != "homeostat_build_info") {
        assert!(dashboard.contains(name.as_str()), "no panel shows {name}");
    }
}

/// The table in `dashboards/README.md` lists the families of a scrape. If it is out of date, the message has
/// it.
#[test]
fn the_readme_lists_every_metric_and_no_other() {
    let host = Host::start();
    let scrape = host.scrape();
    let mut rows: Vec<String> = Vec::new();
    for (name, (r#type, help)) in &scrape.families {
        let sample = if r#type == "histogram" { format!("{name}_sum") } else { name.clone() };
        let labels: Vec<String> = scrape.labels(&sample).iter().map(|label| format!("`{label}`")).collect();
        rows.push(format!("| `{name}` | {} | {} | {help} |", r#type, labels.join(", ")));
    }
    let manual = beside_the_dashboard("README.md");
    let written: Vec<&str> = manual.lines().filter(|line| line.starts_with("| `")).collect();
    assert!(written == rows, "the table in dashboards/README.md has to be:\n{}", rows.join("\n"));
}
