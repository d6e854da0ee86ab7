use axum::body::to_bytes;

use super::*;

const WAIT: Duration = Duration::from_secs(30);

fn room(size: usize) -> Room {
    Room::new(Scarce::Bodies, size, WAIT, Metrics::default())
}

#[tokio::test(start_paused = true)]
async fn who_finds_no_room_waits_and_is_asked_to_come_back_in_the_end() {
    let room = room(10);
    let held = room.take(8).await.unwrap();
    assert_eq!(room.take(3).await.unwrap_err().code(), 429);
    let (taken, ()) = tokio::join!(room.take(3), async {
        tokio::time::sleep(WAIT / 2).await;
        drop(held);
    });
    assert!(taken.is_ok(), "there was room before the wait was over");
}

#[tokio::test(start_paused = true)]
async fn what_is_larger_than_the_room_takes_all_of_it() {
    let room = room(10);
    let held = room.take(usize::MAX).await.unwrap();
    assert!(room.take(1).await.is_err());
    drop(held);
    assert!(room.take(10).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn no_more_than_so_many_wait() {
    let room = room(1);
    let _held = room.take(1).await.unwrap();
    let waiting: Vec<_> = (0..WAITING_MAX)
        .map(|_| {
            tokio::spawn({
                let room = room.clone();
                async move { room.take(1).await.is_ok() }
            })
        })
        .collect();
    while room.line.available_permits() > 0 {
        tokio::task::yield_now().await;
    }
    let asked = tokio::time::Instant::now();
    assert!(room.take(1).await.is_err());
    assert_eq!(asked.elapsed(), Duration::ZERO, "it was refused at once");
    waiting.into_iter().for_each(|task| task.abort());
}

#[tokio::test]
async fn an_answer_holds_its_room_until_it_is_sent_and_keeps_its_length() {
    let room = room(1);
    let response = hold(Response::new(Body::from("abc")), room.take(1).await.unwrap());
    assert_eq!(hyper::body::Body::size_hint(response.body()).exact(), Some(3));
    assert_eq!(room.free.available_permits(), 0);
    assert_eq!(to_bytes(response.into_body(), 10).await.unwrap(), "abc");
    assert_eq!(room.free.available_permits(), 1);
}
