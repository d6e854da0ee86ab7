use homeostat_store::{Key, Kind};
use homeostat_testing::{grows_by_at_most, measured, with_slack};

use super::*;
use crate::effect::WasiResource;

fn ask(verb: Verb, namespace: &str, name: &str) -> Attempt {
    Attempt::Resource { verb, key: Key::new(Kind::new("apps", "v1", "Deployment"), namespace, name) }
}

fn http(url: &str) -> Attempt {
    Attempt::Http { method: "GET".to_owned(), url: url.to_owned() }
}

fn places(needs: &Needs) -> Vec<(String, String, u64, u64)> {
    let seen = needs.snapshot().resources.into_iter();
    seen.map(|need| (need.namespace, need.name, need.asked, need.denied)).collect()
}

#[test]
fn few_accesses_are_recorded_by_name_and_counted() {
    let needs = Needs::default();
    for (name, denied) in [("a", false), ("a", true), ("b", false)] {
        needs.record(&ask(Verb::Get, "blue", name), denied);
    }
    let of = |name: &str, asked, denied| ("blue".to_owned(), name.to_owned(), asked, denied);
    assert_eq!(places(&needs), [of("a", 2, 1), of("b", 1, 0)]);
    assert_eq!(needs.snapshot().resources[0].kind, "apps/Deployment");
    needs.clear();
    assert!(needs.snapshot().is_empty());
}

#[test]
fn many_names_are_merged_and_then_many_namespaces() {
    let needs = Needs::default();
    for n in 0..=PLACES_MAX {
        needs.record(&ask(Verb::Get, "blue", &n.to_string()), n == 0);
    }
    needs.record(&ask(Verb::Get, "green", "a"), false);
    let all = |namespace: &str, asked, denied| (namespace.to_owned(), "*".to_owned(), asked, denied);
    assert_eq!(places(&needs), [all("blue", 65, 1), all("green", 1, 0)]);
    for n in 0..PLACES_MAX {
        needs.record(&ask(Verb::Get, &n.to_string(), "a"), false);
    }
    assert_eq!(places(&needs), [all("*", 65 + 1 + 64, 1)]);
}

#[test]
fn a_star_in_a_recorded_name_covers_only_that_name() {
    let needs = Needs::default();
    needs.record(&ask(Verb::Get, "blue", "a*"), true);
    assert_eq!(places(&needs), [("blue".to_owned(), "*".to_owned(), 1, 1)]);
    needs.record(&ask(Verb::Delete, "blue", "b"), false);
    assert_eq!(places(&needs)[1].1, "b");
}

#[test]
fn the_record_of_accesses_is_bounded() {
    let needs = Needs::default();
    for n in 0..1000 {
        let kind = Kind::new("demo", "v1", format!("K{n}"));
        needs.record(&Attempt::Resource { verb: Verb::Get, key: Key::new(kind, "a", "b") }, true);
        needs.record(&http(&format!("https://h{n}.example/")), true);
        needs.record(&Attempt::Settings { key: Some(n.to_string()) }, false);
    }
    let NeedsSnapshot { resources, http, settings, more, .. } = needs.snapshot();
    assert_eq!((resources.len(), http.len(), settings.len(), more), (CELLS_MAX, CELLS_MAX, SETTINGS_MAX, true));
}

#[test]
fn recorded_addresses_have_no_query_and_are_merged_by_host_when_many() {
    let needs = Needs::default();
    needs.record(&http("https://api.example.com/v1/items?token=secret#part"), false);
    needs.record(&http("https://api.example.com"), false);
    let urls = |needs: &Needs| needs.snapshot().http.into_iter().map(|need| need.url).collect::<Vec<_>>();
    assert_eq!(urls(&needs), ["https://api.example.com/", "https://api.example.com/v1/items"]);
    for n in 0..PLACES_MAX {
        needs.record(&http(&format!("https://api.example.com/{n}")), false);
    }
    assert_eq!(urls(&needs), ["https://api.example.com/*"]);
}

