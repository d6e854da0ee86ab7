//! The binary as a person uses it: its output, its errors and its exit codes.

use std::path::Path;
use std::process::{Command, Stdio};

use homeostat_testing::eventually_blocking;
use homeostat_tests::{HostProcess, copy_of_sources, guest, homeostat, repository, run, run_with};
use serde_json::json;

use crate::rollout::with_memory;

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}

/// A folder with the greeter and one greeting.
fn greeter() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(guest("greeter"), folder.path().join("greeter.wasm")).unwrap();
    std::fs::copy(repository().join("examples/greeter/greeter.yaml"), folder.path().join("greeter.yaml")).unwrap();
    folder
}

fn start(verb: &str, folder: &Path) -> (HostProcess, tempfile::TempDir) {
    let scratch = tempfile::tempdir().unwrap();
    (HostProcess::start(verb, folder, scratch.path(), &[]), scratch)
}

#[test]
fn every_command_says_what_it_does() {
    let commands = [
        "",
        "run",
        "dev",
        "build",
        "new",
        "doctor",
        "get",
        "apply",
        "delete",
        "describe",
        "events",
        "logs",
        "queue",
        "queue cancel",
        "queue postpone",
        "queue expedite",
        "enqueue",
        "retry",
        "suspend",
        "resume",
        "inspect",
        "crd",
        "test",
        "bench",
        "push",
        "pull",
        "keygen",
        "sign",
        "verify-signature",
        "grants rbac",
        "grants learn",
        "top",
        "rollout",
        "rollout history",
        "rollout undo",
        "rollout status",
        "rollout diff",
        "stores",
        "stores accept",
        "stores check",
        "stores copy",
        "stores prune",
        "hosts",
        "drain",
        "uncordon",
    ];
    let mut text = String::new();
    for command in commands {
        let arguments: Vec<&str> = command.split(' ').chain(["--help"]).filter(|word| !word.is_empty()).collect();
        let output = run(&arguments);
        assert_eq!(output.code, Some(0), "{command}: {}", output.stderr);
        text.push_str(&format!("$ homeostat {}\n{}\n", arguments.join(" "), output.stdout));
    }
    insta::assert_snapshot!("help", text);
}

#[test]
fn doctor_names_each_missing_tool_with_what_to_install() {
    let healthy = run(&["doctor", "-o", "json"]);
    let report: serde_json::Value = serde_json::from_str(&healthy.stdout).unwrap();
    assert_eq!((healthy.code, &report["ok"]), (Some(0), &json!(true)), "it built this test: {report}");
    let empty = tempfile::tempdir().unwrap();
    let bare = run_with(&["doctor"], &[("PATH", empty.path().to_str().unwrap())]);
    assert_eq!(bare.code, Some(1), "no language can be built: {}", bare.stdout);
    for (language, source) in [
        ("Rust", "rustup.rs"),
        ("Python", "python.org"),
        ("JavaScript", "nodejs.org"),
        ("Go", "go.dev"),
        ("C", "WASI_SDK_PATH"),
    ] {
        let line = bare.stdout.lines().find(|line| line.starts_with(&format!("missing  {language} ")));
        assert!(line.is_some_and(|line| line.contains(source)), "{language}: {}", bare.stdout);
    }
}

#[test]
fn a_project_is_made_once_and_a_missing_tool_is_an_error_with_the_way_out() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("hello").display().to_string();
    assert_eq!(run(&["new", &folder, "--lang", "python"]).code, Some(0));
    let again = run(&["new", &folder, "--lang", "go"]);
    assert!(again.code == Some(1) && again.stderr.contains("nothing is overwritten"), "{again:?}");
    let invalid = run(&["new", &scratch.path().join("Hello").display().to_string(), "--lang", "go"]);
    assert!(invalid.code == Some(2) && invalid.stderr.contains("lower-case"), "{invalid:?}");
    let built = run_with(&["build", &folder], &[("PATH", &folder)]);
    assert!(built.code == Some(1) && built.stderr.contains("add --install"), "{built:?}");
    let empty = run(&["build", &scratch.path().join("hello/src").display().to_string()]);
    assert!(empty.code == Some(1) && empty.stderr.contains("homeostat new"), "{empty:?}");
}

