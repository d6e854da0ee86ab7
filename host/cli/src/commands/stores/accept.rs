//! `homeostat stores accept`: has the host use the content that a store has now.

use std::process::ExitCode;

use reqwest::Method;
use serde_json::{Value, json};

use super::PATH;
use crate::client::Client;
use crate::document::text;
use crate::exit;
use crate::global::{Format, Global};
use crate::output;

/// Use the content that a store has now, although the host knows it with other content
///
/// A store is `Replaced` when its server was emptied, restored or exchanged, or when the file of stores leads to
/// another server. The host then uses nothing of it. After this command it does: resources that the store does not
/// have any more are deleted for everyone who watches them. Dependents in other stores whose owners were in the
/// content before stay.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct AcceptArgs {
    /// The store, as `homeostat stores` names it
    #[arg(value_name = "NAME")]
    name: String,
}

/// Runs `homeostat stores accept`.
///
/// # Errors
/// When there is no such store, when its content was not replaced, and when the host cannot answer.
pub(super) async fn run(args: AcceptArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let AcceptArgs { name } = args;
    global.format(&[Format::Table])?;
    let client = Client::new(global)?;
    let stores = client.get(PATH).await?;
    let store = find(&stores, &name)?;
    let Some(content) = store["replacedBy"].as_str() else {
        let state = text(store, "/state");
        return Err(exit::failed(format!("the content of store {name:?} was not replaced: its state is {state}")));
    };
    let path = format!("{PATH}/{name}/accept");
    let body = json!({ "content": content }).to_string();
    client.send(Method::POST, &path, "application/json", body).await?;
    output::print(&format!("store/{name} accepted, with the content {content:?}\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn find<'s>(stores: &'s Value, name: &str) -> anyhow::Result<&'s Value> {
    let items = stores["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().find(|item| text(item, "/name") == name).ok_or_else(|| {
        let names: Vec<&str> = items.iter().map(|item| text(item, "/name")).collect();
        exit::failed(format!("there is no store {name:?}: the host has {}", names.join(", ")))
    })
}
