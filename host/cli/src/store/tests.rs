use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// Opens a store after this many refusals. Returns the result and the number of attempts.
async fn tried(refusals: u32) -> (Result<()>, u32) {
    let tries = Arc::new(AtomicU32::new(0));
    let counted = tries.clone();
    let open = move || match counted.fetch_add(1, Ordering::SeqCst) {
        before if before < refusals => Err(OpenError::Locked { path: "store.redb".into() }),
        _ => Ok(()),
    };
    (once_free(open).await, tries.load(Ordering::SeqCst))
}

#[tokio::test(start_paused = true)]
async fn a_store_file_that_is_about_to_be_released_is_waited_for() {
    let (opened, tries) = tried(3).await;
    assert_eq!((opened.is_ok(), tries), (true, 4));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_stays_in_use_is_refused_after_a_second() {
    let began = Instant::now();
    let (opened, _) = tried(u32::MAX).await;
    assert!(matches!(opened.unwrap_err().downcast_ref(), Some(OpenError::Locked { .. })));
    assert!((IN_USE_MAX..2 * IN_USE_MAX).contains(&began.elapsed()), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_for_another_reason_is_not_tried_again() {
    let tries = Arc::new(AtomicU32::new(0));
    let counted = tries.clone();
    let open = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        Err::<(), _>(OpenError::Damaged { path: "store.redb".into(), reason: "cut".into() })
    };
    assert!(once_free(open).await.is_err());
    assert_eq!(tries.load(Ordering::SeqCst), 1);
}
