use super::*;

fn entry() -> Value {
    json!({
        "key": { "kind": { "group": "apps", "version": "v1", "name": "Deployment" }, "namespace": "default", "name": "web" },
        "state": "waiting", "failures": 3, "dueInMs": 1234, "priority": "low", "lastError": "no such image",
    })
}

#[test]
fn a_key_shows_its_due_time_and_last_error() {
    let mut table = table(false);
    table.row(row("deployments", &entry(), false));
    let expected = "CONTROLLER    KEY           STATE     FAILURES   DUE    LAST ERROR\n\
                    deployments   default/web   waiting   3          1.2s   no such image\n";
    assert_eq!(table.to_string(), expected);
}

#[test]
fn the_wide_table_has_as_many_cells_as_columns() {
    let mut table = table(true);
    table.row(row("deployments", &entry(), true));
    let text = table.to_string();
    assert!(text.lines().next().unwrap().contains("PRIORITY   SINCE   LAST ERROR"), "{text}");
    assert!(text.contains("low        -       no such image"), "{text}");
}

#[test]
fn a_ready_or_running_key_shows_for_how_long() {
    for (name, wanted) in [("readyForMs", "2.0s"), ("runningForMs", "2.0s")] {
        let mut entry = entry();
        entry[name] = 2000.into();
        assert_eq!(row("deployments", &entry, true)[6], wanted, "{name}");
    }
}

#[test]
fn omitted_keys_are_reported() {
    let said = |wanted: u64, unseen: u64| {
        let cuts = json!({ "wanted": wanted, "notLookedAt": unseen });
        truncation_note(&json!({ "metadata": { "name": "web" }, "items": [entry()], "cut": cuts }))
    };
    assert_eq!(said(0, 0), None);
    assert_eq!(said(2, 0).unwrap(), "web: 1 of 3 keys are shown; --limit shows more");
    assert_eq!(said(0, 7).unwrap(), "web: 7 keys were not examined: the queue is too large");
    assert!(said(2, 7).unwrap().contains("1 of 3") && said(2, 7).unwrap().contains("7 keys"));
}

#[test]
fn states_are_requested_by_name() {
    assert_eq!(words(&[]), None);
    assert_eq!(words(&[State::Parked, State::Running]).unwrap(), "parked,running");
}

#[test]
fn display_options_beside_a_subcommand_are_an_error() {
    let refused = |line: &str| {
        let parsed = <crate::args::Args as clap::Parser>::try_parse_from(line.split(' ')).unwrap();
        let crate::args::Command::Queue(args) = parsed.command else { panic!("{line}") };
        check(&args).err().map(|error| exit::reason_of(&error))
    };
    for line in ["queue web --state parked", "queue cancel web pod a", "queue -n red cancel web pod a"] {
        assert_eq!(refused(&format!("homeostat {line}")), None, "{line}");
    }
    for line in ["queue web cancel web pod a", "queue --state parked cancel web pod a"] {
        assert_eq!(refused(&format!("homeostat {line}")), Some(exit::ExitReason::Usage), "{line}");
    }
}
