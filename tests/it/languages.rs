//! The commands of docs/languages.md, as they stand there: from nothing to a swapped controller, in each language.

use std::path::Path;
use std::process::Command;

use homeostat_tests::{homeostat, node_tool, python_tool, repository};

/// The tries of a command until it prints what the document shows: one every 200 ms.
const TRIES_MAX: u32 = 1500;

/// A command of the document, and the output that the document shows below it.
#[derive(Debug, PartialEq)]
struct ShownCommand {
    command: String,
    output: String,
}

/// Returns the commands of the first block below a heading.
fn shown_commands(document: &str, heading: &str) -> Vec<ShownCommand> {
    let section = document.split_once(&format!("\n### {heading}\n")).expect("the document has the language").1;
    let block =
        section.split_once("```console\n").and_then(|(_, rest)| rest.split_once("```")).expect("it has commands").0;
    let mut found: Vec<ShownCommand> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), found.last_mut()) {
            (Some(command), _) => found.push(ShownCommand { command: command.to_owned(), output: String::new() }),
            (None, Some(last)) => last.output.push_str(&format!("{line}\n")),
            (None, None) => panic!("the block begins with output: {line}"),
        }
    }
    found
}

/// Returns a script of the commands. A command whose output the document shows is repeated until it prints that.
fn script(commands: &[ShownCommand]) -> String {
    let quoted = |text: &str| format!("'{}'", text.trim_end().replace('\'', r"'\''"));
    let lines = commands.iter().map(|ShownCommand { command, output }| match output.as_str() {
        "" => format!("{command}\n"),
        output => format!("until_prints {} {}\n", quoted(output), quoted(command)),
    });
    let lines: String = lines.collect();
    format!(
        r#"set -euo pipefail
PATH="$BINARIES:$PATH"
trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT
until_prints() {{
  for _ in $(seq {TRIES_MAX}); do
    if [ "$(eval "$2" 2>/dev/null)" = "$1" ]; then return; fi
    jobs %1 >/dev/null
    sleep 0.2
  done
  echo "$2 does not print: $1"
  eval "$2" || true
  homeostat get controllers -o yaml || true
  homeostat queue hello || true
  exit 1
}}
{lines}wait %1
"#
    )
}

/// Runs the commands of a language in a new folder. `more` are further variables of the environment.
fn run_commands(language: &str, more: &[(&str, &Path)]) {
    let document = std::fs::read_to_string(repository().join("docs/languages.md")).unwrap();
    let commands = shown_commands(&document, language);
    let swaps = commands.iter().filter(|command| command.output.contains("message: ")).count();
    assert!(swaps >= 2, "the commands show the message before and after an edit: {commands:?}");
    let scratch = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(repository(), scratch.path().join("homeostat")).unwrap();
    bash(&script(&commands), scratch.path(), more);
}

