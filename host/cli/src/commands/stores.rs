//! `homeostat stores`: lists the stores of a host, accepts the content of one, checks those of a file, and moves kinds
//! between them.

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::client::Client;
use crate::document::text;
use crate::global::{Format, Global};
use crate::output::{self, table::Table};

mod accept;
mod check;
mod moves;

/// List the stores of the host, with their states
///
/// KINDS has the patterns of the rules that lead to a store. A kind without a rule lives in `home`, the host's
/// own store. The kinds of a store that is away wait for it, and the others go on.
#[derive(clap::Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
}

/// The subcommands.
#[derive(clap::Subcommand, Clone, Debug)]
enum Command {
    Accept(accept::AcceptArgs),
    Check(check::CheckArgs),
    Copy(moves::CopyArgs),
    Prune(moves::PruneArgs),
}

/// Runs `homeostat stores`.
///
/// # Errors
/// Those of the subcommand.
pub(crate) async fn run(args: Args, global: &Global) -> anyhow::Result<ExitCode> {
    match args.command {
        None => print_stores(global).await,
        Some(Command::Accept(args)) => accept::run(args, global).await,
        Some(Command::Check(args)) => check::run(args, global).await,
        Some(Command::Copy(args)) => moves::copy(args, global).await,
        Some(Command::Prune(args)) => moves::prune(args, global).await,
    }
}

/// The path of the stores in the API.
const PATH: &str = "/homeostat/v1/stores";

/// Prints the stores of the host.
async fn print_stores(global: &Global) -> anyhow::Result<ExitCode> {
    let format = global.format(&[Format::Table, Format::Wide, Format::Json, Format::Yaml, Format::Name])?;
    let stores = Client::new(global)?.get(PATH).await?;
    let items = stores["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    match format {
        Format::Json => output::print(&output::json(&list(items)))?,
        Format::Yaml => output::print(&output::yaml(&list(items))?)?,
        Format::Name => {
            let names: String = items.iter().map(|item| format!("store/{}\n", text(item, "/name"))).collect();
            output::print(&names)?;
        }
        Format::Table | Format::Wide => {
            output::print(&table(items, format == Format::Wide))?;
            for item in items.iter().filter(|item| item["replacedBy"].is_string()) {
                let (name, reason) = (text(item, "/name"), text(item, "/reason"));
                output::eprint(&output::plain(&format!(
                    "{reason}. To use it as it is, run `homeostat stores accept {name}`."
                )));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(items: &[Value]) -> Value {
    json!({ "apiVersion": "homeostat.dev/v1alpha1", "kind": "StoreList", "items": items })
}

fn table(items: &[Value], is_wide: bool) -> String {
    let mut table =
        Table::new(["NAME", "STORAGE", "STATE", "KINDS"].into_iter().chain(WIDE.into_iter().filter(|_| is_wide)));
    for item in items {
        let mut cells: Vec<String> = ["/name", "/storage", "/state"].map(|field| text(item, field).to_owned()).into();
        cells.push(kinds(item));
        if is_wide {
            cells.extend(["/revision", "/id", "/since", "/reason"].map(|field| or_dash(text(item, field))));
            cells.push(or_dash(&texts(item, "notes").join("; ")));
        }
        table.row(cells);
    }
    table.to_string()
}

/// The additional columns of the wide table.
const WIDE: [&str; 5] = ["REVISION", "ID", "SINCE", "REASON", "NOTES"];

fn kinds(item: &Value) -> String {
    or_dash(&texts(item, "kinds").join(","))
}

/// Returns the texts of a list.
fn texts<'i>(item: &'i Value, field: &str) -> Vec<&'i str> {
    item[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests;
