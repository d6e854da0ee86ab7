use super::{KINDS_MAX, ReadWatermark, ReadWatermarks, TypeName};
use crate::Revision;

fn kind(number: usize) -> TypeName {
    ("demo.dev".to_owned(), format!("Kind{number}"))
}

#[test]
fn a_kind_keeps_the_highest_revision_until_its_cache_begins() {
    let mut kinds = ReadWatermarks::default();
    for revision in [3, 7, 5] {
        kinds.add(kind(1), ReadWatermark::at(Revision(revision)));
    }
    kinds.add(kind(2), ReadWatermark::UNKNOWN);
    assert_eq!(kinds.take(&kind(1)), ReadWatermark::at(Revision(7)));
    assert_eq!(kinds.take(&kind(1)), ReadWatermark::default());
    assert_eq!(kinds.take(&kind(2)), ReadWatermark::UNKNOWN);
}

#[test]
fn a_kind_for_which_there_is_no_room_was_shown_up_to_an_unknown_revision() {
    let mut kinds = ReadWatermarks::default();
    for number in 0..KINDS_MAX + 10 {
        kinds.add(kind(number), ReadWatermark::at(Revision(5)));
    }
    kinds.add(kind(0), ReadWatermark::at(Revision(6)));
    assert_eq!(kinds.kinds.len(), KINDS_MAX);
    assert_eq!(
        (kinds.take(&kind(0)), kinds.take(&kind(KINDS_MAX))),
        (ReadWatermark::at(Revision(6)), ReadWatermark::UNKNOWN)
    );
    kinds.clear();
    assert_eq!(kinds.take(&kind(KINDS_MAX)), ReadWatermark::default());
}