/// Runs a script in a folder, with `homeostat` on PATH and an address of its own for a host.
fn bash(script: &str, folder: &Path, more: &[(&str, &Path)]) {
    let socket = format!("unix:{}", folder.join("host.sock").display());
    let mut command = Command::new("bash");
    command.arg("-c").arg(script).current_dir(folder);
    command.env("BINARIES", homeostat().parent().unwrap());
    command.env("HOMEOSTAT_LISTEN", &socket).env("HOMEOSTAT_SERVER", &socket);
    let output = command.envs(more.iter().copied()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{script}\n{:?}\n{}", output.status, String::from_utf8_lossy(&said));
}

/// Builds a controller that uses every function of the layer of a language, and runs its cases. `tools` is the folder of
/// the compiler.
fn check_layer(language: &str, source: &str, tools: &Path) {
    let scratch = tempfile::tempdir().unwrap();
    let layers = repository().join("tests/toolchains/layers");
    let file = layers.join(Path::new(source).file_name().unwrap());
    let script = format!(
        r#"set -euo pipefail
PATH="$TOOLS:$BINARIES:$PATH"
homeostat new layers --lang {language}
cp "$SOURCE" layers/{source}
homeostat build layers
homeostat test layers/layers.wasm "$CASES"
"#
    );
    let more = [("TOOLS", tools), ("SOURCE", &file), ("CASES", &layers.join("cases.yaml"))];
    bash(&script, scratch.path(), &more);
}

fn python_commands(language: &str) {
    run_commands(language, &[]);
}

fn node_commands() {
    run_commands("JavaScript", &[]);
}

fn go_commands() {
    run_commands("Go", &[]);
}

fn go_layer() {
    check_layer("go", "main.go", Path::new("/"));
}

#[test]
fn a_controller_in_rust_starts_from_nothing_and_is_swapped() {
    // Its own folder of compiled dependencies, which later runs share.
    let target = repository().join("target/tools/languages");
    run_commands("Rust", &[("CARGO_TARGET_DIR", &target)]);
}

#[test]
#[cfg_attr(missing_python, ignore = "Python 3.10 or newer with venv is not on PATH: https://www.python.org/downloads")]
fn a_controller_in_python_starts_from_nothing_and_is_swapped() {
    python_commands("Python");
}

#[test]
#[cfg_attr(missing_python, ignore = "Python 3.10 or newer with venv is not on PATH: https://www.python.org/downloads")]
fn a_controller_in_c_starts_from_nothing_and_is_swapped() {
    python_commands("C");
}

#[test]
#[cfg_attr(missing_node, ignore = "Node 20 or newer with npm is not on PATH: https://nodejs.org")]
fn a_controller_in_javascript_starts_from_nothing_and_is_swapped() {
    node_commands();
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn a_controller_in_go_starts_from_nothing_and_is_swapped() {
    go_commands();
}

#[test]
#[cfg_attr(missing_python, ignore = "Python 3.10 or newer with venv is not on PATH: https://www.python.org/downloads")]
fn the_layer_for_python_reads_writes_lists_and_fails() {
    check_layer("python", "src/app.py", python_tool("componentize-py").parent().unwrap());
}

#[test]
#[cfg_attr(missing_node, ignore = "Node 20 or newer with npm is not on PATH: https://nodejs.org")]
fn the_layer_for_javascript_reads_writes_lists_and_fails() {
    check_layer("js", "src/app.js", node_tool("componentize-js").parent().unwrap());
}

/// The types of the contract come from `wit`, and those of the resource from the project.
#[test]
#[cfg_attr(missing_node, ignore = "Node 20 or newer with npm is not on PATH: https://nodejs.org")]
fn the_types_of_a_project_in_javascript_find_a_wrong_name() {
    node_types();
}

fn node_types() {
    let script = r#"set -euo pipefail
PATH="$BINARIES:$PATH"
homeostat new typed --lang js
cd typed
npm ci --no-audit --no-fund
npm run check
sed -i 's/const { name } = greeting.spec;/const { nam: name } = greeting.spec;/' src/app.js
if npm run check > said; then echo "a wrong name is not found"; exit 1; fi
grep "Property 'nam' does not exist" said
"#;
    bash(script, tempfile::tempdir().unwrap().path(), &[]);
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn the_layer_for_go_reads_writes_lists_and_fails() {
    go_layer();
}

#[test]
#[cfg_attr(missing_python, ignore = "Python 3.10 or newer with venv is not on PATH: https://www.python.org/downloads")]
fn the_layer_for_c_reads_writes_lists_and_fails() {
    let tools = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(python_tool("python-zig"), tools.path().join("zig")).unwrap();
    check_layer("c", "src/main.c", tools.path());
}

#[test]
fn the_commands_of_a_document_are_read_with_their_output() {
    let document = "# A\n\n### B\n\ntext\n\n```console\n$ one\n$ two 'x'\n  shown\n```\n\n```console\n$ three\n```\n";
    let shown = |command: &str, output: &str| ShownCommand { command: command.into(), output: output.into() };
    let commands = shown_commands(document, "B");
    assert_eq!(commands, [shown("one", ""), shown("two 'x'", "  shown\n")]);
    assert!(script(&commands).contains("one\nuntil_prints '  shown' 'two '\\''x'\\'''\n"));
}
