use super::*;

const SECOND: Duration = Duration::from_secs(1);
const BOUNDS: TimeoutOptions =
    TimeoutOptions { first: SECOND, idle: Duration::from_secs(10), stall: Duration::from_secs(3) };

fn state(now: Instant) -> State {
    State { requests: 0, in_flight: 0, idle_since: now, turn_ends: BTreeMap::new() }
}

#[test]
fn a_connection_has_less_time_for_its_first_request_than_between_two() {
    let opened = Instant::now();
    let mut state = state(opened);
    assert_eq!(state.next_check(&BOUNDS, opened), Ok(opened + SECOND));
    assert_eq!(state.next_check(&BOUNDS, opened + SECOND), Err(CloseReason::Idle));
    state.requests = 1;
    assert_eq!(state.next_check(&BOUNDS, opened + 9 * SECOND), Ok(opened + 10 * SECOND));
    assert_eq!(state.next_check(&BOUNDS, opened + 10 * SECOND), Err(CloseReason::Idle));
}

#[test]
fn slow_response_is_kept_while_the_client_reads() {
    let opened = Instant::now();
    let mut state = State { requests: 2, in_flight: 2, ..state(opened) };
    assert_eq!(state.next_check(&BOUNDS, opened + 100 * SECOND), Ok(opened + 103 * SECOND));
    state.turn_ends = BTreeMap::from([(1, opened + 103 * SECOND), (2, opened + 102 * SECOND)]);
    assert_eq!(state.next_check(&BOUNDS, opened + 100 * SECOND), Ok(opened + 102 * SECOND));
    assert_eq!(state.next_check(&BOUNDS, opened + 102 * SECOND), Err(CloseReason::Stalled));
}

#[tokio::test]
async fn a_response_body_is_sent_in_pieces_and_reports_who_is_waiting() {
    use http_body_util::BodyExt;
    use hyper::body::Body as _;

    let timeouts = ConnectionTimeouts::new(BOUNDS);
    let long = vec![b'x'; 2 * PIECE_BYTES + 1];
    let mut body = timeouts.begin_request().body(Body::from(long.clone()));
    assert_eq!(body.size_hint().exact(), Some(long.len() as u64));
    let mut lengths = Vec::new();
    while let Some(frame) = body.frame().await {
        lengths.push(frame.unwrap().into_data().unwrap().len());
        assert_eq!(timeouts.state.lock().turn_ends.len(), 1, "it is the client's turn");
    }
    assert_eq!(lengths, [PIECE_BYTES, PIECE_BYTES, 1]);
    assert!(body.is_end_stream() && timeouts.state.lock().turn_ends.is_empty());
    drop(body);
    assert_eq!(timeouts.state.lock().in_flight, 0);
}

/// Returns the seconds until a client that reads one piece at this interval is cut off, within ten minutes.
fn cut_off(bytes: usize, every: Duration) -> Option<u64> {
    let (begun, stall) = (Instant::now(), 30 * SECOND);
    let mut pace = Pace { behind: Duration::ZERO, bytes: 0, turn_since: begun };
    let mut now = begun;
    while now < begun + 600 * SECOND {
        let until = pace.begin_turn(now, bytes, stall);
        now += every;
        if until < now {
            return Some((until - begun).as_secs());
        }
        pace.end_turn(now);
    }
    None
}

#[test]
fn a_client_that_takes_an_answer_too_slowly_is_cut_off_in_a_minute() {
    assert_eq!(cut_off(PIECE_BYTES, 31 * SECOND), Some(30), "one piece");
    let at_eight_kib = cut_off(PIECE_BYTES, 8 * SECOND);
    assert!(at_eight_kib.is_some_and(|seconds| seconds <= 75), "{at_eight_kib:?}");
    assert!(cut_off(1, SECOND).is_some_and(|seconds| seconds <= 60), "a byte a second");
    assert_eq!(cut_off(PIECE_BYTES, 4 * SECOND), None, "at the least rate");
}

#[test]
fn a_short_response_is_never_too_slow() {
    let (mut now, stall) = (Instant::now(), 30 * SECOND);
    let mut pace = Pace { behind: Duration::ZERO, bytes: 0, turn_since: now };
    for _ in 0..1000 {
        let until = pace.begin_turn(now, 100, stall);
        now += SECOND;
        assert!(until >= now);
        pace.end_turn(now);
        now += 2 * SECOND;
    }
}
