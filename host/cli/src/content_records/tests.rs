use std::os::unix::fs::PermissionsExt;

use super::*;

fn open(data: &Path, names: &[&str]) -> Arc<ContentRecords> {
    ContentRecords::open(data, names.iter().map(|name| Arc::from(*name)).collect()).unwrap()
}

fn content(id: &str) -> KnownContent {
    KnownContent { id: id.to_owned(), reached: Some(Revision(7)) }
}

#[tokio::test]
async fn a_record_outlives_the_host_and_is_for_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let records = open(&data, &["bus"]);
    assert_eq!(records.of("bus"), None);
    let bus = records.record(&"bus".into());
    bus.write(&content("one")).await.unwrap();
    bus.write(&content("two")).await.unwrap();
    assert_eq!(open(&data, &["bus"]).of("bus"), Some(content("two")));
    for (path, mode) in [(data.clone(), 0o700), (data.join(CONTENTS), 0o600)] {
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, mode);
    }
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 1, "no draft is left");
}

#[tokio::test]
async fn a_store_that_was_renamed_is_known_by_its_content() {
    let folder = tempfile::tempdir().unwrap();
    let records = open(folder.path(), &["bus"]);
    records.record(&"bus".into()).write(&content("one")).await.unwrap();
    let records = open(folder.path(), &["events"]);
    let events = records.record(&"events".into());
    assert_eq!((records.of("events"), events.other_name("one").as_deref()), (None, Some("bus")));
    assert_eq!(events.other_name("two"), None);
    events.write(&content("one")).await.unwrap();
    assert_eq!(records.record(&"bus".into()).other_name("one").as_deref(), Some("events"));
}

#[tokio::test]
async fn records_of_former_stores_are_dropped_at_the_bound() {
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..=RECORDS_MAX).map(|at| format!("store-{at:02}")).collect();
    let present = names.last().unwrap().as_str();
    let records = open(folder.path(), &["store-00", present]);
    for name in &names {
        records.record(&name.as_str().into()).write(&content("one")).await.unwrap();
    }
    let records = open(folder.path(), &[]);
    assert_eq!(records.lock().stores.len(), RECORDS_MAX);
    assert!(records.of("store-00").is_some() && records.of(present).is_some() && records.of("store-01").is_none());
}

#[tokio::test]
async fn an_id_that_is_too_long_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let records = open(folder.path(), &["bus"]);
    let refused = records.record(&"bus".into()).write(&content(&"x".repeat(ID_BYTES_MAX + 1))).await.unwrap_err();
    assert!(refused.to_string().contains("more than 1024 bytes"), "{refused}");
    assert_eq!(open(folder.path(), &["bus"]).of("bus"), None);
}

#[test]
fn a_damaged_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for text in ["{", "{}", r#"{"stores": {"bus": "one"}}"#] {
        std::fs::write(folder.path().join(CONTENTS), text).unwrap();
        let refused = ContentRecords::open(folder.path(), vec![]).unwrap_err().to_string();
        assert!(refused.contains(CONTENTS) && refused.contains("restore it, or remove it"), "{refused}");
    }
}

#[tokio::test]
async fn a_record_that_cannot_be_written_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let records = open(&folder.path().join("data"), &["bus"]);
    std::fs::write(folder.path().join("data"), "a file").unwrap();
    let refused = records.record(&"bus".into()).write(&content("one")).await.unwrap_err();
    assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
    assert_eq!(records.of("bus"), None);
}