#[test]
fn grants_of_a_running_controller_print_as_a_kubernetes_role() {
    let folder = greeter();
    let (host, _scratch) = start("run", folder.path());
    host.until("greeting", "world", "/status/message", &json!("Hello, world!"));
    let output = host.ask(&["grants", "rbac", "greeter", "-o", "json"]);
    let roles: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let role = &roles["items"][0];
    assert_eq!((&role["kind"], &role["metadata"]["name"]), (&json!("ClusterRole"), &json!("greeter")));
    assert_eq!(role["rules"][1]["resources"], json!(["greetings/status"]));
    assert_eq!(output.stderr, "", "the host knows the plural");
    let file = folder.path().join("greeter.yaml");
    let output = host.ask(&["grants", "rbac", file.to_str().unwrap()]);
    assert!(output.stdout.contains("kind: ClusterRole") && output.stderr.contains("greetings"), "{output:?}");
}

#[test]
fn a_host_runs_a_folder_and_answers_every_command() {
    let folder = greeter();
    let (host, _scratch) = start("run", folder.path());
    host.until("greeting", "world", "/status/message", &json!("Hello, world!"));

    for form in ["greeting/world", "greetings", "Greeting", "greetings.demo.homeostat.dev"] {
        assert_eq!(host.ask(&["get", form, "-o", "name"]).stdout, "greeting.demo.homeostat.dev/world\n", "{form}");
    }
    let table = host.ask(&["get", "greetings"]).stdout;
    assert!(table.starts_with("NAME") && table.contains("MESSAGE") && table.contains("Hello, world!"), "{table}");
    assert!(host.ask(&["get", "greetings", "-o", "yaml"]).stdout.contains("message: Hello, world!"));
    assert!(host.ask(&["describe", "greeting", "world"]).stdout.contains("Hello, world!"));
    assert_eq!(host.json(&["get", "controllers", "greeter"])["status"]["generation"], 1);
    assert_eq!(host.ask(&["queue", "greeter"]).code, Some(0));
    assert_eq!(host.ask(&["events"]).code, Some(0));
    assert_eq!(host.ask(&["logs", "greeter"]).code, Some(0));

    let file = folder.path().join("more.yaml");
    write(folder.path(), "more.yaml", "");
    let more = "apiVersion: demo.homeostat.dev/v1\nkind: Greeting\nmetadata: {name: moon}\nspec: {name: Moon}\n";
    let elsewhere = tempfile::tempdir().unwrap();
    write(elsewhere.path(), "moon.yaml", more);
    let moon = elsewhere.path().join("moon.yaml").display().to_string();
    let applied = host.ask(&["apply", "-f", &moon]);
    assert_eq!(applied.stdout, "greeting.demo.homeostat.dev/moon created\n", "{}", applied.stderr);
    host.until("greeting", "moon", "/status/message", &json!("Hello, Moon!"));
    assert_eq!(host.ask(&["apply", "-f", &moon]).stdout, "greeting.demo.homeostat.dev/moon unchanged\n");
    write(elsewhere.path(), "twice.yaml", &more.replace("name: Moon", "name: Luna"));
    let both = host.ask(&["apply", "-f", &elsewhere.path().display().to_string()]);
    assert_eq!((both.code, both.stdout.as_str()), (Some(1), "greeting.demo.homeostat.dev/moon unchanged\n"));
    assert!(
        both.stderr.contains("twice.yaml:3:18: ") && both.stderr.contains("moon.yaml:3:18 is used"),
        "{}",
        both.stderr
    );
    assert_eq!(host.ask(&["delete", "greeting", "moon"]).code, Some(0));
    assert_eq!(host.ask(&["get", "greeting", "moon"]).code, Some(1));
    assert!(file.exists());

    let misspelt = host.ask(&["get", "greetinsg"]);
    assert!(misspelt.stderr.contains("did you mean"), "{}", misspelt.stderr);
    let ended = host.terminate();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

/// Returns the words of each line.
fn words(table: &str) -> Vec<Vec<&str>> {
    table.lines().map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn get_shows_the_printer_columns_of_a_definition() {
    let folder = greeter();
    let tab = |schedule: &str| {
        let version = "apiVersion: stable.example.com/v1\nkind: CronTab\n";
        format!("{version}metadata: {{name: nightly}}\nspec: {{schedule: \"{schedule}\", replicas: 3}}\n")
    };
    write(folder.path(), "crd.yaml", include_str!("crontabs.yaml"));
    write(folder.path(), "tab.yaml", &tab("@daily"));
    let (host, scratch) = start("run", folder.path());
    host.until("crontab", "nightly", "/spec/replicas", &json!(3));

    for form in [&["crontabs"][..], &["crontab", "nightly"], &["crontabs", "-l", "!app"]] {
        let shown = host.ask(&[&["get"], form].concat()).stdout;
        let lines = words(&shown);
        assert_eq!((lines.len(), &lines[0][..]), (2, &["NAME", "SCHEDULE", "REPLICAS", "AGE"][..]), "{shown}");
        assert_eq!(lines[1][..3], ["nightly", "@daily", "3"], "{shown}");
    }
    let all = host.ask(&["get", "crontabs,controllers", "-A"]).stdout;
    assert!(all.starts_with("NAMESPACE   NAME                                 SCHEDULE   REPLICAS   AGE\n"), "{all}");
    assert!(words(&all)[1].starts_with(&["default", "crontab.stable.example.com/nightly", "@daily"]), "{all}");
    assert!(all.contains("\n\nNAME "), "controllers have no namespace: {all}");
    let wide = host.ask(&["get", "controllers", "-o", "wide"]).stdout;
    assert!(words(&wide)[0].ends_with(&["AGE", "CONCURRENCY", "DIGEST", "LEASES", "MESSAGE"]), "{wide}");

    let (file, server) = (scratch.path().join("watch.txt"), format!("unix:{}/host.sock", scratch.path().display()));
    let mut watch = Command::new(homeostat());
    watch.args(["get", "crontab", "nightly", "--watch", "--server", &server]).stdin(Stdio::null());
    let mut watch = watch.stdout(std::fs::File::create(&file).unwrap()).spawn().unwrap();
    let shown = || std::fs::read_to_string(&file).unwrap();
    eventually_blocking("the present row", || shown().contains("@daily").then_some(()));
    write(folder.path(), "tab.yaml", &tab("@hourly"));
    eventually_blocking("the row of the change", || shown().contains("@hourly").then_some(()));
    watch.kill().unwrap();
    watch.wait().unwrap();
    let shown = shown();
    assert_eq!(words(&shown).iter().filter(|line| line[0] == "NAME").count(), 1, "{shown}");
}

#[test]
fn a_missing_host_has_its_own_exit_code() {
    let scratch = tempfile::tempdir().unwrap();
    let server = format!("unix:{}", scratch.path().join("none.sock").display());
    let output = run(&["get", "pods", "--server", &server]);
    assert_eq!(output.code, Some(69), "{}", output.stderr);
    assert!(output.stderr.contains("homeostat run"), "the error says how to start a host: {}", output.stderr);
}

#[test]
fn bad_manifests_are_reported_by_line_and_the_others_are_applied() {
    let folder = greeter();
    write(
        folder.path(),
        "wrong.yaml",
        "apiVersion: homeostat.dev/v1alpha1\nkind: Controller\nmetadata: {name: typo}\nspec:\n  component: {file: greeter.wasm}\n  limit: {}\n\
         ---\napiVersion: homeostat.dev/v1alpha1\nkind: Controller\nmetadata: {name: type}\nspec:\n  component: {file: greeter.wasm}\n  concurrency: many\n\
         ---\napiVersion: demo.homeostat.dev/v1\nkind: Greetin\nmetadata: {name: unknown}\n",
    );
    write(
        folder.path(),
        "twice.yaml",
        "apiVersion: homeostat.dev/v1alpha1\nkind: Controller\nmetadata: {name: greeter}\nspec:\n  component: {file: greeter.wasm}\n",
    );
    let (host, _scratch) = start("run", folder.path());
    host.until("greeting", "world", "/status/message", &json!("Hello, world!"));
    for place in ["wrong.yaml:6:3", "wrong.yaml:13:16", "wrong.yaml:16:7"] {
        host.wait_for_stderr(place);
    }
    host.wait_for_stderr("is defined twice");
    let said = host.stderr();
    let twice = said.lines().find(|line| line.contains("is defined twice")).unwrap();
    for place in ["twice.yaml:3:18: ", "greeter.yaml:5:9 is used"] {
        assert!(twice.contains(place), "{place} is not in: {twice}");
    }
    for expected in ["unknown field", "limit", "Greetin"] {
        assert!(said.contains(expected), "{expected} is not in:\n{said}");
    }
}

#[test]
fn a_file_that_is_not_a_component_is_refused_and_the_running_one_keeps_running() {
    let folder = greeter();
    let (host, _scratch) = start("run", folder.path());
    host.until("greeting", "world", "/status/message", &json!("Hello, world!"));
    let good = std::fs::read(folder.path().join("greeter.wasm")).unwrap();
    let core = b"\0asm\x01\0\0\0".to_vec();
    let cases = [
        ("half a file", good[..good.len() / 2].to_vec()),
        ("no component", b"hello".to_vec()),
        ("core module", core),
        ("another world", std::fs::read(guest("guest-wrong-world")).unwrap()),
    ];
    for (refusals, (what, bytes)) in (1..).zip(cases) {
        std::fs::write(folder.path().join("greeter.wasm"), bytes).unwrap();
        homeostat_testing::eventually_built(&format!("{what} to be refused"), || {
            let events = host.json(&["events"]);
            let refused = |event: &&serde_json::Value| event["reason"] == "Refused";
            let count = events["items"].as_array()?.iter().filter(refused).count();
            (count >= refusals).then_some(())
        });
        assert_eq!(host.json(&["get", "controllers", "greeter"])["status"]["generation"], 1, "{what}");
    }
    std::fs::write(folder.path().join("greeter.wasm"), homeostat_tests::renamed(&good, "new")).unwrap();
    host.until("controllers", "greeter", "/status/generation", &json!(2));
}

/// Only the refused component declares the kind, so the unknown kind is a consequence of the refusal.
#[test]
fn a_refusal_is_reported_before_the_unknown_kinds_that_it_causes() {
    let folder = greeter();
    std::fs::copy(guest("guest-wrong-world"), folder.path().join("greeter.wasm")).unwrap();
    let more = "apiVersion: demo.homeostat.dev/v1\nkind: Greeting\nmetadata: {name: moon}\nspec: {name: Moon}\n";
    write(folder.path(), "moon.yaml", more);
    let (host, _scratch) = start("run", folder.path());
    host.wait_for_stderr("Greeting is not known");
    let said = host.stderr();
    let place = |text: &str| said.find(text).unwrap_or_else(|| panic!("{text:?} is not in:\n{said}"));
    assert!(place("controller/greeter refused") < place("and 1 more are not applied"), "{said}");
    assert_eq!(said.matches("is not known").count(), 1, "{said}");
}

/// Returns the manifest of a controller with a grant of every verb on every resource.
fn controller(name: &str, file: &str, limits: &str) -> String {
    format!(
        "apiVersion: homeostat.dev/v1alpha1\nkind: Controller\nmetadata: {{name: {name}}}\nspec:\n  component: {{file: {file}}}\n  \
         grants:\n    resources:\n    - {{kinds: [\"*\"], verbs: [\"*\"], namespaces: [\"*\"]}}\n  limits: {limits}\n"
    )
}

#[test]
fn a_controller_without_its_component_is_reported_by_line_and_the_others_run() {
    let folder = greeter();
    write(folder.path(), "absent.yaml", &controller("absent", "absent.wasm", "{}"));
    let (host, _scratch) = start("run", folder.path());
    host.until("greeting", "world", "/status/message", &json!("Hello, world!"));
    host.wait_for_stderr("absent.yaml:3:18: controller/absent refused, it does not run");
    assert!(host.stderr().contains("absent.wasm"), "{}", host.stderr());
    assert_eq!(host.ask(&["get", "controllers", "-o", "name"]).stdout.lines().count(), 1);
    std::fs::copy(guest("greeter"), folder.path().join("absent.wasm")).unwrap();
    host.until("controllers", "absent", "/status/state", &json!("ready"));
}

#[test]
fn a_suspension_by_a_person_survives_a_change_of_the_files() {
    let folder = greeter();
    let manifest = controller("greeter", "greeter.wasm", "{}");
    write(folder.path(), "greeter.yaml", &manifest);
    let (host, _scratch) = start("run", folder.path());
    let is_suspended = |what: &str| {
        let state = host.json(&["get", "controllers", "greeter"])["status"]["state"].clone();
        assert_eq!(state, "suspended", "{what}");
    };
    host.until("controllers", "greeter", "/status/state", &json!("ready"));
    assert_eq!(host.ask(&["suspend", "greeter"]).code, Some(0));
    is_suspended("after the command");

    write(folder.path(), "greeter.yaml", &format!("{manifest}  concurrency: 3\n"));
    host.until("controllers", "greeter", "/status/concurrency", &json!(3));
    is_suspended("after a change of settings");
    let component = std::fs::read(guest("greeter")).unwrap();
    std::fs::write(folder.path().join("greeter.wasm"), homeostat_tests::renamed(&component, "new")).unwrap();
    host.until("controllers", "greeter", "/status/generation", &json!(2));
    is_suspended("after a change of the component");
    assert_eq!(host.ask(&["resume", "greeter"]).code, Some(0));
    host.until("controllers", "greeter", "/status/state", &json!("ready"));
}

/// C8: A second signal ends the host at once, while a guest hangs.
#[test]
fn a_second_signal_ends_the_host_at_once_while_a_guest_hangs() {
    for (signal, code) in [("TERM", 143), ("INT", 130)] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::copy(guest("guest-hostile"), folder.path().join("hostile.wasm")).unwrap();
        write(folder.path(), "hostile.yaml", &controller("hostile", "hostile.wasm", "{deadline: 300s}"));
        let slow = "apiVersion: demo.homeostat.dev/v1\nkind: Hostile\nmetadata: {name: slow}\nspec: {}\n";
        write(folder.path(), "slow.yaml", slow);
        let (host, _scratch) = start("run", folder.path());
        host.until("controllers", "hostile", "/status/counts/running", &json!(1));
        host.signal(signal);
        host.wait_for_stderr("a second signal stops at once");
        host.signal(signal);
        let ended = host.wait_for_exit();
        assert_eq!(ended.code, Some(code), "{}", ended.stderr);
    }
}

/// The folder has three built controllers, and the sources of a fourth one.
#[test]
fn dev_builds_a_folder_runs_it_until_it_settles_and_shows_it() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let apps = copy_of_sources(&["examples/greeter"], folder.path());
    for name in ["deployments", "replicasets", "kubelet"] {
        std::fs::copy(guest(name), apps.join(format!("{name}.wasm"))).unwrap();
    }
    for file in ["apps/controllers.yaml", "apps/web.yaml", "greeter/greeter.yaml"] {
        let from = repository().join("examples").join(file);
        std::fs::copy(&from, apps.join(from.file_name().unwrap())).unwrap();
    }
    let ended = HostProcess::spawn("dev", &apps, scratch.path(), &["--exit-when-settled"]).wait_for_exit();
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stderr, ended.stdout);
    let rows: Vec<Vec<&str>> = ended.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..4], ["CONTROLLER", "GEN", "STATE", "READY"], "{}", ended.stdout);
    for row in [
        &["DEPLOYMENT", "STATUS"][..],
        &["default/web", "5/5", "ready"],
        &["default/world", "message=Hello,", "world!"],
    ] {
        assert!(rows.iter().any(|found| found == row), "{row:?} is not in:\n{}", ended.stdout);
    }
    assert_eq!(rows.iter().filter(|row| row.last() == Some(&"Running")).count(), 5, "{}", ended.stdout);
}

