use std::time::Duration;

use proptest::prelude::{Just, ProptestConfig, Strategy, prop_oneof, proptest};

use super::{AcquireCondition, Action, Answer, Event, Lease, Request, RequestId, RequestKind};
use crate::record::{Epoch, Identity, Observation, Record, Version};
use crate::times::Times;

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn me() -> Identity {
    Identity::new("me")
}

fn other() -> Identity {
    Identity::new("other")
}

fn lease() -> Lease {
    Lease::new(me(), Times::default(), 1)
}

fn record(version: u64, holder: Option<Identity>, epoch: u64) -> Record {
    let length = Times::default().length;
    let (version, epoch) = (Version(version), Epoch(epoch));
    Record { version, holder, epoch, length, preferred_holder: None, transitions: 3, description: None }
}

fn present(version: u64, holder: Option<Identity>, epoch: u64) -> Observation {
    Observation::Present(record(version, holder, epoch))
}

/// Returns the only request of some actions.
fn sent(actions: &[Action]) -> (RequestId, Request) {
    let sent = actions.iter().filter_map(|action| match action {
        Action::Send { id, request } => Some((*id, request.clone())),
        _ => None,
    });
    let sent: Vec<_> = sent.collect();
    assert_eq!(sent.len(), 1, "{actions:?}");
    sent[0].clone()
}

fn answer(lease: &mut Lease, now: f64, id: RequestId, answer: Answer) -> Vec<Action> {
    lease.step(seconds(now), Event::Answered { id, answer })
}

/// Ticks as often as the machine asks until it sends a request, and returns the time.
fn next_request(lease: &mut Lease, end: f64) -> Option<(f64, RequestId, Request)> {
    while let Some(at) = lease.next_tick().filter(|at| *at <= seconds(end)) {
        let actions = lease.step(at, Event::Tick);
        if !actions.is_empty() {
            let (id, request) = sent(&actions);
            return Some((at.as_secs_f64(), id, request));
        }
    }
    None
}

/// Returns a lease that looked at the record, and saw this.
fn waiting(at: f64, observation: Observation) -> (Lease, Vec<Action>) {
    let mut lease = lease();
    let (id, request) = sent(&lease.step(seconds(at), Event::Candidacy(Some(Duration::ZERO))));
    assert_eq!(request, Request::Read);
    let actions = answer(&mut lease, at, id, Answer::Found(observation));
    (lease, actions)
}

/// Returns a lease that is held since `at`, under epoch 7.
fn held(at: f64) -> Lease {
    let (mut lease, actions) = waiting(at, Observation::Absent { fence: None });
    let (id, request) = sent(&actions);
    assert_eq!(request, Request::Acquire { expected: AcquireCondition::Absent { fence: None }, transitions: 0 });
    let actions = answer(&mut lease, at, id, Answer::Stored { version: Version(7), epoch: Epoch(7) });
    assert_eq!(actions, [Action::Begin { epoch: Epoch(7) }]);
    lease
}

#[test]
fn a_lease_that_never_was_is_acquired_at_once() {
    let lease = held(100.0);
    assert_eq!(lease.holds(seconds(100.0)), Some(Epoch(7)));
    assert_eq!(lease.holds_until(), Some(seconds(110.0)));
}

#[test]
fn a_released_lease_is_acquired_at_once_and_counts_a_transition() {
    let (_, actions) = waiting(100.0, present(5, None, 2));
    assert_eq!(sent(&actions).1, Request::Acquire { expected: AcquireCondition::Version(Version(5)), transitions: 4 });
}

#[test]
fn a_lease_of_another_host_is_acquired_only_after_its_length_without_a_change() {
    let (mut lease, actions) = waiting(100.0, present(5, Some(other()), 2));
    assert_eq!(actions, []);
    // A renewal shows at 110 s; after that the record stays.
    lease.step(seconds(110.0), Event::Observed(present(6, Some(other()), 2)));
    let mut acquired = None;
    while let Some((at, id, request)) = next_request(&mut lease, 200.0) {
        if matches!(request, Request::Acquire { .. }) {
            acquired = Some((at, request));
            break;
        }
        answer(&mut lease, at, id, Answer::Found(present(6, Some(other()), 2)));
    }
    let (at, request) = acquired.unwrap();
    assert!((125.0..126.0).contains(&at), "{at}");
    assert_eq!(request, Request::Acquire { expected: AcquireCondition::Version(Version(6)), transitions: 4 });
}

