//! `homeostat grants`: derives grants from observed use, and Kubernetes Roles from grants.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use homeostat_component::Grants;
use serde_json::{Value, json};

use super::control;
use crate::client::{Client, Kinds};
use crate::global::{Format, Global};
use crate::{exit, manifest, output};

mod learn;
mod rbac;
mod store_role;

/// Show what controllers may do, and what they need
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

/// The subcommands.
#[derive(clap::Subcommand, Clone, Debug)]
enum Command {
    Learn(learn::LearnArgs),
    Rbac(RbacArgs),
}

/// Print the Kubernetes Roles that match a controller's grants
///
/// Grants that are limited to namespaces become one Role in each; all others become one ClusterRole. The
/// roles have the controller's name, and no bindings are printed. Patterns within names, and creating by
/// name, have no equivalent in Kubernetes: they are left out, with a note on standard error. HTTP grants are
/// not covered.
#[derive(clap::Args, Clone, Debug)]
struct RbacArgs {
    /// A controller of the running host, or a manifest file; an argument with a / or a .yaml, .yml or .json
    /// ending is a file
    #[arg(value_name = "CONTROLLER|FILE")]
    of: String,
    /// Print what the account of the running host needs in this store, a Kubernetes cluster, for the kinds that live
    /// there
    ///
    /// The host lists and watches a whole kind for all controllers, so these rules have no namespaces and no names.
    /// For a store that is limited to one namespace, bind the ClusterRole by a RoleBinding there.
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
}

/// Runs `homeostat grants`.
///
/// # Errors
/// When the controller does not exist, or the file has a problem or contains no controller.
pub(crate) async fn run(args: Args, global: &Global) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Learn(args) => learn::run(args, global).await,
        Command::Rbac(args) => print_roles(args, global).await,
    }
}

async fn print_roles(args: RbacArgs, global: &Global) -> anyhow::Result<ExitCode> {
    let RbacArgs { of, store } = args;
    let format = global.format(&[Format::Yaml, Format::Json])?;
    let is_file = of.contains('/') || [".yaml", ".yml", ".json"].iter().any(|ending| of.ends_with(ending));
    if is_file && store.is_some() {
        return Err(exit::usage("`--store` needs a controller of a running host, which knows where its kinds live"));
    }
    let (controllers, kinds) = if is_file {
        // For a file, plurals are guessed: a host that serves its kinds need not run.
        (from_file(Path::new(&of))?, None)
    } else {
        let client = Client::new(global)?;
        (vec![(of.clone(), from_host(&client, &of).await?)], Some(Kinds::fetch(&client).await?))
    };
    let mut roles = rbac::Roles::default();
    let plural = |group: &str, kind: &str| kinds.as_ref().and_then(|kinds| kinds.plural(group, kind));
    for (name, grants) in &controllers {
        match (&store, &kinds) {
            (Some(store), Some(kinds)) => {
                let known = store_role::StoreKinds {
                    lives_there: &|group, kind| kinds.lives_in(group, kind, store),
                    has_scale: &|group, kind| kinds.is_scaled_by_server(group, kind),
                    plural: &plural,
                };
                roles.add_for_store(name, grants, &known);
            }
            _ => roles.add(name, grants, &plural),
        }
    }
    let rbac::Roles { documents, notes } = roles;
    for note in &notes {
        output::eprint(&output::plain(note));
    }
    output::print(&if format == Format::Json { list(documents) } else { yaml(&documents)? })?;
    Ok(ExitCode::SUCCESS)
}

async fn from_host(client: &Client, controller: &str) -> anyhow::Result<Grants> {
    let document = client.get(&control::path(controller)).await?;
    let grants = document.pointer("/spec/grants").cloned().unwrap_or_else(|| json!({}));
    serde_json::from_value(grants).context("the host's answer cannot be parsed")
}

fn from_file(file: &Path) -> anyhow::Result<Vec<(String, Grants)>> {
    let (documents, problems) = manifest::read(&PathBuf::from(file));
    if let Some(problem) = problems.first() {
        return Err(exit::failed(problem.to_string()));
    }
    let controllers = documents.into_iter().filter_map(|document| document.controller);
    let controllers: Vec<_> =
        controllers.map(|controller| (controller.metadata.name.clone(), controller.spec.grants)).collect();
    if controllers.is_empty() {
        return Err(exit::failed(format!("{}: it contains no controller", file.display())));
    }
    Ok(controllers)
}

fn list(documents: Vec<Value>) -> String {
    output::json(&json!({ "apiVersion": "v1", "kind": "List", "items": documents }))
}

fn yaml(documents: &[Value]) -> anyhow::Result<String> {
    let documents: Vec<String> = documents.iter().map(output::yaml).collect::<anyhow::Result<_>>()?;
    Ok(documents.join("---\n"))
}

#[cfg(test)]
mod tests;
