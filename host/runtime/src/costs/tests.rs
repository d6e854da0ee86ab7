use homeostat_testing::{grows_by_at_most, measured, with_slack};

use super::*;
use crate::bounds::tests::longest_key;

measured! {
    /// Of several controllers, as one alone is no more than what the process itself grows by.
    fn costs_of_endless_keys_take_no_more_memory_than_their_bound measure_costs {
        const CONTROLLERS: usize = 16;
        grows_by_at_most(with_slack(CONTROLLERS as u64 * BYTES_MAX), || {
            let all: Vec<Costs> = (0..CONTROLLERS).map(|_| Costs::default()).collect();
            std::thread::scope(|scope| {
                for thread in 0..SHARDS {
                    let all = &all;
                    scope.spawn(move || {
                        for (costs, n) in all.iter().flat_map(|costs| (0..3 * top_keys::KEYS_MAX).map(move |n| (costs, n))) {
                            costs.note(&longest_key(1000 * thread + n), &Cost::default(), true, Duration::ZERO);
                        }
                    });
                }
            });
            assert_eq!(all[0].account("a", Duration::ZERO, true).keys.len(), top_keys::KEYS_MAX);
            all
        });
    }
}
