use std::cell::Cell;

use homeostat_testing::{grows_by_at_most, measured, with_slack};

use super::*;
use crate::{Key, Kind, Query};

fn path(number: usize) -> Path {
    Path::of(&Key::new(Kind::new("", "v1", "Pod"), "default", &format!("n{number:06}")))
}

fn start() -> Start {
    let query = Query::all(Kind::new("", "v1", "Pod"));
    Start::of(&query, "s", Revision::ZERO).unwrap()
}

/// Reads on in a history in which revision N changed the Nth path. Returns the revision at which the last read
/// started, and the changes.
fn read_on(
    pasts: &ChangesSinceCache,
    since: u64,
    now: u64,
    path: fn(usize) -> Path,
) -> (Option<u64>, Vec<(Path, Revision)>) {
    let asked = Cell::new(None);
    let scan = |after: Revision, tell: &mut dyn FnMut(&[u8], Revision)| {
        asked.set(Some(after.0));
        (after.0 + 1..=now).for_each(|revision| tell(&path(revision as usize).0, Revision(revision)));
        Ok(())
    };
    let changed = pasts.changes_up_to(&start(), Revision(since), Revision(now), scan).unwrap();
    let asked_at_first = asked.get();
    (asked_at_first, changed.map(Result::unwrap).collect())
}

fn bytes(pasts: &ChangesSinceCache) -> u64 {
    lock(&pasts.0).iter().map(|kept| lock(&kept.past).bytes).sum()
}

#[test]
fn each_page_reads_only_the_history_since_the_page_before() {
    let pasts = ChangesSinceCache::default();
    assert_eq!(read_on(&pasts, 10, 20, path).0, Some(10));
    assert_eq!(read_on(&pasts, 10, 20, path).0, None);
    assert_eq!(read_on(&pasts, 10, 25, path).0, Some(20));
    assert_eq!(read_on(&pasts, 11, 25, path).0, Some(11), "another list has a past of its own");
    assert_eq!(read_on(&pasts, 10, 25, path).1.len(), 15);
}

#[test]
fn changes_after_the_present_of_a_page_are_not_in_it() {
    let pasts = ChangesSinceCache::default();
    read_on(&pasts, 0, 500, path);
    let seen: Vec<u64> = read_on(&pasts, 0, 200, path).1.into_iter().map(|(_, revision)| revision.0).collect();
    assert_eq!(seen, (1..=200).collect::<Vec<_>>());
}

#[test]
fn the_first_change_of_a_path_counts_and_others_are_of_other_lists() {
    let pasts = ChangesSinceCache::default();
    let scan = |_: Revision, tell: &mut dyn FnMut(&[u8], Revision)| {
        let other = Path::of(&Key::new(Kind::new("", "v1", "Secret"), "default", "a"));
        for (path, revision) in [(path(1), 1), (other, 2), (path(1), 3)] {
            tell(&path.0, Revision(revision));
        }
        Ok(())
    };
    let changed = pasts.changes_up_to(&start(), Revision(0), Revision(3), scan).unwrap();
    assert_eq!(changed.map(Result::unwrap).collect::<Vec<_>>(), [(path(1), Revision(1))]);
}

/// More changes than fit in the window of a page.
const MANY: u64 = 3 * WINDOW_BYTES_MAX / 2 / KEY_BYTES;

#[test]
fn a_page_over_more_changes_than_fit_at_once_sees_each_of_them() {
    // Later changes have earlier paths.
    fn backwards(number: usize) -> Path {
        path(999_999 - number)
    }
    for path in [path, backwards] {
        let pasts = ChangesSinceCache::default();
        let (_, mut changed) = read_on(&pasts, 0, MANY, path);
        assert!(bytes(&pasts) <= WINDOW_BYTES_MAX);
        assert!(changed.is_sorted());
        changed.sort_by_key(|(_, revision)| *revision);
        let expected = (1..=MANY).map(|revision| (path(revision as usize), Revision(revision)));
        assert!(changed.into_iter().eq(expected), "each once, with its revision");
    }
}

#[test]
fn a_page_behind_the_window_reads_the_history_again() {
    let pasts = ChangesSinceCache::default();
    read_on(&pasts, 0, MANY, path);
    let behind = MANY - 10;
    let start = Start { after: Some(path(behind as usize)), ..start() };
    let scan = |after: Revision, tell: &mut dyn FnMut(&[u8], Revision)| {
        assert_eq!(after, Revision::ZERO);
        (1..=MANY).for_each(|revision| tell(&path(revision as usize).0, Revision(revision)));
        Ok(())
    };
    let changed = pasts.changes_up_to(&start, Revision(0), Revision(MANY), scan).unwrap();
    let revisions: Vec<u64> = changed.map(|changed| changed.unwrap().1.0).collect();
    assert_eq!(revisions, (behind + 1..=MANY).collect::<Vec<_>>());
}

#[test]
fn the_cache_is_bounded_and_a_list_that_ended_is_evicted() {
    let pasts = ChangesSinceCache::default();
    let kept = || lock(&pasts.0).len();
    (0..40).for_each(|since| drop(read_on(&pasts, since, 50, path)));
    assert_eq!(kept(), LISTS_MAX);
    pasts.end(&start(), Revision(39));
    assert_eq!(kept(), LISTS_MAX - 1);
    (0..6).for_each(|since| drop(read_on(&pasts, since, MANY, path)));
    assert!((1..6).contains(&kept()), "the oldest went: {}", kept());
    assert!(bytes(&pasts) <= BYTES_MAX);
}

/// Fills the cache beyond its bound with these paths, and iterates over the last list.
fn fill(paths: &[Path]) -> ChangesSinceCache {
    let pasts = ChangesSinceCache::default();
    for since in 0..6 {
        let scan = |after: Revision, tell: &mut dyn FnMut(&[u8], Revision)| {
            let changes = paths.iter().zip(1..).skip(after.0 as usize);
            changes.for_each(|(path, revision)| tell(&path.0, Revision(revision)));
            Ok(())
        };
        let changed = pasts.changes_up_to(&start(), Revision(since), Revision(paths.len() as u64), scan).unwrap();
        if since == 5 {
            assert_eq!(changed.map(Result::unwrap).count(), paths.len() - 5);
        }
    }
    pasts
}

/// The cache, and the window of the page that reads.
const MEASURED_BYTES_MAX: u64 = with_slack(BYTES_MAX + WINDOW_BYTES_MAX);

measured! {
    fn pasts_of_short_names_take_no_more_memory_than_their_bound measure_short_pasts {
        let paths: Vec<Path> = (1..=MANY as usize).map(path).collect();
        grows_by_at_most(MEASURED_BYTES_MAX, || fill(&paths));
    }

    fn pasts_of_the_longest_names_take_no_more_memory_than_their_bound measure_long_pasts {
        let longest = |number| Key::new(Kind::new("", "v1", "Pod"), &"n".repeat(63), &format!("{number:0>253}"));
        let paths: Vec<Path> = (1..MANY as usize / 3).map(|number| Path::of(&longest(number))).collect();
        grows_by_at_most(MEASURED_BYTES_MAX, || fill(&paths));
    }
}
