use std::sync::atomic::AtomicU64;

use redb::backends::InMemoryBackend;

use super::*;

#[test]
fn after_a_failed_sync_every_sync_fails() {
    let latch = IoFailure::default();
    let pages = FailStopFile::over(Arc::new(InMemoryBackend::new()), latch.clone());
    let done = AtomicU64::new(0);
    let sync = || {
        done.fetch_add(1, Ordering::SeqCst);
        Ok(())
    };
    latch.run_sync(sync).expect("memory");
    pages.sync_data().expect("memory");
    assert!(!latch.has_sync_failed());
    let failed = latch.run_sync(|| Err(io::Error::other("the disk is on fire"))).expect_err("it fails");
    assert_eq!(failed.to_string(), "the disk is on fire");
    for refused in [latch.run_sync(sync), pages.sync_data(), pages.write(0, b"x")] {
        let refused = refused.expect_err("what was written before may be gone").to_string();
        assert!(refused.contains("an earlier write has failed: the disk is on fire"), "{refused}");
    }
    assert!(latch.has_sync_failed());
    assert_eq!(done.into_inner(), 1, "nothing is written after it");
}

#[test]
fn a_failed_write_ends_syncs_but_is_not_a_failed_sync() {
    let latch = IoFailure::default();
    let pages = FailStopFile::over(Arc::new(InMemoryBackend::new()), latch.clone());
    latch.run_write(|| Err(io::Error::other("no such sector"))).expect_err("it fails");
    assert!(latch.has_write_failed() && latch.has_failed());
    latch.run_sync(|| Ok(())).expect_err("what it would sync is not all there");
    pages.set_len(1).expect_err("nothing is written any more");
    assert!(!latch.has_sync_failed(), "none was made");
    assert_eq!(latch.write_error(), Some("no such sector"));
}

#[test]
fn a_read_that_failed_ends_no_writes() {
    let latch = IoFailure::default();
    let pages = FailStopFile::over(Arc::new(InMemoryBackend::new()), latch.clone());
    assert!(!latch.has_failed());
    pages.read(0, &mut [0; 8]).expect_err("it is empty");
    assert!(latch.has_failed() && !latch.has_write_failed());
    pages.set_len(8).expect("memory");
    pages.sync_data().expect("memory");
}