#[test]
fn a_record_that_vanishes_says_nothing_about_its_holder() {
    for fence in [Some(Epoch(2)), None] {
        let (mut lease, _) = waiting(100.0, present(5, Some(other()), 2));
        lease.step(seconds(101.0), Event::Observed(Observation::Absent { fence }));
        let mut at = 101.0;
        while let Some((next, id, request)) = next_request(&mut lease, 200.0) {
            at = next;
            if matches!(request, Request::Acquire { .. }) {
                break;
            }
            answer(&mut lease, at, id, Answer::Found(Observation::Absent { fence }));
        }
        assert!((116.0..117.0).contains(&at), "{at}");
    }
    // Also for a host that has not seen the record.
    let (_, actions) = waiting(100.0, Observation::Absent { fence: Some(Epoch(7)) });
    assert_eq!(actions, []);
}

/// A term may have begun and its record been deleted too, while this host was paused.
#[test]
fn a_record_that_vanishes_twice_is_waited_for_twice() {
    let (mut lease, _) = waiting(100.0, Observation::Absent { fence: Some(Epoch(2)) });
    lease.step(seconds(114.9), Event::Observed(Observation::Absent { fence: Some(Epoch(9)) }));
    while let Some((at, id, request)) = next_request(&mut lease, 200.0) {
        if let Request::Acquire { expected, .. } = request {
            assert!((129.9..131.0).contains(&at), "{at}");
            assert_eq!(expected, AcquireCondition::Absent { fence: Some(Epoch(9)) });
            return;
        }
        answer(&mut lease, at, id, Answer::Found(Observation::Absent { fence: Some(Epoch(9)) }));
    }
    panic!("the lease is never acquired");
}

#[test]
fn a_host_that_is_no_candidate_never_acquires() {
    let mut lease = lease();
    let (id, _) = sent(&lease.step(seconds(0.0), Event::Tick));
    let mut found = Some((0.0, id, Request::Read));
    while let Some((at, id, request)) = found {
        assert_eq!(request, Request::Read);
        answer(&mut lease, at, id, Answer::Found(present(5, None, 2)));
        found = next_request(&mut lease, 100.0);
    }
}

#[test]
fn a_renewal_counts_from_its_sending() {
    let mut lease = held(100.0);
    let (at, id, request) = next_request(&mut lease, 110.0).unwrap();
    assert!((101.0..103.0).contains(&at), "{at}");
    assert_eq!(request, Request::Renew { expected: Version(7), epoch: Epoch(7) });
    answer(&mut lease, at + 2.5, id, Answer::Stored { version: Version(9), epoch: Epoch(7) });
    assert_eq!(lease.holds_until(), Some(seconds(at) + seconds(10.0)));
}

#[test]
fn a_change_of_what_a_record_tells_is_renewed_at_once() {
    let mut lease = held(100.0);
    let (id, request) = sent(&lease.step(seconds(100.5), Event::Renew));
    assert_eq!(request, Request::Renew { expected: Version(7), epoch: Epoch(7) });
    // The renewal on its way may tell what was before the second change.
    assert_eq!(lease.step(seconds(100.6), Event::Renew), []);
    let actions = answer(&mut lease, 100.7, id, Answer::Stored { version: Version(8), epoch: Epoch(7) });
    let (id, request) = sent(&actions);
    assert_eq!(request, Request::Renew { expected: Version(8), epoch: Epoch(7) });
    assert_eq!(answer(&mut lease, 100.8, id, Answer::Stored { version: Version(9), epoch: Epoch(7) }), []);
    let (at, _, _) = next_request(&mut lease, 110.0).unwrap();
    assert!((102.0..104.0).contains(&at), "{at}");
}

#[test]
fn a_change_beside_an_acquisition_is_renewed_after_it() {
    let (mut lease, actions) = waiting(100.0, Observation::Absent { fence: None });
    let (id, _) = sent(&actions);
    assert_eq!(lease.step(seconds(100.1), Event::Renew), []);
    let actions = answer(&mut lease, 100.2, id, Answer::Stored { version: Version(7), epoch: Epoch(7) });
    assert_eq!(actions[0], Action::Begin { epoch: Epoch(7) });
    assert_eq!(sent(&actions).1, Request::Renew { expected: Version(7), epoch: Epoch(7) });
}

#[test]
fn a_change_of_a_waiting_host_sends_nothing() {
    let (mut lease, _) = waiting(100.0, present(5, Some(other()), 2));
    assert_eq!(lease.step(seconds(100.1), Event::Renew), []);
}

