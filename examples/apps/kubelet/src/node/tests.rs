use super::*;

fn at(ms: i64) -> Time {
    Time::from_unix_milliseconds(ms)
}

fn settings() -> Settings {
    Settings {
        startup: Duration::from_millis(300),
        shutdown: Duration::from_secs(2),
        task: Duration::from_millis(500),
        bad_images: vec!["bad".to_owned(), "broken".to_owned()],
        task_images: vec!["task".to_owned()],
    }
}

fn pod(images: &[&str]) -> Pod {
    let container =
        |(index, image): (usize, &&str)| Container { name: format!("c{index}"), image: (*image).to_owned() };
    Pod { containers: images.iter().enumerate().map(container).collect(), ..Pod::default() }
}

fn is_ready(status: &PodStatus) -> bool {
    status.conditions.is_true("Ready")
}

#[test]
fn a_pod_is_ready_after_its_startup() {
    let pod = pod(&["web:1"]);
    let (pending, again) = settings().next(&pod, &PodStatus::default(), at(1000));
    assert_eq!((pending.phase, is_ready(&pending), again), (Phase::Pending, false, Some(Duration::from_millis(300))));
    let (still, again) = settings().next(&pod, &pending, at(1100));
    assert_eq!((&still, again), (&pending, Some(Duration::from_millis(200))));
    let (running, again) = settings().next(&pod, &pending, at(1300));
    assert_eq!((running.phase, is_ready(&running), again), (Phase::Running, true, None));
    assert_eq!(settings().next(&pod, &running, at(9000)).0, running);
}

#[test]
fn an_image_that_cannot_be_pulled_is_never_ready() {
    let pod = pod(&["web:1", "web:broken"]);
    let (first, _) = settings().next(&pod, &PodStatus::default(), at(0));
    let (later, again) = settings().next(&pod, &first, at(1_000_000));
    assert_eq!((later.phase, is_ready(&later), again), (Phase::Pending, false, None));
    let State::Waiting { reason, .. } = &later.container_statuses[1].state else { panic!("it runs") };
    assert_eq!(reason, "ImagePullBackOff");
    assert!(later.container_statuses[0].ready);
    let ready = later.conditions.get("Ready").unwrap();
    assert_eq!(ready.message, "containers with unready status: [c1]");
}

#[test]
fn a_container_with_a_task_ends_by_itself_unless_its_pod_restarts_it() {
    let served = pod(&["task:1"]);
    let (pending, _) = settings().next(&served, &PodStatus::default(), at(0));
    let (running, again) = settings().next(&served, &pending, at(300));
    assert_eq!((running.phase, again), (Phase::Running, None));
    assert_eq!(settings().next(&served, &running, at(9000)).0.phase, Phase::Running);

    let task = Pod { restart_policy: RestartPolicy::Never, ..served };
    let (running, again) = settings().next(&task, &pending, at(300));
    assert_eq!((running.phase, is_ready(&running), again), (Phase::Running, true, Some(Duration::from_millis(500))));
    let (still, again) = settings().next(&task, &running, at(700));
    assert_eq!((&still, again), (&running, Some(Duration::from_millis(100))));
    let (over, again) = settings().next(&task, &running, at(800));
    assert_eq!((over.phase, is_ready(&over), again), (Phase::Succeeded, false, None));
    let State::Terminated { exit_code, started_at, finished_at, .. } = &over.container_statuses[0].state else {
        panic!("it has ended: {over:?}")
    };
    assert_eq!((*exit_code, *started_at, *finished_at), (0, Some(at(300)), Some(at(800))));
    assert_eq!(settings().next(&task, &over, at(9000)), (over, None), "it does not run again");

    // One that ends beside one that does not.
    let both = Pod { restart_policy: RestartPolicy::OnFailure, ..pod(&["task:1", "web:1"]) };
    let (pending, _) = settings().next(&both, &PodStatus::default(), at(0));
    let (running, _) = settings().next(&both, &pending, at(300));
    let (half, again) = settings().next(&both, &running, at(800));
    assert_eq!((half.phase, is_ready(&half), again), (Phase::Running, false, None));
}

#[test]
fn a_clock_that_jumps_back_only_delays() {
    let pod = pod(&["web:1"]);
    let (pending, _) = settings().next(&pod, &PodStatus::default(), at(5000));
    let (still, again) = settings().next(&pod, &pending, at(1000));
    assert_eq!((still.phase, again), (Phase::Pending, Some(Duration::from_millis(300))));
}

#[test]
fn another_image_starts_the_container_again() {
    let (first, _) = settings().next(&pod(&["web:1"]), &PodStatus::default(), at(0));
    let (running, _) = settings().next(&pod(&["web:1"]), &first, at(300));
    let (restarting, again) = settings().next(&pod(&["web:2"]), &running, at(1000));
    assert_eq!((restarting.phase, again), (Phase::Pending, Some(Duration::from_millis(300))));
    assert_eq!(restarting.container_statuses[0].restart_count, 1);
}

#[test]
fn a_status_is_written_as_kubernetes_does() {
    let (first, _) = settings().next(&pod(&["web:1"]), &PodStatus::default(), at(0));
    let (running, _) = settings().next(&pod(&["web:1"]), &first, at(1000));
    let written = serde_json::to_value(&running).unwrap();
    assert_eq!(written["phase"], "Running");
    // The fields that validating clients require of every container.
    for field in ["name", "image", "imageID", "ready", "restartCount"] {
        assert!(!written["containerStatuses"][0][field].is_null(), "{field}");
    }
    assert_eq!(serde_json::to_value(&first).unwrap()["containerStatuses"][0]["imageID"], "");
    assert_eq!(written["containerStatuses"][0]["state"]["running"]["startedAt"], "1970-01-01T00:00:01Z");
}

#[test]
fn containers_stop_within_the_grace_period() {
    let at = |seconds: i64| Time::from_unix_milliseconds(seconds * 1_000);
    let [second, thirty] = [1, 30].map(Duration::from_secs);
    // The pod was deleted at 100.
    assert_eq!(settings().until_stopped(at(130), thirty, at(100)), Duration::from_secs(2));
    assert_eq!(settings().until_stopped(at(130), thirty, at(102)), Duration::ZERO);
    assert_eq!(settings().until_stopped(at(101), second, at(100)), second);
    assert_eq!(settings().until_stopped(at(101), second, at(200)), Duration::ZERO);
}
