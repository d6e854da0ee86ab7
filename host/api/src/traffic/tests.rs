use super::*;

const SECOND: Duration = Duration::from_secs(1);
const BOUNDS: Bounds = Bounds { first: SECOND, idle: Duration::from_secs(10), stall: Duration::from_secs(3) };

fn state(now: Instant) -> State {
    State { asked: 0, answering: 0, idle_since: now, offered: BTreeMap::new() }
}

#[test]
fn a_connection_has_less_time_for_its_first_request_than_between_two() {
    let opened = Instant::now();
    let mut state = state(opened);
    assert_eq!(state.look(&BOUNDS, opened), Ok(opened + SECOND));
    assert_eq!(state.look(&BOUNDS, opened + SECOND), Err(End::Idle));
    state.asked = 1;
    assert_eq!(state.look(&BOUNDS, opened + 9 * SECOND), Ok(opened + 10 * SECOND));
    assert_eq!(state.look(&BOUNDS, opened + 10 * SECOND), Err(End::Idle));
}

#[test]
fn an_answer_may_take_its_time_as_long_as_the_client_takes_what_there_is() {
    let opened = Instant::now();
    let mut state = State { asked: 2, answering: 2, ..state(opened) };
    assert_eq!(state.look(&BOUNDS, opened + 100 * SECOND), Ok(opened + 103 * SECOND));
    state.offered = BTreeMap::from([(1, opened + 100 * SECOND), (2, opened + 99 * SECOND)]);
    assert_eq!(state.look(&BOUNDS, opened + 100 * SECOND), Ok(opened + 102 * SECOND));
    assert_eq!(state.look(&BOUNDS, opened + 102 * SECOND), Err(End::Stalled));
}

#[tokio::test]
async fn a_body_is_handed_on_in_pieces_and_notes_whose_turn_it_is() {
    use http_body_util::BodyExt;
    use hyper::body::Body as _;

    let traffic = Traffic::new(BOUNDS);
    let long = vec![b'x'; 2 * PIECE_BYTES + 1];
    let mut body = traffic.asked().body(Body::from(long.clone()));
    assert_eq!(body.size_hint().exact(), Some(long.len() as u64));
    let mut lengths = Vec::new();
    while let Some(frame) = body.frame().await {
        lengths.push(frame.unwrap().into_data().unwrap().len());
        assert_eq!(traffic.state.lock().offered.len(), 1, "it is the client's turn");
    }
    assert_eq!(lengths, [PIECE_BYTES, PIECE_BYTES, 1]);
    assert!(body.is_end_stream() && traffic.state.lock().offered.is_empty());
    drop(body);
    assert_eq!(traffic.state.lock().answering, 0);
}
