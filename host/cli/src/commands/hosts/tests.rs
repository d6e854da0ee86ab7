use super::*;

fn three() -> [Value; 3] {
    [
        json!({"name": "a", "identity": "a_1", "isThis": false, "isDraining": false, "leases": ["web/0-of-2", "web/1-of-2"],
            "version": "0.1.0", "address": "10.0.0.1:8081", "processors": 8}),
        json!({"name": "b", "identity": "b_2", "isThis": true, "isDraining": false, "leases": []}),
        json!({"name": "c", "identity": "c_3", "isThis": false, "isDraining": true, "leases": ["db"]}),
    ]
}

#[test]
fn the_table_has_a_line_for_each_host_with_its_leases() {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let narrow: Vec<Vec<String>> = table(&three(), false).lines().map(words).collect();
    assert_eq!(narrow[0], ["NAME", "THIS", "STATE", "VERSION", "LEASES"]);
    assert_eq!(narrow[1], ["a", "-", "Active", "0.1.0", "web/0-of-2,web/1-of-2"]);
    assert_eq!(narrow[2], ["b", "yes", "Active", "-", "-"]);
    assert_eq!(narrow[3], ["c", "-", "Draining", "-", "db"]);
    let wide: Vec<Vec<String>> = table(&three(), true).lines().map(words).collect();
    assert_eq!(wide[0][5..], ["ADDRESS", "PROCESSORS", "IDENTITY"]);
    assert_eq!(wide[1][5..], ["10.0.0.1:8081", "8", "a_1"]);
    assert_eq!(wide[3][5..], ["-", "-", "c_3"]);
}

#[test]
fn the_asked_host_is_found_among_the_others() {
    assert_eq!(this(&three()).unwrap()["name"], "b");
    assert!(this(&three()[..1]).is_err());
}
