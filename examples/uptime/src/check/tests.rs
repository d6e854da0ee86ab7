use super::*;

fn monitor() -> Monitor {
    Monitor {
        url: "http://127.0.0.1/".to_owned(),
        every: Span(Duration::from_secs(10)),
        timeout: Span(Duration::from_secs(1)),
        expect_status: None,
    }
}

fn at(seconds: i64) -> Time {
    Time::from_unix_milliseconds(seconds * 1000)
}

fn answered(code: u16) -> Answer {
    Ok((code, Duration::from_millis(12)))
}

fn unanswered() -> Answer {
    Err(http::Error::Timeout("ConnectionTimeout".to_owned()))
}

#[test]
fn a_redirect_is_an_answer_and_an_error_page_is_not() {
    let monitor = monitor();
    assert_eq!(monitor.judge(1, None, &answered(301), at(0)).state, State::Up);
    assert_eq!(monitor.judge(1, None, &answered(503), at(0)).state, State::Down);
}

#[test]
fn an_expected_code_is_the_only_good_one() {
    let monitor = Monitor { expect_status: Some(418), ..monitor() };
    assert_eq!(monitor.judge(1, None, &answered(418), at(0)).state, State::Up);
    assert_eq!(monitor.judge(1, None, &answered(200), at(0)).state, State::Down);
}

#[test]
fn since_moves_only_when_the_state_does() {
    let monitor = monitor();
    let first = monitor.judge(1, None, &answered(200), at(0));
    let second = monitor.judge(1, Some(&first), &answered(204), at(10));
    assert_eq!((second.since, second.checked_at, second.checks), (at(0), at(10), 2));
    let third = monitor.judge(1, Some(&second), &unanswered(), at(20));
    assert_eq!((third.since, third.state, third.last_code), (at(20), State::Down, None));
    assert_eq!(third.conditions.get("Up").map(|up| up.reason.as_str()), Some("NoAnswer"));
}

#[test]
fn a_check_is_due_when_its_time_has_come_or_the_monitor_changed() {
    let monitor = monitor();
    let status = monitor.judge(1, None, &answered(200), at(0));
    assert_eq!(monitor.due(1, None, at(0)), Due::Now);
    assert_eq!(monitor.due(1, Some(&status), at(4)), Due::In(Duration::from_secs(6)));
    assert_eq!(monitor.due(1, Some(&status), at(10)), Due::Now);
    assert_eq!(monitor.due(2, Some(&status), at(4)), Due::Now);
}

#[test]
fn a_site_that_did_not_answer_is_asked_whenever_the_host_comes_back() {
    let monitor = monitor();
    let status = monitor.judge(1, None, &unanswered(), at(5));
    assert_eq!(monitor.due(1, Some(&status), at(5)), Due::Now);
}

#[test]
fn an_address_that_is_none_waits_for_its_change() {
    let monitor = monitor();
    let status = monitor.judge(1, None, &Err(http::Error::Invalid("address".to_owned())), at(5));
    assert!(matches!(monitor.due(1, Some(&status), at(500)), Due::Never(_)));
    assert_eq!(monitor.due(2, Some(&status), at(500)), Due::Now);
}
