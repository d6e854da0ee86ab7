//! Tests of the write-ahead log alone.

use redb::backends::InMemoryBackend;

use super::*;

const LAYOUT_BYTES: u64 = 64 * 1024;

fn layout() -> Layout {
    Layout::with_wal(LAYOUT_BYTES)
}

fn file() -> Arc<dyn StorageBackend> {
    let file = InMemoryBackend::new();
    layout().write(&file).expect("memory");
    Arc::new(file)
}

fn entry(first: u64, rows: &[usize]) -> Entry {
    let rows = rows.iter().map(|length| vec![u8::try_from(first % 251).expect("small"); *length]).collect();
    Entry { first: Revision(first), at_ms: 1000 + first, compacted: Revision(first / 2), rows }
}

/// Appends an entry, and returns whether it fit.
fn append(journal: &mut WriteAheadLog, entry: &Entry) -> bool {
    journal.begin_entry();
    for row in &entry.rows {
        journal.add(|bytes| bytes.extend(row));
    }
    journal.append(entry.first, entry.at_ms, entry.compacted).expect("memory")
}

/// Returns the entries after a revision, or the damage.
fn follow(file: &dyn StorageBackend, after: u64) -> Result<Vec<Entry>, String> {
    let read = |entry: &EntryLocation| entry.read(file, layout()).expect("memory").expect("it was whole");
    let found = entries(file, layout(), Revision(after)).expect("memory")?;
    Ok(found.entries.iter().map(read).collect())
}

/// Returns the revisions of the entries, or the damage.
fn found(file: &dyn StorageBackend, after: u64) -> Result<Vec<u64>, String> {
    follow(file, after).map(|entries| entries.iter().map(|entry| entry.first.0).collect())
}

/// Returns the incomplete entry.
fn cut_off(file: &dyn StorageBackend, after: u64) -> Option<CutOff> {
    entries(file, layout(), Revision(after)).expect("memory").expect("nothing is lost").cut_off
}

/// Flips the bits of one byte of the log.
fn turn(file: &dyn StorageBackend, at: u64) {
    let at = layout().wal().0 + at;
    let mut byte = [0];
    file.read(at, &mut byte).expect("memory");
    file.write(at, &[!byte[0]]).expect("memory");
}

#[test]
fn entries_after_the_checkpoint_are_read() {
    let file = file();
    assert_eq!(found(&*file, 0), Ok(vec![]));
    let mut journal = WriteAheadLog::new(Arc::clone(&file), layout(), Revision::ZERO, IoFailure::default());
    let written = [entry(1, &[10]), entry(2, &[0, 700, 3]), entry(5, &[2000])];
    for entry in &written {
        assert!(append(&mut journal, entry));
    }
    assert_eq!(follow(&*file, 0), Ok(Vec::from(written)));
    assert_eq!(cut_off(&*file, 0), None);
    assert_eq!(found(&*file, 5), Ok(vec![]), "the pages have everything, as after a close in order");
}

#[test]
fn a_round_is_read_from_where_the_pages_are_in_it() {
    let file = file();
    let mut journal = WriteAheadLog::new(Arc::clone(&file), layout(), Revision::ZERO, IoFailure::default());
    for entry in [entry(1, &[10]), entry(2, &[0, 700, 3]), entry(5, &[2000]), entry(6, &[1])] {
        assert!(append(&mut journal, &entry));
    }
    assert_eq!(journal.last(), Revision(6));
    for (pages, wanted) in [(1, vec![2, 5, 6]), (4, vec![5, 6]), (5, vec![6]), (6, vec![])] {
        assert_eq!(found(&*file, pages), Ok(wanted), "{pages}");
    }
    let half = found(&*file, 3).expect_err("pages take in whole entries");
    assert!(half.contains("in the middle"), "{half}");
    // The first entry is in the pages, but the later entries cannot be reached without it. Damages its rows,
    // and its base.
    for at in [90, 42] {
        turn(&*file, at);
        let lost = found(&*file, 1).expect_err("the others are not to be lost in silence");
        assert!(lost.contains("lacks revisions after 1"), "{lost}");
        assert_eq!(found(&*file, 6), Ok(vec![]));
        turn(&*file, at);
    }
}

#[test]
fn leftovers_of_an_earlier_round_are_not_read() {
    let file = file();
    let mut journal = WriteAheadLog::new(Arc::clone(&file), layout(), Revision::ZERO, IoFailure::default());
    for first in 1..10 {
        assert!(append(&mut journal, &entry(first, &[300])));
    }
    journal.start_round(Revision(9));
    assert!(append(&mut journal, &entry(10, &[900])));
    assert!(append(&mut journal, &entry(11, &[20])));
    assert_eq!(found(&*file, 9), Ok(vec![10, 11]));
    assert_eq!(found(&*file, 11), Ok(vec![]));
}

