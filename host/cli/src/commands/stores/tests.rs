use super::*;

#[test]
fn the_table_has_a_line_for_each_store() {
    let items = [
        json!({"name": "home", "storage": "embedded", "state": "Ready", "revision": "7", "id": "a", "kinds": []}),
        json!({"name": "bus", "storage": "nats", "state": "Away", "since": "2026-01-01T00:00:00Z", "reason": "refused", "notes": ["one", "two"], "kinds": ["apps/*", "v1/Pod"]}),
    ];
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let narrow: Vec<Vec<String>> = table(&items, false).lines().map(words).collect();
    assert_eq!(narrow[0], ["NAME", "STORAGE", "STATE", "KINDS"]);
    assert_eq!(narrow[1], ["home", "embedded", "Ready", "-"]);
    assert_eq!(narrow[2], ["bus", "nats", "Away", "apps/*,v1/Pod"]);
    let wide: Vec<Vec<String>> = table(&items, true).lines().map(words).collect();
    assert_eq!(wide[1][4..], ["7", "a", "-", "-", "-"]);
    assert_eq!(wide[2][4..], ["-", "-", "2026-01-01T00:00:00Z", "refused", "one;", "two"]);
}
