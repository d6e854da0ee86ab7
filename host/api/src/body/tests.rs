use std::convert::Infallible;

use futures_util::{StreamExt, stream};

use super::*;
use crate::Metrics;
use crate::metrics::LimitKind;

const KIB: usize = 1024;

/// Limits with bodies of 2 MiB, and permits for four of them.
fn limits() -> BodyLimits {
    BodyLimits {
        all: Limiter::new(LimitKind::Bodies, 8192 * KIB, Duration::from_secs(10), Metrics::default()),
        bytes_max: 2048 * KIB,
        beginning_bytes_max: 64 * KIB,
        time_max: Duration::from_secs(30),
    }
}

fn client(number: u32) -> Client {
    Client::User(number)
}

/// A body that declares so many bytes, and sends its pieces one each second.
fn drips(length: usize, frames: impl IntoIterator<Item = usize, IntoIter: Send + 'static>) -> Body {
    struct Says(Body, u64);
    impl hyper::body::Body for Says {
        type Data = Bytes;
        type Error = axum::Error;
        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, axum::Error>>> {
            std::pin::Pin::new(&mut self.0).poll_frame(context)
        }
        fn size_hint(&self) -> hyper::body::SizeHint {
            hyper::body::SizeHint::with_exact(self.1)
        }
    }
    let frames = stream::iter(frames.into_iter().enumerate()).then(async |(at, bytes)| {
        if at > 0 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok::<_, Infallible>(vec![b'x'; bytes])
    });
    Body::new(Says(Body::from_stream(frames), length as u64))
}

/// A body without a declared length.
fn unmeasured(bytes: usize) -> Body {
    Body::from_stream(stream::iter([Ok::<_, Infallible>(vec![b'x'; bytes])]))
}

async fn code(body: Body, by: u32, limits: &BodyLimits) -> u16 {
    read(body, &client(by), limits).await.map_or_else(|failure| failure.code(), |_| 200)
}

/// Forty bodies declare 2 MiB each and send a byte a second. They reserve only the bytes that arrive.
#[tokio::test(start_paused = true)]
async fn slow_bodies_delay_no_other_client_and_time_out() {
    let limits = limits();
    let slow = futures_util::future::join_all((0..40).map(|_| code(drips(2048 * KIB, vec![1; 3600]), 1, &limits)));
    let others = async {
        for second in 0..30 {
            let started = Instant::now();
            for body in [Body::from(vec![b'x'; 2048 * KIB]), Body::from("small"), unmeasured(100 * KIB)] {
                assert_eq!(code(body, 2, &limits).await, 200, "after {second} s");
            }
            assert_eq!(started.elapsed(), Duration::ZERO, "nobody waited after {second} s");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    let (codes, ()) = tokio::join!(slow, others);
    assert!(codes.iter().all(|code| *code == 408), "{codes:?}");
}

/// Here the first part is so long that the declared length is reserved. It only takes the share of one
/// client, and not for long.
#[tokio::test(start_paused = true)]
async fn bodies_that_stop_half_way_leave_room_for_other_clients_and_end() {
    let limits = limits();
    let slow =
        (0..40).map(|_| code(drips(2048 * KIB, [100 * KIB, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]), 1, &limits));
    let others = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let started = Instant::now();
        assert_eq!(code(Body::from(vec![b'x'; 2048 * KIB]), 2, &limits).await, 200);
        assert_eq!(started.elapsed(), Duration::ZERO);
    };
    let (codes, ()) = tokio::join!(futures_util::future::join_all(slow), others);
    assert!(codes.iter().all(|code| [408, 429].contains(code)), "{codes:?}");
    assert!(codes.contains(&408));
}

/// More incomplete bodies than there are permits for: each is read in the end.
#[tokio::test(start_paused = true)]
async fn incomplete_bodies_do_not_wait_for_each_other() {
    let limits = limits();
    let bodies = (0..20).map(|by| code(drips(2048 * KIB, vec![128 * KIB; 16]), by % 5, &limits));
    let codes = futures_util::future::join_all(bodies).await;
    assert!(codes.iter().filter(|code| **code == 200).count() >= 4, "{codes:?}");
    assert!(codes.iter().all(|code| [200, 429].contains(code)), "{codes:?}");
    assert_eq!(code(Body::from(vec![b'x'; 2048 * KIB]), 9, &limits).await, 200, "and all room is free again");
}

#[tokio::test(start_paused = true)]
async fn a_body_holds_its_permits_until_it_is_answered() {
    let limits = limits();
    let (bytes, held) = read(unmeasured(7), &client(1), &limits).await.unwrap();
    assert_eq!(bytes, "xxxxxxx");
    let all = async || limits.all.acquire(&client(2), 8192 * KIB).await.map_or_else(|failure| failure.code(), |_| 200);
    assert_eq!(all().await, 429);
    drop(held);
    assert_eq!(all().await, 200);
    assert!(read(Body::empty(), &client(1), &limits).await.unwrap().1.is_none(), "nothing takes no room");
}

#[tokio::test(start_paused = true)]
async fn a_body_slower_than_the_minimum_rate_is_cut_off() {
    let limits = limits();
    assert_eq!(code(drips(512 * KIB, vec![20 * KIB; 25]), 1, &limits).await, 200, "20 KiB/s");
    let started = Instant::now();
    assert_eq!(code(drips(512 * KIB, vec![8 * KIB; 64]), 1, &limits).await, 408, "8 KiB/s");
    assert!(started.elapsed() < Duration::from_secs(12), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_body_above_its_maximum_is_refused_without_waiting() {
    assert_eq!(code(drips(2049 * KIB, []), 1, &limits()).await, 413);
    assert_eq!(code(unmeasured(2049 * KIB), 1, &limits()).await, 413);
}
