use super::*;

fn takes(uri: &str) -> RequestClass {
    RequestClass::classify(&Method::GET, &uri.parse().unwrap()).unwrap()
}

#[test]
fn streams_are_classified_by_their_query() {
    assert_eq!(takes("/api/v1/pods"), RequestClass::Answer);
    assert_eq!(takes("/api/v1/pods?watch=0"), RequestClass::Answer);
    for uri in ["/api/v1/pods?watch=True", "/api/v1/pods?watch", "/api/v1/pods?watch=true&timeoutSeconds=0"] {
        assert_eq!(takes(uri), RequestClass::Watch(None), "{uri}");
    }
    let day = Duration::from_secs(24 * 3600);
    for (seconds, time) in [("9", Duration::from_secs(9)), ("86401", day), ("18446744073709551615", day)] {
        let uri = format!("/api/v1/pods?watch=1&timeoutSeconds={seconds}");
        assert_eq!(takes(&uri), RequestClass::Watch(Some(time)), "{uri}");
    }
    for seconds in ["soon", "-1", ""] {
        let uri = format!("/api/v1/pods?watch=1&timeoutSeconds={seconds}").parse().unwrap();
        assert_eq!(RequestClass::classify(&Method::GET, &uri).unwrap_err().code(), 400, "{uri}");
    }
    assert_eq!(takes("/homeostat/v1/logs?follow=1"), RequestClass::RecordStream);
    assert_eq!(takes("/homeostat/v1/backup?watch=1"), RequestClass::Backup);
    for uri in ["/livez", "/readyz?verbose", "/metrics?watch=1"] {
        assert_eq!(takes(uri), RequestClass::Probe, "{uri}");
    }
    assert_eq!(
        RequestClass::classify(&Method::DELETE, &"/api/v1/pods?watch=1".parse().unwrap()).unwrap(),
        RequestClass::Answer
    );
}

#[test]
fn every_word_but_0_and_false_asks_for_a_stream() {
    assert_eq!(takes("/api/v1/pods?watch=maybe"), RequestClass::Watch(None));
    assert_eq!(takes("/homeostat/v1/logs?follow=maybe"), RequestClass::RecordStream);
    assert_eq!(takes("/api/v1/pods?watch=False"), RequestClass::Answer);
}

#[test]
fn a_repeated_query_parameter_hides_no_watch() {
    assert_eq!(takes("/homeostat/v1/logs?watch=0&watch=0&follow=1"), RequestClass::RecordStream);
    assert_eq!(takes("/api/v1/pods?watch=0&watch=1"), RequestClass::Watch(None));
}

#[tokio::test(start_paused = true)]
async fn stream_ends_in_time_even_with_more_to_send() {
    let words = futures_util::stream::repeat_with(|| Ok::<_, std::convert::Infallible>("more"));
    let words = words.then(async |word| {
        tokio::time::sleep(Duration::from_millis(10)).await;
        word
    });
    let (held, left) = tokio::sync::oneshot::channel::<()>();
    let end = stream_end(CancellationToken::new(), Some(Duration::from_secs(1)), None);
    let body = hold_until_sent(Response::new(until(end, Body::from_stream(words))), held).into_body();
    let sent = tokio::time::timeout(Duration::from_secs(60), axum::body::to_bytes(body, usize::MAX)).await;
    assert!((90 * 4..=100 * 4).contains(&sent.expect("it ends").unwrap().len()));
    assert!(left.await.is_err(), "what it held is free");
}

#[test]
fn watches_end_in_the_upper_half_of_their_time_and_not_together() {
    let hour = Duration::from_secs(3600);
    let times: Vec<Duration> = (0..64).map(|_| between_half_and_all(hour)).collect();
    assert!(times.iter().all(|time| (hour / 2..=hour).contains(time)), "{times:?}");
    assert!(times.iter().any(|time| *time != times[0]), "{times:?}");
}
