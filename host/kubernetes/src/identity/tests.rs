use std::time::Duration;

use jiff::Timestamp;

use super::{AGE_MAX, RENEW_INTERVAL_MIN, lifetime};

#[test]
fn credentials_are_renewed_before_they_end_and_every_few_minutes() {
    let now = Timestamp::UNIX_EPOCH;
    let after = |seconds: i64| Some(Timestamp::from_second(seconds).unwrap());
    assert_eq!(lifetime(None, now), AGE_MAX);
    assert_eq!(lifetime(after(86400), now), AGE_MAX);
    assert_eq!(lifetime(after(200), now), Duration::from_secs(140));
    assert_eq!(lifetime(after(30), now), RENEW_INTERVAL_MIN, "never in a hot loop");
    assert_eq!(lifetime(after(-30), now), RENEW_INTERVAL_MIN);
}
