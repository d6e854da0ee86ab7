//! `homeostat top`: shows the costs of controllers and their most expensive keys.

use std::cmp::Reverse;
use std::process::ExitCode;
use std::time::Duration;

use homeostat_api::age::short_ms;
use homeostat_runtime::manifest::Span;
use serde_json::{Value, json};

use super::unanswered::UnansweredHosts;
use super::{queue, resource_args};
use crate::client::{Client, with_query};
use crate::document::text;
use crate::global::{Format, Global};
use crate::output::units::{micros, size};
use crate::output::{self, table::Table};

/// Show what controllers cost, and their most expensive keys
///
/// RUNS/S and CPU% cover the last minute; CPU% is of one processor. The other columns count since the
/// controller was added. The host tracks 64 keys of each controller, among them every key that took more than
/// a 64th of the total. A + marks a key that was counted only since the host started to track it.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// Only this controller, and its most expensive keys
    #[arg(value_parser = resource_args::controller)]
    controller: Option<String>,
    /// The most expensive keys of every controller
    #[arg(long)]
    keys: bool,
    /// The column to sort by, largest first
    #[arg(long, value_name = "MEASURE", value_enum, default_value_t = Measure::Cpu)]
    sort: Measure,
    /// Number of keys to show
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    limit: usize,
    /// Keep running and print the table repeatedly
    #[arg(short = 'w', long)]
    watch: bool,
    /// The time between two tables
    #[arg(long, value_name = "SPAN", default_value = "2s", requires = "watch")]
    every: Span,
}

/// The measure to sort by, largest first.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
enum Measure {
    /// CPU time
    Cpu,
    /// Peak memory of one reconcile
    Memory,
    /// Effects, without log lines
    Effects,
    /// Bytes in and out
    Bytes,
    /// Reconciles
    Runs,
}

impl Measure {
    /// Returns the measure from the costs of a controller or a key.
    fn of(self, spent: &Value) -> u64 {
        match self {
            Self::Cpu => number(spent, "cpuUs"),
            Self::Memory => number(spent, "memoryBytesMax"),
            Self::Effects => effects(spent),
            Self::Bytes => number(spent, "bytesOut") + number(spent, "bytesIn"),
            Self::Runs => number(spent, "runs"),
        }
    }
}

/// The shortest time between two tables.
const EVERY_MIN: Duration = Duration::from_millis(100);

/// Runs `homeostat top`.
///
/// # Errors
/// When the controller does not exist, or the host cannot answer.
pub(crate) async fn run(args: Args, global: &Global) -> anyhow::Result<ExitCode> {
    let format = global.format(&[Format::Table, Format::Wide, Format::Json, Format::Yaml])?;
    let client = Client::new(global)?;
    let keys = (args.keys || args.controller.is_some()).then_some("1");
    let path = with_query("/homeostat/v1/costs", &[("controller", args.controller.as_deref()), ("keys", keys)]);
    let mut unanswered = UnansweredHosts::default();
    loop {
        let mut costs = client.get(&path).await?;
        unanswered.note(&costs);
        sort(&mut costs, args.sort);
        match format {
            Format::Json => output::print(&output::json(&list(&costs)))?,
            Format::Yaml => output::print(&output::yaml(&list(&costs))?)?,
            _ => print_tables(&costs, &args, format == Format::Wide)?,
        }
        if !args.watch {
            return Ok(unanswered.exit_code());
        }
        tokio::time::sleep(args.every.0.max(EVERY_MIN)).await;
        if matches!(format, Format::Table | Format::Wide) {
            output::print("\n")?;
        }
    }
}

fn list(costs: &Value) -> Value {
    json!({ "apiVersion": "homeostat.dev/v1alpha1", "kind": "CostList", "items": costs["items"] })
}

/// Sorts controllers and keys, the most expensive first.
fn sort(costs: &mut Value, by: Measure) {
    for item in costs["items"].as_array_mut().into_iter().flatten() {
        if let Some(keys) = item["keys"].as_array_mut() {
            keys.sort_by_cached_key(|key| (Reverse(by.of(&key["spent"])), queue::key(key)));
        }
    }
    if let Some(items) = costs["items"].as_array_mut() {
        items.sort_by_cached_key(|item| Reverse(by.of(&item["spent"])));
    }
}

/// Describes the components that are being compiled; `None` if there are none.
fn compiling(costs: &Value) -> Option<String> {
    let items = costs["compiling"].as_array().filter(|items| !items.is_empty())?;
    let item = |item: &Value| format!("{} {}", text(item, "/name"), short_ms(number(item, "compilingForMs")));
    Some(format!("Compiling: {}", items.iter().map(item).collect::<Vec<_>>().join(", ")))
}