#[test]
fn a_change_sends_no_more_requests_to_a_store_that_does_not_answer() {
    let mut lease = held(100.0);
    let (id, _) = sent(&lease.step(seconds(100.5), Event::Renew));
    assert_eq!(answer(&mut lease, 100.6, id, Answer::Unknown), []);
    assert_eq!(lease.step(seconds(100.7), Event::Renew), []);
}

#[test]
fn a_lost_answer_counts_as_not_renewed_and_the_record_is_read_before_the_next_write() {
    let mut lease = held(100.0);
    let (_, late, _) = next_request(&mut lease, 110.0).unwrap();
    let (at, id, request) = next_request(&mut lease, 110.0).unwrap();
    assert_eq!(request, Request::Read);
    assert_eq!(lease.holds_until(), Some(seconds(110.0)));
    // The answer that comes after all says nothing any more.
    assert_eq!(answer(&mut lease, at, late, Answer::Stored { version: Version(9), epoch: Epoch(7) }), []);
    assert_eq!(lease.holds_until(), Some(seconds(110.0)));
    let actions = answer(&mut lease, at, id, Answer::Found(present(9, Some(me()), 7)));
    assert_eq!(sent(&actions).1, Request::Renew { expected: Version(9), epoch: Epoch(7) });
    assert_eq!(lease.holds_until(), Some(seconds(110.0)));
}

#[test]
fn an_acquisition_with_a_lost_answer_is_looked_up_and_begins_under_a_new_epoch() {
    let (mut lease, actions) = waiting(100.0, present(5, None, 2));
    let (id, _) = sent(&actions);
    assert_eq!(answer(&mut lease, 100.1, id, Answer::Unknown), []);
    assert_eq!(lease.holds(seconds(100.1)), None);
    let (at, id, request) = next_request(&mut lease, 110.0).unwrap();
    assert_eq!(request, Request::Read);
    let actions = answer(&mut lease, at, id, Answer::Found(present(8, Some(me()), 8)));
    let (id, request) = sent(&actions);
    assert_eq!(request, Request::Acquire { expected: AcquireCondition::Version(Version(8)), transitions: 3 });
    let actions = answer(&mut lease, at, id, Answer::Stored { version: Version(9), epoch: Epoch(9) });
    assert_eq!(actions, [Action::Begin { epoch: Epoch(9) }]);
}

#[test]
fn a_term_ends_at_its_deadline_and_not_again_before_the_workers_have_ended() {
    let mut lease = held(100.0);
    // Nothing happened for long, as after a pause of the process.
    assert_eq!(lease.holds(seconds(110.0)), None);
    assert_eq!(lease.step(seconds(160.0), Event::Tick), [Action::Abort]);
    assert!(lease.is_working());
    assert_eq!(lease.step(seconds(200.0), Event::Tick), []);
    assert_eq!(lease.next_tick(), None);
    let (id, request) = sent(&lease.step(seconds(200.0), Event::WorkersEnded));
    assert_eq!(request, Request::Read);
    let actions = answer(&mut lease, 200.0, id, Answer::Found(present(7, Some(me()), 7)));
    assert!(matches!(sent(&actions).1, Request::Acquire { .. }));
}

#[test]
fn a_holder_that_sees_another_holder_stops_at_once() {
    let mut lease = held(100.0);
    assert_eq!(lease.step(seconds(101.0), Event::Observed(present(9, Some(other()), 9))), [Action::Abort]);
    assert_eq!(lease.holds(seconds(101.0)), None);
}

#[test]
fn a_holder_ignores_its_own_renewals_and_older_states_of_a_watch() {
    let mut lease = held(100.0);
    for seen in [present(7, Some(me()), 7), present(6, Some(other()), 5), present(8, Some(me()), 7)] {
        assert_eq!(lease.step(seconds(101.0), Event::Observed(seen)), []);
    }
    assert_eq!(lease.holds(seconds(101.0)), Some(Epoch(7)));
}

#[test]
fn a_holder_whose_record_is_deleted_reads_it_and_stops() {
    let mut lease = held(100.0);
    let actions = lease.step(seconds(101.0), Event::Observed(Observation::Absent { fence: Some(Epoch(7)) }));
    let (id, request) = sent(&actions);
    assert_eq!(request, Request::Read);
    let found = Answer::Found(Observation::Absent { fence: Some(Epoch(7)) });
    assert_eq!(answer(&mut lease, 101.0, id, found), [Action::Abort]);
}

