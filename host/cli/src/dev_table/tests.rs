use homeostat_runtime::QueueCounts;
use serde_json::json;

use super::*;

fn status(name: &str, state: ControllerState) -> ControllerStatus {
    ControllerStatus {
        name: name.into(),
        state,
        message: None,
        digest: "sha256:0".into(),
        code: homeostat_runtime::CodeStatus::default(),
        generation: 2,
        answered: None,
        manages: Kind::new("apps", "v1", "Deployment"),
        watches: Vec::new(),
        concurrency: 4,
        counts: QueueCounts { waiting: 1, ready: 20, running: 3, parked: 0 },
        reconciles: 1234,
        failures: 5,
        last_swap: None,
        leases: Vec::new(),
        feeders: Vec::new(),
    }
}

#[test]
fn a_host_is_shown_as_controllers_and_what_they_manage() {
    let mut starting = status("web", ControllerState::Starting);
    starting.message = Some("start hook: no\nsecond line".into());
    let controllers = [
        ControllerRow {
            status: status("deployments", ControllerState::Ready),
            last_event: "Failed: boom".into(),
            compiling: None,
        },
        ControllerRow { status: starting, last_event: "not shown".into(), compiling: None },
    ];
    let rows = vec![("default/web".to_owned(), "3/5 ready".to_owned())];
    let kinds = [
        KindRows { kind: Kind::new("apps", "v1", "Deployment"), rows, more: true },
        KindRows { kind: Kind::new("", "v1", "Pod"), rows: Vec::new(), more: false },
    ];
    let expected = [
        "CONTROLLER    GEN   STATE      READY   RUNNING   WAITING   PARKED   RECONCILES   FAILED   LAST EVENT",
        "deployments   2     ready      20      3         1         0        1234         5        Failed: boom",
        "web           2     starting   20      3         1         0        1234         5        start hook: no",
        "",
        "DEPLOYMENT    STATUS",
        "default/web   3/5 ready",
        "…",
    ];
    assert_eq!(render(&controllers, &[], &kinds), expected);
}

#[test]
fn compilations_are_shown_while_they_run() {
    let (status, since) = (status("web", ControllerState::Ready), Duration::from_millis(12_900));
    let running = ControllerRow { status, last_event: String::new(), compiling: Some(since) };
    let shown = render(&[running], &[("new".to_owned(), since)], &[]);
    assert!(shown[1].starts_with("web          2     ready, compiling 12s   20"), "{shown:?}");
    assert!(shown[2].starts_with("new          -     compiling 12s"), "{shown:?}");
}

#[test]
fn long_cells_are_truncated() {
    assert_eq!(cut("short"), "short");
    assert_eq!(cut(&"ä".repeat(200)).chars().count(), CELL_MAX + 1);
}

#[test]
fn a_status_is_summarised_by_the_conventions_of_its_kind() {
    for (document, expected) in [
        (json!({}), "no status"),
        (json!({"status": {}}), "no status"),
        (json!({"spec": {"replicas": 5}, "status": {"replicas": 4, "readyReplicas": 3}}), "3/5 ready"),
        (json!({"status": {"replicas": 2}}), "0/2 ready"),
        (json!({"spec": {"replicas": 0}, "status": {"replicas": 0}}), "0/0 ready"),
        (json!({"status": {"phase": "Running", "conditions": []}}), "Running"),
        (
            json!({"status": {"conditions": [{"type": "Synced", "status": "True"}, {"type": "Ready", "status": "True"}]}}),
            "Ready",
        ),
        (
            json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "NoQuota"}]}}),
            "not Ready: NoQuota",
        ),
        (json!({"status": {"conditions": [{"type": "Odd"}]}}), "not Odd"),
        (json!({"status": {"code": 200, "up": true, "at": "noon", "more": 1}}), "at=noon code=200 more=1"),
        (json!({"status": {"nested": {}}}), "has a status"),
    ] {
        assert_eq!(status_text(&document), expected, "{document}");
    }
}
