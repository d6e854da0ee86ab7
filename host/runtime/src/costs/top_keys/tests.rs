use std::collections::HashMap;
use std::time::Duration;

use homeostat_fixtures::demo_key;
use proptest::prelude::*;

use super::*;

fn key(n: u16) -> Key {
    demo_key("Thing", &n.to_string())
}

fn cost(cpu_us: u64) -> Cost {
    Cost { cpu: Duration::from_micros(cpu_us), ..Cost::default() }
}

fn keys(tables: &[&TopKeys]) -> Vec<KeyUsage> {
    let mut together = MergedTopKeys::default();
    tables.iter().for_each(|table| together.take(table));
    together.keys()
}

#[test]
fn few_keys_are_all_kept_with_their_full_costs() {
    let mut dearest = TopKeys::default();
    for round in 0..10 {
        for n in 0..KEYS_MAX as u16 {
            dearest.note(&key(n), &cost(u64::from(n)), round == 0);
        }
    }
    let keys = keys(&[&dearest]);
    assert_eq!(keys.len(), KEYS_MAX);
    for KeyUsage { key, spent, at_least } in keys {
        let n: u64 = key.name().parse().unwrap();
        assert_eq!((spent.runs, spent.failures, spent.cpu, at_least), (10, 1, Duration::from_micros(10 * n), false));
        assert_eq!(spent.cpu_max, Duration::from_micros(n));
    }
}

#[test]
fn an_expensive_key_is_found_among_many_cheap_ones() {
    let mut dearest = TopKeys::default();
    for n in 1..20_000 {
        dearest.note(&key(n), &cost(20), false);
        if n % 30 == 0 {
            dearest.note(&key(0), &cost(100), false);
        }
    }
    assert_eq!(keys(&[&dearest]).len(), KEYS_MAX);
    let dear = keys(&[&dearest]).into_iter().find(|found| found.key == key(0)).expect("it is there");
    assert!(dear.spent.runs > 600, "{dear:?}");
}

#[test]
fn a_key_is_expensive_by_any_of_the_measures() {
    let base = cost(10);
    let effects = homeostat_component::EffectCounts::new([50; 12]);
    let dear = [
        cost(1000),
        Cost { memory_bytes_max: 64 << 20, ..base },
        Cost { effects, ..base },
        Cost { bytes_in: 1 << 20, ..base },
        Cost { bytes_out: 1 << 20, ..base },
    ];
    for dear in dear {
        assert!(points(&dear) > 10 * points(&base), "{dear:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_key_above_a_64th_of_the_cost_is_kept_and_no_key_is_overstated(
        runs in prop::collection::vec((prop_oneof![0..10_u16, 0..500_u16], 0..1000_u64), 1..3000),
    ) {
        let (mut dearest, mut exact) = (TopKeys::default(), HashMap::<Key, (u64, Usage)>::new());
        for (n, cpu_us) in &runs {
            dearest.note(&key(*n), &cost(*cpu_us), false);
            let known = exact.entry(key(*n)).or_default();
            known.0 += points(&cost(*cpu_us));
            known.1.add(&cost(*cpu_us), false);
        }
        let total: u64 = exact.values().map(|(points, _)| points).sum();
        prop_assert_eq!(dearest.points.iter().sum::<u64>(), total);
        prop_assert!(dearest.entries.len() <= KEYS_MAX);
        for (key, (points, spent)) in &exact {
            let at = dearest.entries.iter().position(|entry| entry.key == *key);
            prop_assert!(at.is_some() || *points <= total / KEYS_MAX as u64, "{} of {}", points, total);
            let Some(at) = at else { continue };
            let Entry { spent: found, inherited, .. } = &dearest.entries[at];
            prop_assert!(dearest.points[at] >= *points && dearest.points[at] - inherited <= *points);
            prop_assert!(found.cpu <= spent.cpu && found.runs <= spent.runs);
            prop_assert!(*inherited > 0 || found == spent);
        }
    }
    #[test]
    fn merged_tables_keep_every_key_above_a_64th_of_the_cost(
        runs in prop::collection::vec((0..3_usize, prop_oneof![0..10_u16, 0..500_u16], 0..1000_u64), 1..5000),
    ) {
        let (mut tables, mut exact) = ([(); 3].map(|()| TopKeys::default()), HashMap::<Key, (u64, Usage)>::new());
        for (thread, n, cpu_us) in &runs {
            tables[*thread].note(&key(*n), &cost(*cpu_us), false);
            let known = exact.entry(key(*n)).or_default();
            known.0 += points(&cost(*cpu_us));
            known.1.add(&cost(*cpu_us), false);
        }
        let total: u64 = exact.values().map(|(points, _)| points).sum();
        let found = keys(&tables.each_ref());
        prop_assert!(found.len() <= KEYS_MAX);
        for (key, (points, spent)) in &exact {
            let Some(found) = found.iter().find(|found| found.key == *key) else {
                prop_assert!(*points <= total / KEYS_MAX as u64, "{} of {}", points, total);
                continue;
            };
            prop_assert!(found.spent.cpu <= spent.cpu && found.spent.runs <= spent.runs);
            prop_assert!(found.at_least || found.spent == *spent);
        }
    }
}
