use std::fs;
use std::time::{Duration, SystemTime};

use super::*;

const ALL: u64 = u64::MAX;

#[tokio::test]
async fn damaged_blob_counts_as_missing() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(folder.path().join("new"));
    let digest = Digest::of(b"blob");
    assert_eq!(cache.get(&digest, ALL).await, None);
    cache.put(&digest, b"blob".to_vec()).await.unwrap();
    assert_eq!(cache.get(&digest, ALL).await.unwrap(), b"blob");
    assert_eq!(cache.get(&digest, 3).await, None, "it is larger than it may be");
    fs::write(cache.blobs.path(&digest), b"blog").unwrap();
    assert_eq!(cache.get(&digest, ALL).await, None);
    cache.put(&digest, b"blob".to_vec()).await.unwrap();
    assert_eq!(cache.get(&digest, ALL).await.unwrap(), b"blob", "it is whole again");
}

#[tokio::test]
async fn least_recently_used_blob_is_evicted() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache { bytes_max: 9, ..Cache::new(folder.path().to_owned()) };
    let digests: Vec<Digest> = [b"one1", b"two2", b"thr3"].iter().map(|bytes| Digest::of(*bytes)).collect();
    fs::write(folder.path().join("note.txt"), "of somebody else").unwrap();
    for (at, bytes) in [b"one1", b"two2"].iter().enumerate() {
        cache.put(&digests[at], bytes.to_vec()).await.unwrap();
        let file = fs::File::options().write(true).open(cache.blobs.path(&digests[at])).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(at as u64)).unwrap();
    }
    assert!(cache.get(&digests[0], ALL).await.is_some(), "used");
    cache.put(&digests[2], b"thr3".to_vec()).await.unwrap();
    assert!(cache.get(&digests[0], ALL).await.is_some());
    assert!(cache.get(&digests[1], ALL).await.is_none());
    assert!(cache.get(&digests[2], ALL).await.is_some());
    assert!(folder.path().join("note.txt").exists());
}
