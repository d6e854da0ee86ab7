use std::path::Path;

use super::*;

const CONTROLLER: &str = "apiVersion: homeostat.dev/v1alpha1\nkind: Controller\nmetadata: {name: web}\nspec:\n";

fn read_text(file: &str, text: &str) -> (Vec<Document>, Vec<String>) {
    let (documents, problems) = read_bytes(Path::new(file), text.as_bytes());
    (documents, problems.iter().map(ToString::to_string).collect())
}

#[track_caller]
fn assert_problems(file: &str, text: &str, expected: &[&str]) {
    let (_, problems) = read_text(file, text);
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    for (problem, expected) in problems.iter().zip(expected) {
        assert!(problem.starts_with(expected), "\n     got: {problem}\nexpected: {expected}");
    }
}

#[test]
fn every_problem_has_its_position_and_the_expected_value() {
    let head = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n";
    for (text, expected) in [
        // Syntax.
        (format!("{head}spec: [\n"), "a.yaml:5:7: unclosed bracket"),
        (format!("{head}spec:\n\tnode: 4\n"), "a.yaml:6:2: tabs disallowed"),
        (format!("{head}spec: \"abc\nd"), "a.yaml:6:1: invalid indentation in multiline quoted scalar"),
        (format!("{head}spec: a: b\n"), "a.yaml:5:8: mapping values are not allowed"),
        (format!("{head}spec: *nowhere\n"), "a.yaml:5:7: reference to unknown value"),
        (format!("{head}spec: .nan\n"), "a.yaml:5:7: "),
        (format!("{head}kind: Node\n"), "a.yaml:5:1: duplicate mapping key: kind appears twice"),
        // Fields of every document.
        (
            "just text\n".to_owned(),
            "a.yaml:1:1: expected a mapping with `apiVersion`, `kind` and `metadata`, found the text \"just text\"",
        ),
        ("- a\n".to_owned(), "a.yaml:1:1: expected a mapping with `apiVersion`, `kind` and `metadata`, found a list"),
        ("# x\nkind: Pod\nmetadata: {name: a}\n".to_owned(), "a.yaml:2:1: `apiVersion` is missing"),
        ("apiVersion: v1\nmetadata: {name: a}\n".to_owned(), "a.yaml:1:1: `kind` is missing"),
        ("apiVersion: v1\nkind: Pod\n".to_owned(), "a.yaml:1:1: `metadata.name` is missing"),
        ("apiVersion: v1\nkind: Pod\nmetadata:\n  nam: a\n".to_owned(), "a.yaml:3:1: `metadata.name` is missing"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: web\n".to_owned(),
            "a.yaml:3:11: `metadata` must be a mapping with a `name`, found the text \"web\"",
        ),
        (
            "apiVersion: 1\nkind: Pod\nmetadata: {name: a}\n".to_owned(),
            "a.yaml:1:13: `apiVersion` must be text, found the number 1; put it in quotes",
        ),
        ("apiVersion: v1\nkind:\nmetadata: {name: a}\n".to_owned(), "a.yaml:2:1: `kind` must not be empty"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: 7}\n".to_owned(),
            "a.yaml:3:18: `metadata.name` must be text, found the number 7",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: [b]}\n".to_owned(),
            "a.yaml:3:32: `metadata.namespace` must be text, found a list",
        ),
        // Controllers.
        (
            format!("{CONTROLLER}  component: {{file: a.wasm}}\n  concurrncy: 4\n"),
            "a.yaml:6:3: unknown field `concurrncy`, expected one of ",
        ),
        (
            format!("{CONTROLLER}  component: {{file: a.wasm}}\n  concurrency: four\n"),
            "a.yaml:6:16: expected a whole number, 0 or more, found the text \"four\"",
        ),
        (
            format!("{CONTROLLER}  component: {{file: a.wasm}}\n  suspend: yes\n"),
            "a.yaml:6:3: invalid value: string \"yes\", expected true, false or exceptDeletes",
        ),
        (
            format!(
                "{CONTROLLER}  component: {{file: a.wasm}}\n  grants:\n    resources:\n      - {{kinds: [Pod], verbs: [get, updte]}}\n"
            ),
            "a.yaml:8:37: unknown variant `updte`, expected one of ",
        ),
        (
            format!("{CONTROLLER}  component: {{file: a.wasm}}\n  concurrency: 5000\n"),
            "a.yaml:6:16: spec.concurrency: 5000 is out of bounds: from 1 to 1024",
        ),
        (
            CONTROLLER.replace("v1alpha1", "v2"),
            "a.yaml:1:13: this host reads controllers of `homeostat.dev/v1alpha1`, not of `homeostat.dev/v2`",
        ),
    ] {
        assert_problems("a.yaml", &text, &[expected]);
    }
}

