use super::*;

fn takes(uri: &str) -> Takes {
    Takes::of(&Method::GET, &uri.parse().unwrap())
}

#[test]
fn what_goes_on_is_told_from_what_ends() {
    assert_eq!(takes("/api/v1/pods"), Takes::Answer);
    assert_eq!(takes("/api/v1/pods?watch=0"), Takes::Answer);
    for uri in ["/api/v1/pods?watch=1", "/api/v1/pods?watch", "/api/v1/pods?watch=true&timeoutSeconds=0"] {
        assert_eq!(takes(uri), Takes::Watch, "{uri}");
    }
    assert_eq!(takes("/api/v1/pods?watch=1&timeoutSeconds=9"), Takes::TimedWatch);
    assert_eq!(takes("/homeostat/v1/logs?follow=1"), Takes::Records);
    assert_eq!(takes("/homeostat/v1/backup?watch=1"), Takes::Backup);
    assert_eq!(Takes::of(&Method::DELETE, &"/api/v1/pods?watch=1".parse().unwrap()), Takes::Answer);
}

#[test]
fn a_repetition_hides_no_watch() {
    assert_eq!(takes("/homeostat/v1/logs?watch=0&watch=0&follow=1"), Takes::Records);
    assert_eq!(takes("/api/v1/pods?watch=0&watch=1"), Takes::Watch);
}

#[test]
fn watches_end_in_the_upper_half_of_their_time_and_not_together() {
    let hour = Duration::from_secs(3600);
    let times: Vec<Duration> = (0..64).map(|_| between_half_and_all(hour)).collect();
    assert!(times.iter().all(|time| (hour / 2..=hour).contains(time)), "{times:?}");
    assert!(times.iter().any(|time| *time != times[0]), "{times:?}");
}