#[test]
fn an_entry_torn_by_an_earlier_crash_is_not_a_loss() {
    let file = file();
    let mut journal = WriteAheadLog::new(Arc::clone(&file), layout(), Revision::ZERO, IoFailure::default());
    for first in 1..=2 {
        assert!(append(&mut journal, &entry(first, &[100])));
    }
    // Its header is intact, and its rows are not.
    assert!(append(&mut journal, &entry(3, &[100, 100, 100])));
    turn(&*file, 2 * 512 + 100);
    assert_eq!(found(&*file, 0), Ok(vec![1, 2]));
    // The next process continues after it.
    let mut journal = WriteAheadLog::new(Arc::clone(&file), layout(), Revision(2), IoFailure::default());
    assert_eq!(found(&*file, 2), Ok(vec![]));
    assert!(append(&mut journal, &entry(3, &[10])));
    assert_eq!(found(&*file, 2), Ok(vec![3]));
}

#[test]
fn a_full_log_takes_no_entry() {
    let file = file();
    let mut journal = WriteAheadLog::new(Arc::clone(&file), layout(), Revision::ZERO, IoFailure::default());
    let mut written = 0;
    while append(&mut journal, &entry(written + 1, &[5000])) {
        written += 1;
    }
    assert_eq!(written, LAYOUT_BYTES / 5120);
    assert_eq!(found(&*file, 0).map(|found| found.len() as u64), Ok(written));
    let mut none = WriteAheadLog::new(file, Layout::PLAIN, Revision::ZERO, IoFailure::default());
    assert!(!append(&mut none, &entry(1, &[1])));
}

#[test]
fn an_incomplete_entry_ends_the_log_and_a_lost_entry_is_damage() {
    for (at, what) in [(0, "the magic"), (9, "the revision"), (65, "the checksum of the head"), (90, "a row")] {
        let file = file();
        let mut journal = WriteAheadLog::new(Arc::clone(&file), layout(), Revision::ZERO, IoFailure::default());
        for first in 1..=3 {
            assert!(append(&mut journal, &entry(first, &[100])));
        }
        turn(&*file, 2 * 512 + at);
        assert_eq!(found(&*file, 0), Ok(vec![1, 2]), "{what} of the last one");
        turn(&*file, 2 * 512 + at);
        turn(&*file, 512 + at);
        let said = found(&*file, 0).expect_err(what);
        assert!(said.contains("has revision 3, but lacks revisions after 1"), "{said}");
        assert_eq!(found(&*file, 3), Ok(vec![]), "what is in the pages does not matter any more");
    }
}

#[test]
fn a_journal_that_begins_too_late_is_damage() {
    let file = file();
    let mut journal = WriteAheadLog::new(Arc::clone(&file), layout(), Revision(6), IoFailure::default());
    assert!(append(&mut journal, &entry(7, &[1, 1])));
    let said = found(&*file, 3).expect_err("the pages are older than the journal");
    assert!(said.contains("its pages are at revision 3, but its write-ahead log starts after 6"), "{said}");
    assert_eq!(found(&*file, 6), Ok(vec![7]));
}

#[test]
fn an_incomplete_entry_is_reported_and_called_damaged_if_no_crash_explains_it() {
    let last = Revision(4);
    // Damage in one sector, which a disk writes completely or not at all.
    let small = Some((last, (HEAD_BYTES + 2 * 104) as u64));
    // Damage in an entry of two sectors: a crash may have written only one of them.
    let large = Some((last, (HEAD_BYTES + 2 * 304) as u64));
    for (at, length, extent, is_damage) in
        [(10, 100, None, true), (90, 100, small, true), (10, 300, None, true), (90, 300, large, false)]
    {
        let file = file();
        let mut journal = WriteAheadLog::new(Arc::clone(&file), layout(), Revision::ZERO, IoFailure::default());
        for entry in [entry(1, &[100, 100]), entry(3, &[length, length])] {
            assert!(append(&mut journal, &entry));
        }
        assert_eq!(cut_off(&*file, 0), None, "all is there");
        turn(&*file, 512 + at);
        assert_eq!(cut_off(&*file, 0), Some(CutOff { first: Revision(3), extent, is_damage }), "{at} of {length}");
        assert_eq!(found(&*file, 0), Ok(vec![1]));
    }
    // A leftover of another round is no entry of this one.
    let file = file();
    let mut journal = WriteAheadLog::new(Arc::clone(&file), layout(), Revision::ZERO, IoFailure::default());
    for first in [1, 2] {
        assert!(append(&mut journal, &entry(first, &[100])));
    }
    journal.start_round(Revision(2));
    assert!(append(&mut journal, &entry(3, &[100])));
    assert_eq!(cut_off(&*file, 2), None);
}