#[test]
fn all_missing_fields_of_a_document_are_reported_at_once() {
    assert_problems(
        "a.yaml",
        "spec: {}\n",
        &["a.yaml:1:1: `apiVersion`", "a.yaml:1:1: `kind`", "a.yaml:1:1: `metadata.name`"],
    );
}

#[test]
fn a_mistake_in_one_document_leaves_the_others_usable() {
    let pod = |name: &str| format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n");
    let text = format!(
        "# first\n---\n{}---\nkind: [\n--- # third\n{}...\n---\nkind: Pod\n---\n{}",
        pod("a"),
        pod("b"),
        pod("c")
    );
    let (documents, problems) = read_text("a.yaml", &text);
    let names: Vec<String> =
        documents.iter().map(|document| format!("{}@{}", document.identity(), document.line)).collect();
    assert_eq!(names, ["pod/a@3", "pod/b@9", "pod/c@16"]);
    assert_eq!(problems.len(), 3, "{problems:#?}");
    assert!(problems[0].starts_with("a.yaml:7:7: unclosed bracket"), "{problems:#?}");
    assert!(problems[1].starts_with("a.yaml:14:1: `apiVersion` is missing"), "{problems:#?}");
    assert!(problems[2].starts_with("a.yaml:14:1: `metadata.name` is missing"), "{problems:#?}");
}

#[test]
fn files_without_content_hold_nothing_and_no_problem() {
    for text in ["", "\n\n", "# only a comment\n", "---\n", "---\n...\n---\n# x\n", "\u{feff}", "%YAML 1.2\n---\n"] {
        let (documents, problems) = read_text("a.yaml", text);
        assert!(documents.is_empty() && problems.is_empty(), "{text:?}: {problems:?}");
    }
}

#[test]
fn json_files_hold_one_or_more_values_and_every_problem_has_its_position() {
    let pod = "{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"Pod\",\n\t\"metadata\": {\"name\": \"a\\u00e9\\/b\"}\n}";
    let (documents, problems) = read_text("a.json", &format!("{pod}\n{pod} {pod}"));
    assert_eq!(problems, [""; 0]);
    let places: Vec<_> = documents.iter().map(|document| (document.line, document.column)).collect();
    assert_eq!(places, [(1, 1), (6, 1), (10, 3)]);
    assert_eq!(documents[0].value["metadata"]["name"], "aé/b");
    assert_eq!(documents[2].name_place, TextPosition { line: 13, column: 23 });
    for (text, expected) in [
        ("{\"apiVersion\": \"v1\",,}", "a.json:1:21: this is not JSON: "),
        ("{\n  \"apiVersion\": \"v1\"\n  \"kind\": 1}", "a.json:3:3: this is not JSON: expected `,` or `}`"),
        (
            "{\"apiVersion\": \"v1\", \"kind\": 1, \"metadata\": {\"name\": \"a\"}}",
            "a.json:1:30: `kind` must be text, found the number 1",
        ),
        ("{\"kind\": \"A\", \"kind\": \"B\"}", "a.json:1:15: duplicate mapping key: kind appears twice"),
        ("{\"kind\": \"A\"", "a.json:1:1"),
        ("kind: A", "a.json:1:1: this is not JSON: "),
    ] {
        assert_problems("a.json", text, &[expected]);
    }
}

