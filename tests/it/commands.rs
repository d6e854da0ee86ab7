//! `kubectl` against a host, beside a real server: each line of `commands/commands.txt` runs against both, in sequence, and
//! the exit codes and outputs are compared.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use homeostat_tests::{Cluster, ClusterOptions, HostProcess, kubectl, repository};
use regex::Regex;
use serde_json::Value;
use tempfile::TempDir;

use crate::comparison::{asked, difference};

/// The parts that differ between two servers that do the same, each with its replacement.
const MASKS: [(&str, &str); 14] = [
    ("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
    (r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d \+0000", "TIME"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? \+0000( UTC)?", "TIME"),
    (r"\bv1\.36\.[0-9A-Za-z.+-]+", "VERSION"),
    (r"https?://127\.0\.0\.1:\d+", "SERVER"),
    (r"(LIVE|MERGED|kubectl-edit)-\d+", "$1-NUMBER"),
    (r#"resourceVersion: "\d+""#, "resourceVersion: NUMBER"),
    (r"Resource Version: +\d+", "Resource Version: NUMBER"),
    (r"\b10\.\d+\.\d+\.\d+\b", "ADDRESS"),
    (r"\b(\d+[smhd])+( ago)?\b|<invalid>", "AGE"),
    (r"(nodePort: |:|NodePort:\s+\S+\s+)3[0-2]\d{3}\b", "${1}PORT"),
    (r"[ \t]+", " "),
    (r" (\n|$)", "$1"),
];

/// The result of a command, without what differs between two servers that do the same.
#[derive(Debug, PartialEq)]
struct Outcome {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// A server and a folder with the files of its `kubectl`.
struct Side {
    home: TempDir,
}

impl Side {
    fn new(kubeconfig: &Path) -> Self {
        let home = TempDir::new().unwrap();
        std::fs::copy(kubeconfig, home.path().join("kubeconfig")).unwrap();
        let copied = Command::new("cp").arg("-R").arg(folder().join("files/.")).arg(home.path()).status().unwrap();
        assert!(copied.success(), "the files are not copied");
        Self { home }
    }

    /// Runs a line of the table in a shell.
    fn run(&self, line: &str, masks: &[(Regex, &str)]) -> Outcome {
        let (home, kubectl) = (self.home.path(), kubectl());
        let mut command = Command::new("/bin/bash");
        command
            .args(["-o", "pipefail", "-c", line])
            .env_clear()
            .env("HOME", home)
            .env("TMPDIR", home)
            .current_dir(home);
        command.env("PATH", format!("{}:/usr/bin:/bin", kubectl.parent().unwrap().display()));
        command.env("KUBECONFIG", home.join("kubeconfig")).stdin(Stdio::null());
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).replace(home.to_str().unwrap(), "HOME");
            masks.iter().fold(in_order(with_sorted_warnings(&text)), |text, (mask, word)| {
                mask.replace_all(&text, *word).into_owned()
            })
        };
        Outcome { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }
}

/// Returns the folder of the table and its files. `COMPARISON_COMMANDS` names another one.
fn folder() -> PathBuf {
    asked("COMPARISON_COMMANDS").map_or_else(|| repository().join("tests/it/commands"), PathBuf::from)
}

/// Returns text with each run of warnings sorted: `kubectl set env --from` walks a map of Go, whose order is random.
fn with_sorted_warnings(text: &str) -> String {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    let is_warning = |line: &str| line.starts_with("Warning: key ");
    lines.chunk_by_mut(|a, b| is_warning(a) && is_warning(b)).for_each(<[&str]>::sort_unstable);
    lines.concat()
}

/// Returns a JSON document with its fields in order and without its numbers of revisions and ports. Other text stays.
fn in_order(text: String) -> String {
    let Ok(mut document) = serde_json::from_str::<Value>(&text) else { return text };
    if !document.is_object() && !document.is_array() {
        return text;
    }
    without_numbers(&mut document);
    serde_json::to_string_pretty(&document).unwrap()
}

fn without_numbers(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                match name.as_str() {
                    "resourceVersion" | "nodePort" => *field = "NUMBER".into(),
                    _ => without_numbers(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(without_numbers),
        _ => {}
    }
}

/// The reason of an event of a kube-apiserver under load: its caches showed a service before the address of the service.
/// Commands that print it read, and are repeated without it.
const REPAIR: &str = "ClusterIPNotAllocated";

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn kubectl_commands_end_as_with_a_real_server_and_say_the_same() {
    let cluster = Cluster::start(ClusterOptions::without_accounts());
    let scratch = TempDir::new().unwrap();
    let host = HostProcess::start_on_port("http", scratch.path(), &scratch.path().join("host"), &[], &[]);
    let there = Side::new(&cluster.kubeconfig("admin"));
    let here = Side::new(&host.kubeconfig(scratch.path()));
    let masks = &MASKS.map(|(mask, word)| (Regex::new(mask).unwrap(), word));
    let table = std::fs::read_to_string(folder().join("commands.txt")).unwrap();
    let lines: Vec<&str> = table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let mut different = String::new();
    for line in &lines {
        let [mut theirs, ours] = std::thread::scope(|scope| {
            let both = [&there, &here].map(|side| scope.spawn(move || side.run(line, masks)));
            both.map(|side| side.join().unwrap())
        });
        if theirs.stdout.contains(REPAIR) {
            let remove = format!("kubectl delete events --all-namespaces --field-selector reason={REPAIR}");
            let removed = there.run(&remove, masks);
            assert_eq!(removed.code, Some(0), "{}", removed.stderr);
            theirs = there.run(line, masks);
        }
        if theirs == ours {
            continue;
        }
        let (output, errors) = (difference(&theirs.stdout, &ours.stdout), difference(&theirs.stderr, &ours.stderr));
        different += &format!("{line}\n  {:?} {:?}\n{output}{errors}", theirs.code, ours.code);
    }
    assert!(different.is_empty(), "{different}\n{}", host.stderr());
    assert!(lines.len() >= 200, "{}", lines.len());
}
