//! Writes a new list of functions: `record MAP TRACES`. The map is that of LLD, and there is one trace for each run.
//! `record.sh` calls it.

use std::fs::read_to_string;
use std::io::Write as _;

use anyhow::{Context, Result, ensure};
use homeostat_orderfile::{LinkMap, parse_trace, write_list};

/// A host runs more functions before it serves.
const FUNCTIONS_MIN: usize = 1000;

fn main() -> Result<()> {
    let mut paths = std::env::args().skip(1);
    let read = |path: &str| read_to_string(path).with_context(|| format!("{path} cannot be read"));
    let map = LinkMap::parse(&read(&paths.next().context("there is no map")?)?);
    let main = map.main().context("the map is not that of a program")?;
    let run = |path: String| parse_trace(&read(&path)?, main).with_context(|| format!("{path} lacks the program"));
    let runs: Vec<_> = paths.map(run).collect::<Result<_>>()?;
    ensure!(runs.iter().all(|run| run.len() >= FUNCTIONS_MIN), "a trace is too short");
    let list = write_list(&runs, &map);
    ensure!(list.lines().count() >= FUNCTIONS_MIN, "the map is not that of the program");
    Ok(std::io::stdout().write_all(list.as_bytes())?)
}