fn print_tables(costs: &Value, args: &Args, is_wide: bool) -> anyhow::Result<()> {
    let items = || costs["items"].as_array().into_iter().flatten();
    if let Some(line) = compiling(costs) {
        output::eprint(&line);
    }
    if items().next().is_none() {
        output::eprint("No controllers run.");
        return Ok(());
    }
    let is_of_keys = args.keys || args.controller.is_some();
    if !args.keys {
        output::print(&controllers(items(), is_wide))?;
    }
    if is_of_keys {
        let (table, left_out) = keys(items(), args, is_wide);
        if table.is_empty() {
            output::eprint("Nothing has been reconciled yet.");
            return Ok(());
        }
        let gap = if args.keys { "" } else { "\n" };
        output::print(&format!("{gap}{table}"))?;
        if left_out > 0 {
            output::eprint(&format!("{left_out} more keys are not shown; --limit shows more"));
        }
    }
    Ok(())
}

fn controllers<'c>(items: impl Iterator<Item = &'c Value>, is_wide: bool) -> String {
    let head = ["CONTROLLER", "RUNS/S", "CPU%", "RUNS", "ERRORS", "CPU", "MEAN", "MAX", "MEMORY", "EFFECTS", "BYTES"];
    let mut table = Table::new(head.into_iter().chain(WIDE.into_iter().filter(|_| is_wide)));
    for item in items {
        let (spent, lately) = (&item["spent"], &item["lately"]);
        let mut cells = vec![
            text(item, "/controller").to_owned(),
            rate(lately, |lately| number(lately, "runs") as f64),
            rate(lately, |lately| number(lately, "cpuUs") as f64 / 1e6 * 100.0),
        ];
        cells.extend(measures(spent, is_wide));
        table.row(cells);
    }
    table.to_string()
}

/// Returns the table of keys, and the number of keys beyond `--limit`.
fn keys<'c>(items: impl Iterator<Item = &'c Value>, args: &Args, is_wide: bool) -> (Table, usize) {
    let of = |item: &'c Value| {
        let keys = item["keys"].as_array().into_iter().flatten();
        keys.map(move |key| (text(item, "/controller"), key)).collect::<Vec<_>>()
    };
    let mut all: Vec<(&str, &Value)> = items.flat_map(of).collect();
    all.sort_by_key(|(_, key)| Reverse(args.sort.of(&key["spent"])));
    let head = ["CONTROLLER", "KEY", "RUNS", "ERRORS", "CPU", "MEAN", "MAX", "MEMORY", "EFFECTS", "BYTES"];
    let mut table = Table::new(head.into_iter().chain(WIDE.into_iter().filter(|_| is_wide)));
    for (controller, key) in all.iter().take(args.limit) {
        let mut cells = vec![(*controller).to_owned(), queue::key(key)];
        let mut measures = measures(&key["spent"], is_wide);
        if key["atLeast"] == true {
            measures[0].push('+');
        }
        cells.extend(measures);
        table.row(cells);
    }
    (table, all.len().saturating_sub(args.limit))
}

/// The additional columns of the wide table.
const WIDE: [&str; 6] = ["WRITES", "READS", "HTTP", "BYTES OUT", "BYTES IN", "PAGES/RUN"];

/// Returns the cells with the costs.
fn measures(spent: &Value, is_wide: bool) -> Vec<String> {
    let (runs, cpu) = (number(spent, "runs"), number(spent, "cpuUs"));
    let (bytes_out, bytes_in) = (number(spent, "bytesOut"), number(spent, "bytesIn"));
    let mut cells = vec![
        runs.to_string(),
        number(spent, "failures").to_string(),
        micros(cpu),
        micros(cpu / runs.max(1)),
        micros(number(spent, "cpuUsMax")),
        size(number(spent, "memoryBytesMax")),
        effects(spent).to_string(),
        size(bytes_out + bytes_in),
    ];
    if is_wide {
        let of = |classes: &[&str]| classes.iter().map(|class| number(&spent["effects"], class)).sum::<u64>();
        cells.extend([of(&["write"]), of(&["get", "list"]), of(&["http"])].map(|count| count.to_string()));
        cells.extend([size(bytes_out), size(bytes_in)]);
        // Pages by which a reconcile grew its memory, on average.
        cells.push(format!("{:.1}", number(spent, "pagesGrown") as f64 / runs.max(1) as f64));
    }
    cells
}

fn rate(lately: &Value, of: impl Fn(&Value) -> f64) -> String {
    let seconds = lately["seconds"].as_f64().unwrap_or(0.0);
    if seconds > 0.0 { format!("{:.1}", of(lately) / seconds) } else { "-".to_owned() }
}

/// Returns the number of effects of all classes except log lines.
fn effects(spent: &Value) -> u64 {
    let classes = spent["effects"].as_object().into_iter().flatten();
    classes.filter(|(class, _)| *class != "log").filter_map(|(_, count)| count.as_u64()).sum()
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or(0)
}

#[cfg(test)]
mod tests;
