//! Tests of the arithmetic.

use super::*;
use crate::arguments::{Size, Suite};
use crate::plan;
use crate::values::named;

fn work() -> Work {
    plan::works(Suite::Queue).into_iter().find(|work| work.name == "add+get+done").unwrap()
}

fn samples(ours: &[f64], peer: &[f64]) -> Samples {
    let runs = |values: &[f64]| values.iter().map(|value| named([("ns", *value)])).collect();
    Samples::from([("homeostat", runs(ours)), ("client-go", runs(peer))])
}

#[test]
fn a_median_is_the_middle_one_whatever_the_order() {
    assert_eq!(median(&[5.0, 1.0, 3.0]), Some(3.0));
    assert_eq!(median(&[4.0, 1.0, 3.0, 100.0]), Some(3.5));
    assert_eq!(median(&[]), None);
}

#[test]
fn a_spread_is_the_range_over_the_median() {
    assert_eq!(spread(&[90.0, 100.0, 120.0]), Some(0.3));
    assert_eq!(spread(&[100.0]), Some(0.0));
    assert_eq!(spread(&[0.0, 0.0]), None);
}

#[test]
fn a_ratio_above_one_means_that_ours_is_better() {
    assert_eq!(ratio(Better::Lower, 50.0, 200.0), Some(4.0));
    assert_eq!(ratio(Better::Higher, 50.0, 200.0), Some(0.25));
    assert_eq!(ratio(Better::Lower, 0.0, 200.0), None);
}

#[test]
fn a_row_has_the_medians_of_both_sides() {
    let rows = rows(&work(), &samples(&[40.0, 50.0, 70.0], &[300.0, 150.0, 200.0]));
    let row = rows.iter().find(|row| row.peer_name == Some("client-go workqueue")).unwrap();
    assert_eq!((row.ours, row.peer, row.ratio), (50.0, Some(200.0), Some(4.0)));
    assert_eq!(row.spread, Spread { ours: Some(0.6), peer: Some(0.75) });
}

#[test]
fn a_failed_peer_leaves_a_row_without_a_peer() {
    let rows = rows(&work(), &samples(&[40.0], &[]));
    let row = rows.iter().find(|row| row.peer_name == Some("client-go workqueue")).unwrap();
    assert_eq!((row.ours, row.peer, row.ratio), (40.0, None, None));
    assert_eq!(rows.len(), work().peers.len());
}

#[test]
fn a_work_without_peers_has_a_row_for_each_figure() {
    let work = Work { peers: Vec::new(), ..work() };
    let rows = rows(&work, &samples(&[40.0], &[]));
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].peer_name, None);
}

#[test]
fn the_excess_over_the_peer_is_computed_round_by_round() {
    let mut work = work();
    work.figures[0].comparison = Comparison::AbovePeer;
    let rows = rows(&work, &samples(&[15.0, 17.0, 30.0], &[10.0, 10.0, 20.0]));
    let row = rows.iter().find(|row| row.peer_name == Some("client-go workqueue")).unwrap();
    assert_eq!((row.ours, row.peer), (7.0, Some(10.0)));
}

#[test]
fn the_file_has_the_fields_that_others_read() {
    let row = rows(&work(), &samples(&[50.0], &[200.0])).remove(0);
    let expected = serde_json::json!({
        "figure": "add+get+done", "unit": "ns/key", "better": "lower", "ours": 50.0, "peer": 200.0,
        "peer_name": "client-go workqueue", "ratio": 4.0, "spread": {"ours": 0.0, "peer": 0.0},
    });
    assert_eq!(serde_json::to_value(row).unwrap(), expected);
}

#[test]
fn a_table_has_a_line_for_each_row() {
    let size = Size { keys: 1, workers: 1, millis: 1 };
    let work = Work { size, ..work() };
    let table = table(&rows(&work, &samples(&[50.0], &[2000.0])));
    let line = table.lines().find(|line| line.contains("client-go workqueue")).unwrap();
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    assert_eq!(
        cells,
        ["", "add+get+done", "ns/key", "50.0", "2,000", "client-go workqueue", "40.0 x", "0 %", "0 %", ""]
    );
}
