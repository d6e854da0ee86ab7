use axum::body::{Body, to_bytes};
use axum::response::Response;

use super::*;
use crate::limits::hold_until_sent;

const WAIT: Duration = Duration::from_secs(30);

fn limiter(size: usize) -> Limiter {
    Limiter::new(LimitKind::Bodies, size, WAIT, Metrics::default())
}

fn client(number: u32) -> Client {
    Client::User(number)
}

/// The number of free permits.
fn free(limiter: &Limiter) -> usize {
    limiter.shared.state.lock().free
}

#[tokio::test(start_paused = true)]
async fn request_without_a_permit_waits_and_is_refused_in_the_end() {
    let limiter = limiter(10);
    let held = limiter.acquire(&client(1), 8).await.unwrap();
    assert_eq!(limiter.acquire(&client(2), 3).await.unwrap_err().code(), 429);
    let other = client(2);
    let (granted, ()) = tokio::join!(limiter.acquire(&other, 3), async {
        tokio::time::sleep(WAIT / 2).await;
        drop(held);
    });
    assert!(granted.is_ok(), "there was room before the wait was over");
}

#[tokio::test(start_paused = true)]
async fn request_above_the_limit_takes_all_permits() {
    let limiter = limiter(10);
    let held = limiter.acquire(&client(1), usize::MAX).await.unwrap();
    assert!(limiter.acquire(&client(2), 1).await.is_err());
    drop(held);
    assert!(limiter.acquire(&client(1), 10).await.is_ok());
}

/// However many permits one client requests, the next client finds some free.
#[tokio::test(start_paused = true)]
async fn a_client_leaves_permits_for_the_next_client() {
    let limiter = limiter(64);
    let mut held = Vec::new();
    for (number, share) in [(1, 32), (2, 16), (3, 8)] {
        while let Ok(one) = tokio::time::timeout(Duration::from_secs(1), limiter.acquire(&client(number), 1)).await {
            held.push(one.unwrap());
        }
        assert_eq!(held.iter().filter(|one| one.client == client(number)).count(), share);
    }
    assert!(limiter.acquire(&client(4), 1).await.is_ok());
    drop(held);
    assert_eq!(free(&limiter), 64);
    assert!(limiter.shared.state.lock().clients.is_empty(), "who has nothing is forgotten");
}

/// A hundred requests of one client wait. Each request of another client waits for at most one of them.
#[tokio::test(start_paused = true)]
async fn waiting_clients_get_permits_in_turn_regardless_of_their_requests() {
    let limiter = limiter(2);
    let (first, second) =
        (limiter.acquire(&client(8), 1).await.unwrap(), limiter.acquire(&client(9), 1).await.unwrap());
    let order = Arc::<Mutex<Vec<u32>>>::default();
    let wait = |number: u32, count: usize| -> Vec<_> {
        let one = || {
            let (limiter, order) = (limiter.clone(), order.clone());
            tokio::spawn(async move {
                let held = limiter.acquire(&client(number), 1).await.unwrap();
                order.lock().push(number);
                tokio::time::sleep(Duration::from_millis(100)).await;
                drop(held);
            })
        };
        (0..count).map(|_| one()).collect()
    };
    let mut tasks = wait(1, 100);
    while limiter.shared.state.lock().waiting < 100 {
        tokio::task::yield_now().await;
    }
    tasks.extend(wait(2, 3));
    while limiter.shared.state.lock().waiting < 103 {
        tokio::task::yield_now().await;
    }
    drop((first, second));
    for task in tasks {
        task.await.unwrap();
    }
    let order = order.lock();
    let places: Vec<usize> = order.iter().enumerate().filter(|(_, by)| **by == 2).map(|(at, _)| at).collect();
    assert!(places.len() == 3 && places[2] <= 6, "{places:?}");
    assert_eq!(free(&limiter), 2);
}

#[tokio::test(start_paused = true)]
async fn small_requests_do_not_starve_a_large_one() {
    let limiter = limiter(10);
    let small = limiter.acquire(&client(1), 1).await.unwrap();
    let other = client(2);
    let (large, late) = tokio::join!(limiter.acquire(&other, 10), async {
        let late = tokio::time::timeout(Duration::from_secs(1), limiter.acquire(&client(3), 1)).await;
        drop(small);
        late
    });
    assert!(late.is_err(), "it came later");
    drop(large.unwrap());
    assert_eq!(free(&limiter), 10);
}

#[tokio::test(start_paused = true)]
async fn the_number_of_waiting_requests_is_bounded_per_client_and_in_all() {
    let limiter = limiter(1);
    let held = limiter.acquire(&client(0), 1).await.unwrap();
    let clients = u32::try_from(WAITING_MAX / WAITING_OF_ONE_MAX).unwrap();
    let mut waiting = Vec::new();
    for number in 1..=clients {
        waiting.extend((0..WAITING_OF_ONE_MAX).map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move { limiter.acquire(&client(number), 1).await.is_ok() })
        }));
        let expected = WAITING_OF_ONE_MAX * number as usize;
        while limiter.shared.state.lock().waiting < expected {
            tokio::task::yield_now().await;
        }
        let started = tokio::time::Instant::now();
        assert!(limiter.acquire(&client(number), 1).await.is_err());
        assert_eq!(started.elapsed(), Duration::ZERO, "it was refused at once");
    }
    assert!(limiter.acquire(&client(clients + 1), 1).await.is_err());
    waiting.iter().for_each(|task| task.abort());
    for task in waiting {
        assert!(task.await.is_err());
    }
    drop(held);
    assert_eq!((free(&limiter), limiter.shared.state.lock().waiting), (1, 0));
}

/// A waiting request that is dropped while it is granted returns its permits.
#[tokio::test]
async fn request_dropped_while_granted_returns_its_permits() {
    let (limiter, other) = (limiter(1), client(2));
    for _ in 0..100 {
        let held = limiter.acquire(&client(1), 1).await.unwrap();
        let mut waits = Box::pin(limiter.acquire(&other, 1));
        assert!(futures_util::poll!(waits.as_mut()).is_pending());
        drop(held);
        drop(waits);
        assert_eq!(free(&limiter), 1);
    }
}

#[tokio::test]
async fn a_response_holds_its_permits_until_it_is_sent_and_keeps_its_length() {
    let limiter = limiter(1);
    let response = hold_until_sent(Response::new(Body::from("abc")), limiter.acquire(&client(1), 1).await.unwrap());
    assert_eq!(hyper::body::Body::size_hint(response.body()).exact(), Some(3));
    assert_eq!(free(&limiter), 0);
    assert_eq!(to_bytes(response.into_body(), 10).await.unwrap(), "abc");
    assert_eq!(free(&limiter), 1);
}