#[test]
fn dev_reports_a_folder_without_guests() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ended = HostProcess::spawn("dev", folder.path(), scratch.path(), &["--exit-when-settled"]).wait_for_exit();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains(&format!("no guest found in {}", folder.path().display())), "{}", ended.stderr);
}

#[test]
fn a_foreign_or_locked_store_is_refused_and_left_unchanged() {
    let folder = greeter();
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let store = data.join("store.redb");
    std::fs::write(&store, vec![7; 10_000]).unwrap();
    let arguments = ["run", &folder.path().display().to_string(), "--data", &data.display().to_string()];
    let socket = format!("unix:{}", scratch.path().join("a.sock").display());
    let output = run(&[&arguments[..], &["--listen", &socket]].concat());
    assert_eq!(output.code, Some(65), "{}", output.stderr);
    assert_eq!(std::fs::read(&store).unwrap(), vec![7; 10_000]);

    std::fs::remove_file(&store).unwrap();
    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    let output = run(&[&arguments[..], &["--listen", &socket]].concat());
    assert_eq!(output.code, Some(75), "{}", output.stderr);
    assert!(output.stderr.contains("store.redb"), "{}", output.stderr);
    host.until("greeting", "world", "/status/message", &json!("Hello, world!"));
}

#[test]
fn a_failed_start_reports_the_wrong_argument_and_creates_no_store() {
    let folder = greeter();
    let text = folder.path().display().to_string();
    let nowhere = run(&["run", &text, "--listen", "80"]);
    assert_eq!(nowhere.code, Some(2), "{}", nowhere.stderr);
    assert!(nowhere.stderr.contains("`80` is not an address"), "{}", nowhere.stderr);
    assert!(!folder.path().join(".homeostat").exists(), "the failed start created a store");

    let socket = format!("unix:{}", folder.path().join("a.sock").display());
    let tokens = run(&["run", &text, "--listen", &socket, "--tokens", "/dev/null/none"]);
    assert_eq!(tokens.code, Some(1), "{}", tokens.stderr);
    assert!(tokens.stderr.contains("/dev/null/none") && !tokens.stderr.contains("--listen"), "{}", tokens.stderr);
}