#[test]
fn a_holder_whose_write_the_store_refuses_starts_a_new_term() {
    let mut lease = held(100.0);
    // A late answer to a write of an earlier term says nothing.
    assert_eq!(lease.step(seconds(101.0), Event::Fenced { epoch: Epoch(6) }), []);
    assert_eq!(lease.step(seconds(101.0), Event::Fenced { epoch: Epoch(7) }), [Action::Abort]);
    assert_eq!(lease.holds(seconds(101.0)), None);
    let (id, _) = sent(&lease.step(seconds(101.1), Event::WorkersEnded));
    let actions = answer(&mut lease, 101.2, id, Answer::Found(present(7, Some(me()), 7)));
    assert!(matches!(sent(&actions).1, Request::Acquire { .. }));
}

#[test]
fn a_release_waits_for_the_workers_and_names_the_next_host() {
    let mut lease = held(100.0);
    let release = Event::Release { preferred_holder: Some(other()) };
    assert_eq!(lease.step(seconds(101.0), release.clone()), [Action::Drain]);
    assert_eq!(lease.step(seconds(101.0), release), []);
    // The lease is renewed while the workers finish.
    let (at, id, request) = next_request(&mut lease, 105.0).unwrap();
    assert!(matches!(request, Request::Renew { .. }));
    answer(&mut lease, at, id, Answer::Stored { version: Version(8), epoch: Epoch(7) });
    assert!(lease.holds(seconds(at)).is_some());
    let (id, request) = sent(&lease.step(seconds(at + 0.1), Event::WorkersEnded));
    let preferred_holder = Some(other());
    assert_eq!(request, Request::Release { expected: Version(8), epoch: Epoch(7), preferred_holder });
    assert_eq!(lease.holds(seconds(at + 0.1)), None);
    let actions = answer(&mut lease, at + 0.2, id, Answer::Stored { version: Version(9), epoch: Epoch(7) });
    assert_eq!(sent(&actions).1, Request::Read);
}

#[test]
fn a_released_lease_is_left_to_the_preferred_host_for_a_while() {
    let released = |to: &str| {
        let preferred_holder = Some(Identity::new(to));
        Observation::Present(Record { preferred_holder, ..record(5, None, 2) })
    };
    let (mut lease, actions) = waiting(100.0, released("other"));
    assert_eq!(actions, []);
    while let Some((at, id, request)) = next_request(&mut lease, 200.0) {
        if matches!(request, Request::Acquire { .. }) {
            assert!((104.0..105.0).contains(&at), "{at}");
            break;
        }
        answer(&mut lease, at, id, Answer::Found(released("other")));
    }
    let (_, actions) = waiting(100.0, released("me"));
    assert!(matches!(sent(&actions).1, Request::Acquire { .. }));
}

#[test]
fn an_acquisition_that_is_not_wanted_any_more_is_released_without_starting_workers() {
    let (mut lease, actions) = waiting(100.0, present(5, None, 2));
    let (id, _) = sent(&actions);
    lease.step(seconds(100.0), Event::Candidacy(None));
    let actions = answer(&mut lease, 100.1, id, Answer::Stored { version: Version(6), epoch: Epoch(6) });
    let preferred_holder = None;
    assert_eq!(sent(&actions).1, Request::Release { expected: Version(6), epoch: Epoch(6), preferred_holder });
    assert!(!lease.is_working());
}

#[test]
fn a_store_that_refuses_connections_is_asked_at_most_twice_a_second() {
    let mut lease = held(100.0);
    let mut requests = 0;
    while let Some(at) = lease.next_tick().filter(|at| *at <= seconds(109.9)) {
        for action in lease.step(at, Event::Tick) {
            let Action::Send { id, .. } = action else { panic!("{action:?}") };
            requests += 1;
            assert_eq!(lease.step(at, Event::Answered { id, answer: Answer::Unknown }), []);
        }
    }
    assert!((6..=18).contains(&requests), "{requests}");
}

/// An input of the property tests, after a wait in milliseconds.
#[derive(Debug, Clone)]
enum Input {
    Tick,
    Answer(Answer),
    Observed(Observation),
    Candidacy(Option<Duration>),
    Release,
    Renew,
    Fenced(Epoch),
    WorkersEnded,
}

fn observations() -> impl Strategy<Value = Observation> {
    let holder = prop_oneof![Just(None), Just(Some(me())), Just(Some(other()))];
    prop_oneof![
        proptest::option::of((1..20_u64).prop_map(Epoch)).prop_map(|fence| Observation::Absent { fence }),
        (1..20_u64, holder, 1..20_u64).prop_map(|(version, holder, epoch)| present(version, holder, epoch)),
    ]
}

