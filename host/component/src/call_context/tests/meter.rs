use std::time::{Duration, Instant};

use super::super::Meter;

fn work(duration: Duration) {
    let started = Instant::now();
    while started.elapsed() < duration {
        std::hint::spin_loop();
    }
}

#[tokio::test]
async fn the_meter_counts_computing_and_not_waiting() {
    let meter = Meter::new();
    meter
        .measure(async {
            work(Duration::from_millis(5));
            tokio::time::sleep(Duration::from_millis(300)).await;
            assert!(meter.spent() >= Duration::from_millis(5));
            work(Duration::from_millis(5));
            assert!(meter.spent_so_far() >= Duration::from_millis(10));
        })
        .await;
    assert!(meter.spent() >= Duration::from_millis(10));
    assert!(meter.spent() + Duration::from_millis(200) < meter.wall());
}
