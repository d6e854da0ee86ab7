use super::*;

fn calls(describe_memory_mib: u64, reconcile_cpu: Duration) -> MeasuredCalls {
    MeasuredCalls {
        describe: Cost { memory_bytes_max: describe_memory_mib << 20, ..Cost::default() },
        reconcile: Cost { cpu: reconcile_cpu, ..Cost::default() },
    }
}

#[test]
fn calls_that_leave_room_under_the_defaults_suggest_no_limit() {
    assert_eq!(calls(32, Duration::from_millis(100)).suggested_limits(), json!({}));
}

#[test]
fn calls_that_leave_little_room_suggest_larger_limits() {
    let suggested = calls(33, Duration::from_millis(101)).suggested_limits();
    assert_eq!(suggested, json!({"cpu": "2s", "memory": "128Mi"}));
    assert_eq!(calls(500, Duration::ZERO).suggested_limits(), json!({"memory": "1Gi"}));
}

#[test]
fn each_call_is_shown_with_its_cost() {
    let facts = calls(2, Duration::from_micros(70)).facts();
    assert_eq!(
        lines(&facts),
        ["describe: 0 µs of processor time, 2048 KiB", "reconcile: 70 µs of processor time, 0 KiB",]
    );
}
