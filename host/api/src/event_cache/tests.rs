use super::*;

fn key(revision: u64, event_type: &'static str, metadata: bool, kind: &str) -> EventCacheKey {
    let format = if metadata { EventFormat::Metadata } else { EventFormat::Document };
    EventCacheKey { revision: Revision(revision), event_type, format, kind: kind.into() }
}

#[test]
fn event_is_encoded_once_for_all_watches() {
    let lines = EncodedEventCache::default();
    let first = lines.get_or_encode(key(1, "ADDED", false, "v1 Pod"), || Bytes::from(vec![b'a'; 64]));
    let again = lines.clone().get_or_encode(key(1, "ADDED", false, "v1 Pod"), || panic!("it is written a second time"));
    assert_eq!(first.as_ptr(), again.as_ptr());
    for other in [
        key(2, "ADDED", false, "v1 Pod"),
        key(1, "MODIFIED", false, "v1 Pod"),
        key(1, "ADDED", true, "v1 Pod"),
        key(1, "ADDED", false, "v2 Pod"),
        key(1, "ADDED", false, "v1 Secret"),
    ] {
        assert_eq!(lines.get_or_encode(other.clone(), || "other".into()), "other", "{other:?}");
    }
}

#[test]
fn cache_is_bounded_in_events_and_bytes() {
    let lines = EncodedEventCache::default();
    let size = || {
        let cache = lines.0.lock();
        (cache.lines.len(), cache.bytes)
    };
    let add =
        |revision, bytes| drop(lines.get_or_encode(key(revision, "ADDED", false, "v1 Pod"), || vec![0; bytes].into()));
    (0..1000).for_each(|revision| add(revision, 1));
    assert_eq!(size(), (LINES_MAX, LINES_MAX));
    (1000..1010).for_each(|revision| add(revision, BYTES_MAX / 4));
    assert_eq!(size(), (4, BYTES_MAX));
    add(2000, BYTES_MAX + 1);
    assert_eq!(size(), (0, 0));
}
