//! `homeostat graph`: shows which controllers turn resources of one kind into resources of others.

use std::fmt::Write as _;
use std::process::ExitCode;

use homeostat_runtime::{ControllerKinds, KindGraph};
use serde_json::Value;

use crate::client::Client;
use crate::global::{Format, Global};
use crate::output;
use crate::output::table::Table;

/// Show which controllers turn resources of one kind into resources of others, and cycles among the kinds
///
/// A controller writes the kinds of its secondary watches, and those that its grants name with a verb that writes. A cycle
/// of kinds can be right, or a loop that never settles: the command warns about each of them.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// Print the graph in the DOT language of Graphviz
    #[arg(long)]
    dot: bool,
}

const PATH: &str = "/homeostat/v1/graph";

/// Runs `homeostat graph`.
///
/// # Errors
/// When the host cannot answer.
pub(crate) async fn run(Args { dot }: Args, global: &Global) -> anyhow::Result<ExitCode> {
    let format = global.format(&[Format::Table, Format::Json, Format::Yaml])?;
    let document: Value = Client::new(global)?.get(PATH).await?;
    if !dot && format != Format::Table {
        let text = if format == Format::Json { output::json(&document) } else { output::yaml(&document)? };
        output::print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let graph: KindGraph = serde_json::from_value(document)?;
    output::print(&if dot { dot_text(&graph)? } else { table(&graph).take() })?;
    for cycle in &graph.cycles {
        output::eprint(&format!(
            "warning: these kinds are made from one another: {}",
            output::plain(&cycle.join(", "))
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn table(graph: &KindGraph) -> Table {
    let mut table = Table::new(["CONTROLLER", "MANAGES", "WRITES", "READS"]);
    for ControllerKinds { name, manages, watches, writes } in &graph.controllers {
        let list = |kinds: &mut dyn Iterator<Item = &String>| {
            let text = kinds.map(String::as_str).collect::<Vec<_>>().join(",");
            output::plain(if text.is_empty() { "-" } else { &text })
        };
        let reads = list(&mut watches.difference(writes));
        table.row(vec![output::plain(name), output::plain(manages), list(&mut writes.iter()), reads]);
    }
    table
}

/// Returns the graph in the DOT language: kinds are boxes, controllers are edges. An edge of a cycle is red.
fn dot_text(graph: &KindGraph) -> anyhow::Result<String> {
    let mut text = String::from("digraph kinds {\n  node [shape=box];\n");
    for ControllerKinds { name, manages, watches, writes } in &graph.controllers {
        writeln!(text, "  {};", quoted(manages))?;
        for to in writes {
            let is_cycle = graph.cycles.iter().any(|cycle| cycle.contains(manages) && cycle.contains(to));
            let colour = if is_cycle { ", color=red" } else { "" };
            writeln!(text, "  {} -> {} [label={}{colour}];", quoted(manages), quoted(to), quoted(name))?;
        }
        for from in watches.difference(writes) {
            writeln!(text, "  {} -> {} [label={}, style=dotted];", quoted(from), quoted(manages), quoted(name))?;
        }
    }
    text.push_str("}\n");
    Ok(text)
}

/// Returns a text as an identifier of DOT.
fn quoted(text: &str) -> String {
    format!("\"{}\"", output::plain(text).replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn graph() -> KindGraph {
        serde_json::from_value(json!({
            "controllers": [
                {"name": "a", "manages": "x/A", "watches": ["x/B", "C"], "writes": ["x/B"]},
                {"name": "b", "manages": "x/B", "watches": [], "writes": ["x/A"]},
            ],
            "cycles": [["x/A", "x/B"]],
        }))
        .unwrap()
    }

    #[test]
    fn a_graph_in_dot_has_an_edge_for_each_written_and_each_read_kind() {
        let text = dot_text(&graph()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "digraph kinds {",
                "  node [shape=box];",
                "  \"x/A\";",
                "  \"x/A\" -> \"x/B\" [label=\"a\", color=red];",
                "  \"C\" -> \"x/A\" [label=\"a\", style=dotted];",
                "  \"x/B\";",
                "  \"x/B\" -> \"x/A\" [label=\"b\", color=red];",
                "}",
            ]
        );
    }

    #[test]
    fn a_table_names_the_kinds_of_each_controller() {
        let text = table(&graph()).take();
        assert!(text.lines().nth(1).is_some_and(|line| line.split_whitespace().eq(["a", "x/A", "x/B", "C"])), "{text}");
        assert!(text.lines().nth(2).is_some_and(|line| line.split_whitespace().eq(["b", "x/B", "x/A", "-"])), "{text}");
    }
}
