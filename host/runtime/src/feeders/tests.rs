use super::*;

#[test]
fn the_wait_before_a_restart_doubles_and_is_capped() {
    let waits: Vec<u128> = [0, 1, 2, 7, 8, 1000].map(|failures| restart_delay(failures).as_millis()).to_vec();
    assert_eq!(waits, [200, 400, 800, 25_600, 30_000, 30_000]);
}
