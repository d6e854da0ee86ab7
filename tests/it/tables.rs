//! Built-in kinds as tables, beside those of a real kube-apiserver: the columns without their descriptions, the cells, and the
//! conditions of the rows are compared.

use homeostat_tests::{Answer, Request};
use regex::Regex;
use serde_json::{Value, json};

use crate::comparison::{Pair, difference};

const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";

/// Resources with a status, beside the valid resources of other tests.
const BASES: [&str; 3] =
    [include_str!("tables.yaml"), include_str!("built_in.yaml"), include_str!("built_in_details.yaml")];

/// Sends a request that accepts a table. Returns the tables: theirs, ours.
fn tables(pair: &Pair, method: &str, path: &str, body: &Value) -> [Answer; 2] {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = Request {
        method,
        accept: TABLE,
        content_type: "application/json",
        body: body.as_bytes(),
        ..Request::get(path)
    };
    pair.send(&request)
}

/// Makes a resource in this state on both, shows it, and deletes it.
///
/// # Errors
/// The answers to a write that a server refuses.
fn stored(pair: &Pair, base: &Value) -> Result<[Answer; 2], String> {
    let (path, document) = (base["path"].as_str().unwrap(), &base["document"]);
    let name = document["metadata"]["name"].as_str().unwrap();
    let done = |method: &str, path: &str, body: &Value| {
        let answers = pair.ask(method, path, body);
        if answers.iter().all(|answer| answer.status < 300) {
            return Ok(());
        }
        let [theirs, ours] = answers.map(|answer| answer.text);
        Err(format!("{method} {path} {body}\n  - {theirs}\n  + {ours}"))
    };
    done("POST", path, document)?;
    let path = format!("{path}/{name}");
    if base["status"] != json!({}) {
        done("PATCH", &format!("{path}/status"), &json!({ "status": base["status"] }))?;
    }
    if base["isDeleted"] == true {
        done("DELETE", &path, &Value::Null)?;
    }
    let shown = tables(pair, "GET", &path, &Value::Null);
    done("PATCH", &path, &json!({ "metadata": { "finalizers": null } }))?;
    pair.ask("DELETE", &path, &json!({ "gracePeriodSeconds": 0 }));
    Ok(shown)
}

/// Returns what is compared of a table: its columns, and the cells of its rows, with one word for what each server chooses for
/// itself: ages, uids, addresses and ports of services, and its user.
fn comparable(answer: &Answer) -> String {
    let mut table = answer.json();
    let chosen =
        r"^(\d+[smhdy]){1,2}$|\(.* ago\)|controller-uid=[0-9a-f-]+|^10\.\d+\.\d+\.\d+$|:3\d{4}/|^admin$|^local$";
    let chosen = Regex::new(chosen).unwrap();
    let columns = table["columnDefinitions"].as_array().map(Vec::len).unwrap_or_default();
    for column in table["columnDefinitions"].as_array_mut().into_iter().flatten() {
        column.as_object_mut().unwrap().remove("description");
    }
    for row in table["rows"].as_array_mut().into_iter().flatten() {
        // A kube-apiserver sends a cell more than columns for an IP address. Clients ignore it.
        row["cells"].as_array_mut().unwrap().truncate(columns);
        for cell in row["cells"].as_array_mut().unwrap() {
            if let Some(text) = cell.as_str() {
                *cell = chosen.replace_all(text, "CHOSEN").into();
            }
        }
        row.as_object_mut().unwrap().remove("object");
    }
    let shown = json!({ "code": answer.status, "columns": table["columnDefinitions"], "rows": table["rows"] });
    serde_json::to_string_pretty(&shown).unwrap()
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn tables_of_built_in_kinds_are_those_of_a_real_api_server() {
    let pair = Pair::start();
    pair.make_namespace("tables");
    let mut different = Vec::new();
    for base in BASES.iter().flat_map(|file| serde_saphyr::from_str::<Vec<Value>>(file).unwrap()) {
        let (path, document) = (base["path"].as_str().unwrap(), &base["document"]);
        let answers = if base["status"].is_object() {
            stored(&pair, &base)
        } else {
            Ok(tables(&pair, "POST", &format!("{path}?dryRun=All"), document))
        };
        let answers =
            answers.and_then(|answers| match answers.iter().find(|answer| answer.json()["kind"] != "Table") {
                Some(answer) => Err(format!("no table: {document}\n{}", answer.text)),
                None => Ok(answers),
            });
        match answers.map(|answers| answers.each_ref().map(comparable)) {
            Ok([theirs, ours]) if theirs == ours => {}
            Ok([theirs, ours]) => different.push(format!("{document}\n{}", difference(&theirs, &ours))),
            Err(refusal) => different.push(refusal),
        }
    }
    assert!(different.is_empty(), "{} tables differ:\n{}", different.len(), different.join("\n"));
}
