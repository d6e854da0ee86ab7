use super::*;

#[test]
fn workers_follow_the_number_that_is_wanted() {
    let workers = Workers::default();
    assert_eq!(workers.missing(4), 4);
    assert_eq!(workers.missing(4), 0);
    assert!(workers.leave_if_surplus(2));
    assert!(workers.leave_if_surplus(2));
    assert!(!workers.leave_if_surplus(2), "two are wanted and two run");
    assert_eq!(workers.missing(3), 1);
}