#[test]
fn a_store_of_a_newer_format_is_refused_and_left_unchanged() {
    let folder = greeter();
    let scratch = tempfile::tempdir().unwrap();
    let (data, store) = (scratch.path().join("data"), scratch.path().join("data/store.redb"));
    std::fs::create_dir(&data).unwrap();
    // Without a write-ahead log, redb itself can open the file.
    let options = homeostat_store::Options { wal_bytes: 0, ..Default::default() };
    drop(homeostat_store::embedded::EmbeddedStore::open(&store, options).unwrap());
    let meta: redb::TableDefinition<'_, &str, &str> = redb::TableDefinition::new("meta");
    let database = redb::Database::open(&store).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(meta).unwrap().insert("format", "999").unwrap();
    write.commit().unwrap();
    drop(database);
    let before = std::fs::read(&store).unwrap();
    let (folder, data) = (folder.path().display().to_string(), data.display().to_string());
    let socket = format!("unix:{}", scratch.path().join("other.sock").display());
    let output = run(&["run", &folder, "--data", &data, "--listen", &socket]);
    assert_eq!(output.code, Some(65), "{}", output.stderr);
    assert!(output.stderr.contains("format 999"), "{}", output.stderr);
    assert_eq!(std::fs::read(&store).unwrap(), before);
}

