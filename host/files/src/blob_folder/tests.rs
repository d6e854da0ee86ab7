use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

use super::*;

fn blobs(folder: &Path) -> BlobFolder {
    BlobFolder { folder: folder.to_owned(), prefix: "sha256-", suffix: ".blob" }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Writes a file that was last used `seconds` ago.
fn write_used(path: &Path, seconds: u64) {
    fs::write(path, "x").unwrap();
    File::open(path).unwrap().set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
}

#[test]
fn a_blob_is_read_only_while_it_matches_its_digest_and_fits() {
    let folder = tempfile::tempdir().unwrap();
    let (blobs, digest) = (blobs(folder.path()), Digest::of(b"blob"));
    assert_eq!(blobs.read(&digest, 4).unwrap_err().kind(), io::ErrorKind::NotFound);
    let put_durable = || blobs.put_durable(&digest, b"blob");
    let put_evicting = || blobs.put_evicting(&digest, &[b"bl", b"ob"], 4);
    for put in [&put_durable as &dyn Fn() -> io::Result<()>, &put_evicting] {
        fs::write(blobs.path(&digest), b"blog").unwrap();
        assert_eq!(blobs.read(&digest, 4).unwrap(), None);
        put().unwrap();
        assert_eq!(blobs.read(&digest, 4).unwrap().unwrap(), b"blob");
        assert_eq!(blobs.read(&digest, 3).unwrap(), None);
        assert_eq!(mode(&blobs.path(&digest)), 0o600);
    }
}

#[test]
fn abandoned_drafts_are_removed_and_files_of_others_stay() {
    let folder = tempfile::tempdir().unwrap();
    let [old, new, foreign, near] =
        [".draft-1", ".draft-2", "notes", "sha256-00.blob"].map(|it| folder.path().join(it));
    for (file, seconds) in [(&old, 7200), (&new, 60), (&foreign, 7200), (&near, 7200)] {
        write_used(file, seconds);
    }
    let (blobs, digest) = (blobs(folder.path()), Digest::of(b"blob"));
    blobs.put_evicting(&digest, &[b"blob"], 4).unwrap();
    let left: BTreeSet<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, BTreeSet::from([blobs.path(&digest), new, foreign, near]));
}

#[test]
fn the_blobs_used_longest_ago_are_evicted_first() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = blobs(folder.path());
    let [first, second, third] = ["1", "2", "3"].map(|text| Digest::of(text.as_bytes()));
    write_used(&blobs.path(&first), 30);
    write_used(&blobs.path(&second), 20);
    blobs.mark_used(&first).unwrap();
    blobs.put_evicting(&third, &[b"3"], 2).unwrap();
    assert_eq!([&first, &second, &third].map(|it| blobs.path(it).exists()), [true, false, true]);
}

#[test]
fn a_missing_folder_has_nothing_to_remove() {
    let folder = tempfile::tempdir().unwrap();
    let missing = blobs(&folder.path().join("missing"));
    missing.remove_unused(Duration::ZERO, SystemTime::now(), |_| false).unwrap();
}

#[test]
fn a_new_folder_is_accessible_to_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("one/two");
    make_private_folder(&made).unwrap();
    make_private_folder(&made).unwrap();
    assert_eq!((mode(&made), mode(&folder.path().join("one"))), (0o700, 0o700));
}
