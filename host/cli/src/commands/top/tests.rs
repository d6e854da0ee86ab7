use super::*;

fn costs() -> Value {
    let spent = |runs: u64, cpu_us: u64, memory: u64| {
        json!({
            "runs": runs, "failures": 1, "cpuUs": cpu_us, "cpuUsMax": 90, "memoryBytesMax": memory, "pagesGrown": 15, "bytesOut": 1024, "bytesIn": 512,
            "effects": { "get": 3, "write": 2, "log": 40 },
        })
    };
    let key = |name: &str, runs, cpu_us, memory, at_least| json!({ "key": { "namespace": "default", "name": name }, "spent": spent(runs, cpu_us, memory), "atLeast": at_least });
    let lately = json!({ "seconds": 50.0, "runs": 100, "failures": 0, "cpuUs": 500_000 });
    let keys = json!([key("a", 5, 100, 70_000, false), key("b", 4, 2_000_000, 65_536, true)]);
    json!({ "items": [
        { "controller": "cheap", "spent": spent(2, 20, 1 << 20), "lately": { "seconds": 0.0 }, "keys": [] },
        { "controller": "dear", "spent": spent(10, 3_000_000, 1 << 30), "lately": lately, "keys": keys },
    ] })
}

fn args(sort: Measure) -> Args {
    let every = Span(Duration::from_secs(2));
    Args { controller: None, keys: true, sort, limit: 20, watch: false, every }
}

fn sorted(by: Measure) -> Value {
    let mut costs = costs();
    sort(&mut costs, by);
    costs
}

#[test]
fn the_most_expensive_come_first_by_every_measure() {
    let costs = sorted(Measure::Cpu);
    assert_eq!(costs["items"][0]["controller"], "dear");
    let first = |by| {
        let costs = sorted(by);
        let dear = costs["items"].as_array().unwrap().iter().find(|item| item["controller"] == "dear").unwrap();
        dear["keys"][0]["key"]["name"].clone()
    };
    assert_eq!(
        [first(Measure::Cpu), first(Measure::Memory), first(Measure::Runs)],
        [json!("b"), json!("a"), json!("a")]
    );
    assert_eq!([first(Measure::Bytes), first(Measure::Effects)], [json!("a"), json!("a")], "equal ones by name");
}

#[test]
fn a_controller_shows_its_last_minute_and_what_it_used_in_all() {
    let costs = sorted(Measure::Cpu);
    let text = controllers(costs["items"].as_array().unwrap().iter(), false);
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[1], ["dear", "2.0", "1.0", "10", "1", "3.0s", "300ms", "90us", "1.0Gi", "5", "1.5Ki"]);
    assert_eq!(rows[2][..3], ["cheap", "-", "-"]);
    let wide = controllers(costs["items"].as_array().unwrap().iter(), true);
    assert!(wide.lines().next().unwrap().ends_with("PAGES/RUN"), "{wide}");
    assert!(wide.lines().nth(1).unwrap().trim_end().ends_with(" 1.5"), "15 pages in 10 runs: {wide}");
}

#[test]
fn keys_with_partial_counts_are_marked_and_the_list_ends_at_the_limit() {
    let costs = sorted(Measure::Cpu);
    let items = || costs["items"].as_array().unwrap().iter();
    let (table, left_out) = keys(items(), &args(Measure::Cpu), false);
    let text = table.to_string();
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((&rows[0][..3], &rows[1][..3]), (&["dear", "default/b", "4+"][..], &["dear", "default/a", "5"][..]));
    assert_eq!(left_out, 0);
    let (_, left_out) = keys(items(), &Args { limit: 1, ..args(Measure::Cpu) }, false);
    assert_eq!(left_out, 1);
}

#[test]
fn compilations_are_listed_before_running_controllers() {
    assert_eq!(compiling(&json!({ "items": [] })), None);
    assert_eq!(compiling(&json!({ "compiling": [] })), None);
    let costs = json!({ "compiling": [
        { "name": "api", "compilingForMs": 1500 }, { "name": "web", "compilingForMs": 61_000 },
    ] });
    assert_eq!(compiling(&costs).unwrap(), "Compiling: api 1.5s, web 61s");
}
