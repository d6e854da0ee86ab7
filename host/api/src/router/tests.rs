use std::time::Duration;

use axum::body::Body;
use futures_util::stream;

use super::*;
use crate::metrics::Scarce;
use crate::room::Room;

/// Bounds of bodies of 100 bytes, and room for three.
fn limits() -> Limits {
    let room = |scarce, size| Room::new(scarce, size, Duration::from_secs(10), Metrics::default());
    Limits {
        watches: room(Scarce::Watches, 1),
        requests: room(Scarce::Requests, 1),
        lists: room(Scarce::Lists, 1),
        bodies: room(Scarce::Bodies, 300),
        body_bytes_max: 100,
        request_max: Duration::from_secs(30),
        watch_max: Duration::MAX,
        answer_max: Duration::MAX,
    }
}

/// A body that does not say how long it is.
fn unmeasured(bytes: usize) -> Body {
    Body::from_stream(stream::iter([Ok::<_, std::convert::Infallible>(vec![b'x'; bytes])]))
}

/// A body of so many bytes, which do not come.
fn silent(bytes: u64) -> Body {
    struct Silent(u64);
    impl hyper::body::Body for Silent {
        type Data = Bytes;
        type Error = std::convert::Infallible;
        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Self::Error>>> {
            std::task::Poll::Pending
        }
        fn size_hint(&self) -> hyper::body::SizeHint {
            hyper::body::SizeHint::with_exact(self.0)
        }
    }
    Body::new(Silent(bytes))
}

#[tokio::test(start_paused = true)]
async fn a_body_is_read_when_there_is_room_for_all_of_it_beside_those_of_others() {
    let limits = limits();
    let code = async |body| read(body, &limits).await.map_or_else(|failure| failure.code(), |_| 200);
    let held = [read(unmeasured(7), &limits).await.unwrap(), read(Body::from(vec![b'x'; 100]), &limits).await.unwrap()];
    assert_eq!(held[0].0, "xxxxxxx");
    // One that does not say its length takes what any body may take.
    assert_eq!(code(Body::from(vec![b'x'; 100])).await, 200);
    let last = read(Body::from(vec![b'x'; 90]), &limits).await.unwrap();
    assert_eq!(code(Body::from(vec![b'x'; 11])).await, 429);
    assert_eq!(code(unmeasured(1)).await, 429);
    assert_eq!(code(Body::from("ten bytes!")).await, 200);
    assert_eq!(code(Body::empty()).await, 200, "nothing takes no room");
    drop(last);
    assert_eq!(code(unmeasured(1)).await, 200);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_gives_its_room_back_in_time() {
    let limits = limits();
    let (late, taken) = tokio::join!(read(silent(100), &limits), async {
        tokio::time::sleep(Duration::from_secs(25)).await;
        limits.bodies.take(300).await
    });
    assert_eq!(late.unwrap_err().code(), 408);
    assert!(taken.is_ok());
}

#[tokio::test]
async fn a_body_that_says_that_it_is_too_long_is_not_waited_for() {
    assert_eq!(read(silent(101), &limits()).await.unwrap_err().code(), 413);
    assert_eq!(read(unmeasured(101), &limits()).await.unwrap_err().code(), 413);
}
