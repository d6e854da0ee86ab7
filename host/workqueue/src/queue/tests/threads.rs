use std::sync::atomic::{AtomicBool, AtomicU32};

use homeostat_testing::{BOUND, soon};

use super::*;

/// Starts workers that run keys until the queue is closed, and returns the number of runs.
fn workers(queue: &Queue<u32>, count: usize, run: impl Fn(u32) + Clone + Send + 'static) -> Vec<Running> {
    (0..count)
        .map(|_| {
            let (queue, run) = (queue.clone(), run.clone());
            tokio::spawn(async move {
                let mut runs = 0;
                while let Some(claim) = queue.claim().await {
                    run(*claim.key());
                    runs += 1;
                    tokio::task::yield_now().await;
                    claim.finish(Next::Done);
                }
                runs
            })
        })
        .collect()
}

type Running = tokio::task::JoinHandle<u32>;

async fn total(workers: Vec<Running>) -> u32 {
    let mut runs = 0;
    for worker in workers {
        runs += soon(worker).await.unwrap();
    }
    runs
}

/// Q6: each added key runs once, with any number of workers.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_hundred_keys_and_ten_workers_give_two_hundred_runs() {
    let queue = queue();
    let workers = workers(&queue, 10, |_| {});
    queue.add_all(0..200, Priority::NORMAL).unwrap();
    let report = queue.drain(BOUND).await;
    assert_eq!((report.dropped, total(workers).await), (vec![], 200));
}

/// Q5: no two workers hold the same key, and no key is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_producers_and_ten_workers_lose_no_key_and_never_run_one_twice_at_once() {
    const KEYS: u32 = 40;
    let queue = queue();
    // For each key: whether it is running, its last requested version, and the last version that a run has
    // seen.
    let busy: Arc<Vec<AtomicBool>> = Arc::new((0..KEYS).map(|_| AtomicBool::new(false)).collect());
    let asked: Arc<Vec<AtomicU32>> = Arc::new((0..KEYS).map(|_| AtomicU32::new(0)).collect());
    let seen: Arc<Vec<AtomicU32>> = Arc::new((0..KEYS).map(|_| AtomicU32::new(0)).collect());
    let workers: Vec<_> = (0..10)
        .map(|_| {
            let (queue, busy, asked, seen) = (queue.clone(), Arc::clone(&busy), Arc::clone(&asked), Arc::clone(&seen));
            tokio::spawn(async move {
                while let Some(claim) = queue.claim().await {
                    let key = *claim.key() as usize;
                    assert!(!busy[key].swap(true, Ordering::SeqCst), "{key} runs twice at once");
                    seen[key].store(asked[key].load(Ordering::SeqCst), Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    busy[key].store(false, Ordering::SeqCst);
                    claim.finish(if key.is_multiple_of(3) {
                        Next::Done
                    } else {
                        Next::After(Duration::from_secs(3600))
                    });
                }
            })
        })
        .collect();
    let producers: Vec<_> = (0..50_u32)
        .map(|producer| {
            let (queue, asked) = (queue.clone(), Arc::clone(&asked));
            tokio::spawn(async move {
                for round in 0..200 {
                    let key = (producer * 7 + round * 13) % KEYS;
                    asked[key as usize].fetch_add(1, Ordering::SeqCst);
                    queue.add(key, Priority::ALL[(round % 5) as usize]).unwrap();
                    if round % 16 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
            })
        })
        .collect();
    for producer in producers {
        producer.await.unwrap();
    }
    let report = soon(queue.drain(BOUND)).await;
    for worker in workers {
        soon(worker).await.unwrap();
    }
    assert!(report.running.is_empty());
    for key in 0..KEYS as usize {
        let (asked, seen) = (asked[key].load(Ordering::SeqCst), seen[key].load(Ordering::SeqCst));
        assert_eq!(asked, seen, "the last add of {key} was not seen by a run");
    }
    assert_eq!(queue.counts(), KeyCounts::default());
}

/// Q11: an add always wakes a worker.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_add_between_looking_and_sleeping_is_never_lost() {
    let queue = queue();
    let ran = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&ran);
    let workers = workers(&queue, 3, move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let feeder = queue.clone();
    // Each key is added only after the run of the one before: a single lost wake-up stops the test.
    let feeding = tokio::task::spawn_blocking(move || {
        let began = std::time::Instant::now();
        for key in 0..20_000 {
            add(&feeder, key);
            while ran.load(Ordering::SeqCst) <= key {
                assert!(began.elapsed() < BOUND, "key {key} was never run");
                std::hint::spin_loop();
            }
        }
    });
    feeding.await.unwrap();
    queue.stop();
    assert_eq!(total(workers).await, 20_000);
}

/// Q11: an add always wakes a worker.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn claimers_that_keep_giving_up_lose_no_key() {
    const KEYS: u32 = 3000;
    let queue = queue();
    let impatient: Vec<_> = (0..6)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move {
                let mut runs = 0;
                while !queue.phase().is_closed() {
                    tokio::select! {
                        claim = queue.claim() => if let Some(claim) = claim {
                            runs += 1;
                            claim.finish(Next::Done);
                        },
                        () = tokio::task::yield_now() => {}
                    }
                }
                runs
            })
        })
        .collect();
    for key in 0..KEYS {
        match key % 3 {
            0 => add(&queue, key),
            _ => add_after(&queue, key, Duration::from_micros(u64::from(key % 1000))),
        };
        tokio::task::yield_now().await;
    }
    while queue.counters().claims < u64::from(KEYS) {
        tokio::task::yield_now().await;
    }
    queue.stop();
    assert_eq!(total(impatient).await, KEYS);
}
