use super::*;
use crate::{Key, Kind, Query};

fn path(number: usize) -> Path {
    Path::of(&Key::new(Kind::new("", "v1", "Pod"), "default", &format!("n{number:06}")))
}

fn start() -> Start {
    let query = Query::all(Kind::new("", "v1", "Pod"));
    Start::of(&query, "s", Revision::ZERO).unwrap()
}

/// Reads on in a history in which revision N changed path N, and returns the revision at which the read
/// started.
fn read_on(pasts: &ChangesSinceCache, since: u64, now: u64) -> (Option<u64>, SharedChanges) {
    let mut asked = None;
    let scan = |after: Revision, tell: &mut dyn FnMut(&[u8], Revision)| {
        asked = Some(after.0);
        (after.0 + 1..=now).for_each(|revision| tell(&path(revision as usize).0, Revision(revision)));
        Ok(())
    };
    let past = pasts.changes_up_to(&start(), Revision(since), Revision(now), scan).unwrap();
    (asked, past)
}

#[test]
fn each_page_reads_only_the_history_since_the_page_before() {
    let pasts = ChangesSinceCache::default();
    assert_eq!(read_on(&pasts, 10, 20).0, Some(10));
    assert_eq!(read_on(&pasts, 10, 20).0, None);
    assert_eq!(read_on(&pasts, 10, 25).0, Some(20));
    assert_eq!(read_on(&pasts, 11, 25).0, Some(11), "another list has a past of its own");
    let (_, past) = read_on(&pasts, 10, 25);
    assert_eq!(changed(past, &start(), Revision(25)).count(), 15);
}

#[test]
fn what_changed_after_the_present_of_a_page_has_not_changed_there() {
    let (_, past) = read_on(&ChangesSinceCache::default(), 0, 500);
    let seen: Vec<u64> = changed(past, &start(), Revision(200)).map(|(_, revision)| revision.0).collect();
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
    let past = pasts.changes_up_to(&start(), Revision(0), Revision(3), scan).unwrap();
    assert_eq!(changed(past, &start(), Revision(3)).collect::<Vec<_>>(), [(path(1), Revision(1))]);
}

#[test]
fn what_is_kept_is_bounded_and_a_list_that_ended_is_forgotten() {
    let pasts = ChangesSinceCache::default();
    let kept = || lock(&pasts.0).len();
    (0..40).for_each(|since| drop(read_on(&pasts, since, 50)));
    assert_eq!(kept(), LISTS_MAX);
    pasts.end(&start(), Revision(39));
    assert_eq!(kept(), LISTS_MAX - 1);
    let (_, past) = read_on(&pasts, 0, KEYS_MAX as u64 + 1);
    assert_eq!(changed(past, &start(), Revision(u64::MAX)).count(), KEYS_MAX + 1, "the page itself has all of it");
    assert_eq!(kept(), 0);
}