fn inputs() -> impl Strategy<Value = Vec<(u64, Input)>> {
    let answers = prop_oneof![
        4 => (1..20_u64).prop_map(|at| Answer::Stored { version: Version(at), epoch: Epoch(at) }),
        1 => Just(Answer::Conflict),
        1 => Just(Answer::Unknown),
        4 => observations().prop_map(Answer::Found),
    ];
    let input = prop_oneof![
        4 => Just(Input::Tick),
        8 => answers.prop_map(Input::Answer),
        2 => observations().prop_map(Input::Observed),
        1 => prop_oneof![Just(None), Just(Some(Duration::ZERO)), Just(Some(seconds(1.0)))].prop_map(Input::Candidacy),
        1 => Just(Input::Release),
        1 => Just(Input::Renew),
        1 => (1..20_u64).prop_map(|epoch| Input::Fenced(Epoch(epoch))),
        2 => Just(Input::WorkersEnded),
    ];
    proptest::collection::vec((0..4_000_u64, input), 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// With any answers of the store, false ones too.
    #[test]
    fn workers_run_only_within_terms_that_an_acknowledged_sending_bounds(all in inputs()) {
        let (mut lease, times) = (lease(), Times::default());
        let (mut now, mut is_working, mut in_flight, mut confirmed) = (Duration::ZERO, false, None, None);
        lease.step(now, Event::Candidacy(Some(Duration::ZERO)));
        for (wait, input) in all {
            now += Duration::from_millis(wait);
            let event = match input {
                Input::Tick => Event::Tick,
                Input::Answer(answer) => {
                    let Some((id, kind, sent)) = in_flight.take() else { continue };
                    if matches!((kind, &answer), (RequestKind::Acquire | RequestKind::Renew, Answer::Stored { .. })) {
                        confirmed = Some(sent);
                    }
                    let fits = matches!((kind, &answer), (RequestKind::Read, Answer::Found(_)))
                        || (kind != RequestKind::Read && !matches!(answer, Answer::Found(_)));
                    Event::Answered { id, answer: if fits { answer } else { Answer::Unknown } }
                }
                Input::Observed(observation) => Event::Observed(observation),
                Input::Candidacy(candidacy) => Event::Candidacy(candidacy),
                Input::Release => Event::Release { preferred_holder: Some(other()) },
                Input::Renew => Event::Renew,
                Input::Fenced(epoch) => Event::Fenced { epoch },
                Input::WorkersEnded if is_working => Event::WorkersEnded,
                Input::WorkersEnded => continue,
            };
            let ended = event == Event::WorkersEnded;
            for action in lease.step(now, event) {
                match action {
                    Action::Send { id, request } => {
                        let kind = match request {
                            Request::Read => RequestKind::Read,
                            Request::Acquire { .. } => RequestKind::Acquire,
                            Request::Renew { .. } => RequestKind::Renew,
                            Request::Release { .. } => RequestKind::Release,
                        };
                        let ends_a_term = matches!(kind, RequestKind::Acquire | RequestKind::Release);
                        assert!(!ends_a_term || ended || !is_working, "{kind:?} beside workers");
                        in_flight = Some((id, kind, now));
                    }
                    Action::Begin { .. } => {
                        assert!(!is_working, "two terms at once");
                        is_working = true;
                    }
                    Action::Drain | Action::Abort => assert!(is_working),
                }
            }
            is_working &= !ended;
            assert_eq!(lease.is_working(), is_working);
            if lease.holds(now).is_some() {
                assert!(now < confirmed.unwrap() + times.renew_deadline);
            }
            if let Some(at) = lease.next_tick() {
                let actions = lease.clone().step(at.max(now), Event::Tick);
                let next = { let mut after = lease.clone(); after.step(at.max(now), Event::Tick); after.next_tick() };
                assert!(!actions.is_empty() || next != Some(at) , "a tick at {at:?} that does nothing");
            }
        }
    }
}

#[test]
fn a_host_asks_soon_again_for_a_long_lease_when_a_request_has_no_answer() {
    let times = Times::of_length(seconds(3600.0));
    let mut lease = Lease::new(me(), times, 1);
    let (_, request) = sent(&lease.step(seconds(0.0), Event::Candidacy(Some(Duration::ZERO))));
    assert_eq!(request, Request::Read);
    let (asked, id, request) = next_request(&mut lease, 25.0).expect("a request after the first one was lost");
    assert_eq!(request, Request::Read);
    answer(&mut lease, asked, id, Answer::Unknown);
    assert!(next_request(&mut lease, asked + 12.5).is_some());
}
