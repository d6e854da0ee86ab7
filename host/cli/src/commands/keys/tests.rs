use super::*;

#[test]
fn the_result_line_has_the_due_time() {
    let queue = |items: Value| json!({ "metadata": { "name": "web" }, "items": items });
    assert_eq!(result_line("pod/a", "cancelled", &queue(json!([]))), "pod/a cancelled by web\n");
    assert_eq!(result_line("pod/a", "retried", &queue(json!([{ "state": "ready" }]))), "pod/a retried by web\n");
    let waits = queue(json!([{ "state": "waiting", "dueInMs": 61_000 }]));
    assert_eq!(result_line("pod/a", "enqueued", &waits), "pod/a enqueued by web, due in 61s\n");
    let held = queue(json!([{ "state": "waiting", "dueInMs": 61_000, "held": true }]));
    assert_eq!(
        result_line("pod/a", "enqueued", &held),
        "pod/a enqueued by web, due in 61s, no event makes it earlier\n"
    );
}

#[test]
fn a_priority_is_sent_by_its_name() {
    use clap::ValueEnum;
    let words: Vec<String> = Priority::value_variants().iter().map(|priority| word(*priority)).collect();
    assert_eq!(words, homeostat_runtime::Priority::ALL.map(homeostat_runtime::Priority::as_str));
    assert_eq!(word(Priority::default()), homeostat_runtime::Priority::default().as_str());
}
