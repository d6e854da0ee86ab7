//! Writes a new list of functions: `record MAP TRACES`. The map is that of LLD, and there is one trace for each run.
//! `record.sh` calls it.

use std::fs::read_to_string;
use std::io::Write as _;

use anyhow::{Context, Result};
use homeostat_orderfile::{LinkMap, functions_run, list_of};

fn main() -> Result<()> {
    let mut paths = std::env::args().skip(1);
    let read = |path: String| read_to_string(&path).with_context(|| format!("{path} cannot be read"));
    let map = LinkMap::of(&read(paths.next().context("there is no map")?)?);
    let runs: Vec<_> = paths.map(|path| Ok(functions_run(&read(path)?))).collect::<Result<_>>()?;
    Ok(std::io::stdout().write_all(list_of(&runs, &map).as_bytes())?)
}