#[test]
fn text_keeps_the_meaning_that_kubectl_gives_it() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\ndata: {country: no, mode: 0644, float: 1.5, big: 9007199254740993, none: ~, date: 2020-01-01, text: '5'}\nbase: &b {x: 1}\nuse: {<<: *b, y: 2}\n";
    let (documents, problems) = read_text("a.yaml", text);
    assert_eq!(problems, [""; 0]);
    let value = &documents[0].value;
    let expected = serde_json::json!({"country": "no", "mode": 420, "float": 1.5, "big": 9_007_199_254_740_993_u64, "none": null, "date": "2020-01-01", "text": "5"});
    assert_eq!(value["data"], expected);
    assert_eq!(value["use"], serde_json::json!({"x": 1, "y": 2}));
}

#[test]
fn a_mistake_in_an_item_of_a_list_has_its_own_position() {
    let text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n\
        # The second one.\n- apiVersion: homeostat.dev/v1alpha1\n  kind: Controller\n  metadata: {name: web}\n  spec:\n    \
        component: {file: a.wasm}\n    concurrncy: 4\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: b}\n";
    assert_problems("a.yaml", text, &["a.yaml:13:5: unknown field `concurrncy`, expected one of "]);
    let text = "{\n  \"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [\n    {\n      \"apiVersion\": \"homeostat.dev/v1alpha1\",\n      \
        \"kind\": \"Controller\", \"metadata\": {\"name\": \"web\"},\n      \"spec\": {\"component\": {\"file\": \"a.wasm\"}, \"limit\": {}}\n    }\n  ]\n}\n";
    assert_problems("a.json", text, &["a.json:6:49: unknown field `limit`, expected one of "]);
}

#[test]
fn a_list_of_resources_is_its_items() {
    let text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n- kind: Pod\n  metadata: {name: b}\n";
    let (documents, problems) = read_text("a.yaml", text);
    assert_eq!((documents.len(), documents[0].line, documents[0].column), (1, 4, 3));
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].starts_with("a.yaml:7:3: `apiVersion` is missing"), "{problems:?}");
}

#[test]
fn a_controller_is_read_with_its_settings() {
    let text = format!("{CONTROLLER}  component: {{file: a.wasm}}\n  concurrency: 4\n  suspend: true\n");
    let (documents, problems) = read_text("a.yaml", &text);
    assert_eq!(problems, [""; 0]);
    assert_eq!(documents[0].controller.as_ref().expect("it is a controller").metadata.name, "web");
}

#[test]
fn a_resource_defined_twice_counts_once_and_both_positions_are_reported() {
    let pod =
        |version: &str, namespace: &str| format!("apiVersion: {version}\nkind: D\nmetadata: {{name: a{namespace}}}\n");
    let text = format!(
        "{}---\n{}---\n{}",
        pod("apps/v1", ""),
        pod("apps/v2", ", namespace: default"),
        pod("apps/v1", ", namespace: other")
    );
    let (mut documents, problems) = read_text("a.yaml", &text);
    assert_eq!(problems, [""; 0]);
    let problems = take_duplicates(&mut documents);
    assert_eq!(documents.len(), 2);
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].to_string(), "a.yaml:7:18: d.apps/a is defined twice; the one at a.yaml:3:18 is used");
}

#[test]
fn invalid_text_and_too_deep_nesting_are_refused_with_their_position() {
    let (_, problems) = read_bytes(Path::new("a.yaml"), b"a: b\nc: \xff\n");
    assert_eq!(problems[0].to_string(), "a.yaml:2:4: the file is not UTF-8 text");
    let (_, problems) = read_bytes(Path::new("a.yaml"), "[".repeat(100_000).as_bytes());
    assert_eq!(problems.len(), 1);
    let aliases: String = (1..40).map(|n| format!("a{n}: &a{n} [*a{0}, *a{0}, *a{0}]\n", n - 1)).collect();
    let (_, problems) = read_bytes(Path::new("a.yaml"), format!("a0: &a0 [x]\n{aliases}").as_bytes());
    assert_eq!(problems.len(), 1);
}

#[test]
fn a_missing_or_too_large_file_is_a_problem_at_its_first_line() {
    let (documents, problems) = read(Path::new("/nowhere/a.yaml"));
    assert!(documents.is_empty());
    assert!(problems[0].to_string().starts_with("/nowhere/a.yaml:1:1: the file cannot be read: "), "{problems:?}");
}