#[test]
fn inspect_describes_a_component_that_does_not_run() {
    let uptime = guest("uptime").display().to_string();
    let output = run(&["inspect", &uptime, "-o", "json"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let found: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let text = found.to_string();
    for expected in ["sha256:", "wasi:http/outgoing-handler", "homeostat:reconciler/reconciler@0.1.0", "Monitor"] {
        assert!(text.contains(expected), "{expected} is not in {text}");
    }
    for call in ["describe", "reconcile"] {
        assert!(found["calls"][call]["memoryBytesMax"].as_u64().unwrap() >= 1 << 16, "{call} was measured: {found}");
    }
    assert_eq!(found["limits"], serde_json::json!({}), "the defaults are enough");
    let refused = run(&["inspect", &guest("guest-wrong-world").display().to_string()]);
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    assert!(refused.stderr.contains("homeostat:reconciler/reconciler@0.1.0"), "{}", refused.stderr);
}

#[test]
fn inspect_describes_a_component_with_a_large_initial_memory() {
    let folder = tempfile::tempdir().unwrap();
    let component = folder.path().join("large.wasm");
    std::fs::write(&component, with_memory(65)).unwrap();
    let output = run(&["inspect", &component.display().to_string(), "-o", "json"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert!(output.stdout.contains("Greeting"), "{}", output.stdout);
    std::fs::write(&component, with_memory(1025)).unwrap();
    let refused = run(&["inspect", &component.display().to_string()]);
    assert!(refused.stderr.contains("limit memory"), "{}", refused.stderr);
}

#[test]
fn bench_prints_one_line() {
    let noop = guest("guest-noop").display().to_string();
    let output = run(&["bench", &noop, "--keys", "1000", "--seconds", "1"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert_eq!(output.stdout.lines().count(), 1, "{}", output.stdout);
    for figure in ["reconciles/s", "p50", "p99", "instances/s", "bytes per idle controller"] {
        assert!(output.stdout.contains(figure), "{figure} is not in {}", output.stdout);
    }
    assert!(!output.stdout.contains("failed"), "{}", output.stdout);
}

/// The program in `examples/embed` has a feeder in Rust.
#[test]
fn a_program_can_embed_a_host_and_feed_it() {
    let mut child = std::process::Command::new(homeostat_tests::embed())
        .arg(guest("greeter"))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"World\nMoon\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["2 greeted", "moon: Hello, Moon!", "world: Hello, World!"]);
}
