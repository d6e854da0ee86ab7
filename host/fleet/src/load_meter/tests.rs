use std::time::Duration;

use super::{LoadMeter, MILLICORES_MAX};

const WINDOW: Duration = Duration::from_secs(60);
const RENEWAL: Duration = Duration::from_secs(2);

/// A lease whose keys take processor time.
struct Load {
    meter: LoadMeter,
    now: Duration,
    spent: Duration,
}

impl Load {
    fn begin(former: Option<u32>) -> Self {
        let (mut meter, now) = (LoadMeter::new(WINDOW), Duration::from_secs(1000));
        meter.begin(now, former);
        Self { meter, now, spent: Duration::ZERO }
    }

    /// Takes so many thousandths of a core for a while, and returns the figures that were told.
    fn run(&mut self, millicores: u32, span: Duration) -> Vec<Option<u32>> {
        let end = self.now + span;
        let mut told = Vec::new();
        while self.now < end {
            self.now += RENEWAL;
            self.spent += RENEWAL * millicores / 1000;
            told.push(self.meter.sample(self.now, self.spent));
        }
        told.dedup();
        told
    }
}

#[test]
fn a_new_holder_tells_the_former_figure_until_it_has_measured_its_own() {
    let mut load = Load::begin(Some(350));
    // The list of all keys, and then no work at all.
    assert_eq!(load.run(4000, WINDOW / 2), [Some(350)]);
    assert_eq!(load.run(0, WINDOW), [Some(350)]);
    assert_eq!(load.run(0, WINDOW), [Some(350), Some(0)]);
}

#[test]
fn a_lease_that_nobody_has_measured_has_no_figure_until_then() {
    let mut load = Load::begin(None);
    assert_eq!(load.run(200, WINDOW * 3), [None, Some(200)]);
}

#[test]
fn another_term_begins_with_the_figure_of_the_record() {
    let mut load = Load::begin(None);
    load.run(200, WINDOW * 3);
    load.meter.begin(load.now, Some(70));
    assert_eq!(load.run(200, WINDOW), [Some(70)]);
}

#[test]
fn a_load_that_wavers_by_a_tenth_keeps_its_figure() {
    let mut load = Load::begin(None);
    load.run(400, WINDOW * 3);
    for wave in 0..50 {
        let millicores = if wave % 2 == 0 { 440 } else { 360 };
        assert_eq!(load.run(millicores, WINDOW), [Some(400)], "wave {wave}");
    }
    // A load below a hundredth of a core is none, however often it comes and goes.
    let mut load = Load::begin(None);
    load.run(0, WINDOW * 3);
    for wave in 0..50 {
        assert_eq!(load.run(wave % 10, WINDOW), [Some(0)], "wave {wave}");
    }
}

#[test]
fn a_load_that_changes_is_told_within_a_window() {
    let mut load = Load::begin(None);
    load.run(100, WINDOW * 3);
    let told = load.run(900, WINDOW + RENEWAL * 3);
    let last = told.last().copied().flatten().unwrap();
    assert!((800..=900).contains(&last), "{told:?}");
    // A minute of a rising load changes the text a few times, not with each renewal.
    assert!(told.len() <= 20, "{told:?}");
    let last = load.run(0, WINDOW * 2).last().copied().flatten();
    assert_eq!(last, Some(0));
}

#[test]
fn a_figure_has_a_bound_and_samples_do_not_pile_up() {
    let mut load = Load::begin(None);
    load.run(u32::MAX, WINDOW * 3);
    assert_eq!(load.meter.told, Some(MILLICORES_MAX));
    for _ in 0..10_000 {
        load.now += Duration::from_millis(1);
        load.meter.sample(load.now, load.spent);
    }
    assert!(load.meter.samples.len() <= 14, "{}", load.meter.samples.len());
    // A machine that slept has no samples for hours, and a sum that was begun anew is no load.
    load.now += Duration::from_secs(36_000);
    assert_eq!(load.meter.sample(load.now, Duration::ZERO), Some(0));
}