#[test]
fn the_difference_of_two_snapshots_is_the_accesses_in_between() {
    let needs = Needs::default();
    needs.record(&ask(Verb::Get, "blue", "a"), false);
    needs.record(&Attempt::Clock, false);
    let before = needs.snapshot();
    needs.record(&ask(Verb::Get, "blue", "b"), true);
    needs.record(&ask(Verb::List, "blue", "a"), false);
    let since = needs.snapshot().since(&before);
    let seen: Vec<_> = since.resources.iter().map(|need| (need.verb, need.name.as_str(), need.denied)).collect();
    assert_eq!(seen, [(Verb::Get, "b", 1), (Verb::List, "a", 0)]);
    assert_eq!((since.clock, needs.snapshot().since(&needs.snapshot()).is_empty()), (0, true));
}

/// Returns a text of this many bytes that begins with a number.
fn long(bytes: usize, number: usize) -> String {
    format!("{number:n<bytes$}")
}

#[test]
fn names_beyond_their_bytes_are_merged_by_kind() {
    let needs = Needs::default();
    for n in 0..CELLS_MAX {
        for name in 0..PLACES_MAX {
            let key = Key::new(Kind::new("demo", "v1", format!("K{n}")), &long(63, name), &long(253, name));
            needs.record(&Attempt::Resource { verb: Verb::Get, key }, true);
        }
    }
    let resources = needs.snapshot().resources;
    let of = |kind: &str| resources.iter().filter(|need| need.kind == kind).collect::<Vec<_>>();
    assert_eq!(of("demo/K0").len(), PLACES_MAX, "the first had room");
    let last = of(&format!("demo/K{}", CELLS_MAX - 1));
    assert_eq!((last.len(), &*last[0].namespace, &*last[0].name), (1, ANY, ANY), "the last had none");
    assert_eq!((last[0].asked, last[0].denied), (PLACES_MAX as u64, PLACES_MAX as u64), "each is counted");
}

measured! {
    /// Measures several controllers, because one alone takes less than the process itself grows by.
    fn the_record_of_accesses_takes_no_more_memory_than_its_bound measure_needs {
        const CONTROLLERS: usize = 16;
        grows_by_at_most(with_slack(CONTROLLERS as u64 * BYTES_MAX), || {
            let all: Vec<Needs> = (0..CONTROLLERS).map(|_| Needs::default()).collect();
            for needs in &all {
                for cell in 0..CELLS_MAX + 8 {
                    for place in 0..PLACES_MAX {
                        let kind = Kind::new(long(253, cell), "v1", long(253, cell));
                        // As many namespaces as names, so that their number does not cause a merge.
                        let key = Key::new(kind, &long(253, place), &long(TEXT_BYTES_MAX, place));
                        needs.record(&Attempt::Resource { verb: Verb::Get, key }, true);
                        let (host, path) = (long(60, cell), long(TEXT_BYTES_MAX - 1, place));
                        needs.record(&http(&format!("https://h{host}.example/{path}")), true);
                    }
                    needs.record(&Attempt::Settings { key: Some(long(TEXT_BYTES_MAX, cell)) }, false);
                    let hidden = format!("{cell}{}", "\u{202e}".repeat(200));
                    needs.record(&Attempt::Absent(WasiResource::File(hidden).cut()), true);
                }
            }
            let seen = all[0].snapshot();
            assert_eq!((seen.settings.len(), seen.absent.len()), (SETTINGS_MAX, SETTINGS_MAX));
            all
        });
    }
}

#[test]
fn the_needs_of_two_hosts_are_added_by_place() {
    let record = |names: &[&str], url: &str, setting: &str| {
        let needs = Needs::default();
        for name in names {
            needs.record(&ask(Verb::Get, "blue", name), *name == "b");
        }
        needs.record(&http(url), true);
        needs.record(&Attempt::Settings { key: Some(setting.to_owned()) }, false);
        needs.record(&Attempt::Clock, false);
        needs.snapshot()
    };
    let (a, b) = (record(&["b", "c"], "https://a.example/x", "x"), record(&["a", "b"], "https://a.example/y", "x"));
    let mut both = a.clone();
    both.add(b.clone());
    let counts: Vec<_> = both.resources.iter().map(|need| (&*need.name, need.asked, need.denied)).collect();
    assert_eq!(counts, [("a", 1, 0), ("b", 2, 2), ("c", 1, 0)]);
    assert_eq!(both.http.len(), 2);
    assert_eq!((both.settings.len(), both.clock, both.more), (1, 2, false));
    let mut other_way = b;
    other_way.add(a.clone());
    assert_eq!(both, other_way);
    both.add(NeedsSnapshot { more: true, ..a });
    assert!(both.more && both.http.iter().any(|need| need.asked == 2));
}
