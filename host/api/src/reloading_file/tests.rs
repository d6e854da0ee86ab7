use super::*;

/// Opens a text file for which only one word is invalid.
fn open(path: &Path, metrics: &Metrics) -> Arc<ReloadingFile<String>> {
    let path = path.to_owned();
    let paths = vec![path.clone()];
    let read = move || match fs::read_to_string(&path).map_err(BadFile::from) {
        Ok(text) if text == "wrong" => Err(BadFile::Content("a wrong word".into())),
        read => read,
    };
    let failed = |source| Error::Tokens { path: PathBuf::new(), source };
    Arc::new(ReloadingFile::open(FileKind::Tokens, paths, metrics.clone(), move || read().map_err(failed)).unwrap())
}

#[tokio::test]
async fn a_reloaded_file_is_checked_at_most_once_per_second() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "old").unwrap();
    let fresh = open(file.path(), &Metrics::default());
    fs::write(file.path(), "new").unwrap();
    fresh.snapshot.lock().checked_at = Instant::now() + CHECK_INTERVAL;
    assert_eq!(*fresh.current().await, "old", "it was looked at too early");
    fresh.make_old();
    assert_eq!(*fresh.current().await, "new");
    assert!(fresh.snapshot.lock().checked_at.elapsed() < CHECK_INTERVAL);
}

#[test]
fn unusable_file_is_counted_once_and_the_last_value_stays() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "old").unwrap();
    let metrics = Metrics::default();
    let fresh = open(file.path(), &metrics);
    let look = || {
        fresh.reload();
        (fresh.last_value().to_string(), metrics.unusable_count(FileKind::Tokens))
    };
    assert_eq!(look(), ("old".into(), 0));
    fs::write(file.path(), "wrong").unwrap();
    assert_eq!(look(), ("old".into(), 1));
    assert_eq!(look(), ("old".into(), 1), "it has not changed since");
    fs::remove_file(file.path()).unwrap();
    assert_eq!(look(), ("old".into(), 2));
    assert_eq!(look(), ("old".into(), 2), "there is still none");
    fs::write(file.path(), "new").unwrap();
    assert_eq!(look(), ("new".into(), 2));
}
