//! `homeostat delete`: deletes resources by name, by label or by manifest.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use reqwest::Method;
use serde_json::Value;

use super::apply;
use super::resource_args::{self, ResourceArg};
use crate::client::{ApiResource, Client, Kinds, with_query};
use crate::exit::{self, ExitReason, Failures};
use crate::failure::{ApiError, Unreachable};
use crate::global::{Format, Global};
use crate::{document, output};

/// Delete resources
///
/// A resource that cannot be deleted does not stop the others. The exit code is 1 then, or 3 if all failures
/// were refusals, or 69 if the host could write none of them at the time.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// KIND NAME… or KIND/NAME…
    #[arg(value_name = "RESOURCE", required_unless_present = "files", conflicts_with = "files")]
    resources: Vec<String>,
    /// A manifest whose resources are deleted, a folder of manifests, or - for standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// All resources of the kind with these labels
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "files")]
    selector: Option<String>,
    /// All resources of the kind
    #[arg(long, conflicts_with_all = ["files", "selector"])]
    all: bool,
    /// What happens to the dependents of a deleted resource
    #[arg(long, value_name = "HOW", default_value = "background")]
    cascade: Cascade,
    /// Succeed if a resource does not exist
    #[arg(long)]
    ignore_not_found: bool,
}

/// What happens to the dependents of a deleted resource.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Cascade {
    /// Dependents are deleted after it.
    Background,
    /// Dependents are deleted before it.
    Foreground,
    /// Dependents stay, without an owner.
    Orphan,
}

impl Cascade {
    fn policy(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

/// Deletes the selected resources. A resource that fails is reported, and the next one follows.
///
/// Does not wait for finalizers: the output lists those that a deletion waits for.
///
/// # Errors
/// When no resource is named, a kind is unknown, or the host becomes unreachable.
pub(crate) async fn run(args: Args, global: &Global) -> anyhow::Result<ExitCode> {
    let format = global.format(&[Format::Table, Format::Name])?;
    let client = Client::new(global)?;
    let mut delete = Delete { client, args: &args, global, format, failures: Failures::default() };
    if args.files.is_empty() {
        delete.delete_named().await?
    } else {
        delete.delete_documents().await?
    }
    Ok(delete.failures.into())
}

struct Delete<'a> {
    client: Client,
    args: &'a Args,
    global: &'a Global,
    format: Format,
    failures: Failures,
}

impl Delete<'_> {
    async fn delete_named(&mut self) -> anyhow::Result<()> {
        let named = resource_args::parse(&self.args.resources)?;
        let kinds = Kinds::fetch(&self.client).await?;
        let is_choice = self.args.all || self.args.selector.is_some();
        for ResourceArg { kind, names } in named {
            let known = kinds.find(&kind)?;
            let names = match (names.is_empty(), is_choice) {
                (false, false) => names,
                (true, true) => self.select_names(known).await?,
                (true, false) => return Err(exit::usage("name the resources to delete, or pass --all")),
                (false, true) => return Err(exit::usage("pass either names, or --selector or --all")),
            };
            for name in names {
                self.delete_one(known, &known.path_of(self.global.namespace(), &name), &name).await?;
            }
        }
        Ok(())
    }

    /// Returns the names of the kind's resources in the namespace that match the selector.
    async fn select_names(&self, known: &ApiResource) -> anyhow::Result<Vec<String>> {
        let path =
            with_query(&known.path(Some(self.global.namespace())), &[("labelSelector", self.args.selector.as_deref())]);
        let list = self.client.get(&path).await?;
        let items = list["items"].as_array().into_iter().flatten();
        let names: Vec<String> = items.map(|item| document::text(item, "/metadata/name").to_owned()).collect();
        if names.is_empty() {
            output::eprint("No resources found.");
        }
        Ok(names)
    }

    async fn delete_documents(&mut self) -> anyhow::Result<()> {
        let (documents, problems) = apply::read(&self.args.files, false)?;
        for problem in &problems {
            apply::report_problem(problem);
            self.failures.record(ExitReason::Failed);
        }
        let kinds = Kinds::fetch(&self.client).await?;
        for document in &documents {
            match apply::path(document, &kinds, self.global) {
                Ok((known, path)) => {
                    self.delete_one(known, &path, document::text(&document.value, "/metadata/name")).await?
                }
                Err(problem) => {
                    apply::report_problem(&problem);
                    self.failures.record(ExitReason::Failed);
                }
            }
        }
        Ok(())
    }

    async fn delete_one(&mut self, known: &ApiResource, path: &str, name: &str) -> anyhow::Result<()> {
        let path = with_query(path, &[("propagationPolicy", Some(self.args.cascade.policy()))]);
        match self.client.send(Method::DELETE, &path, "", "").await {
            Ok(answer) if self.format == Format::Name => {
                drop(answer);
                output::print(&format!("{}\n", known.qualified_name(name)))
            }
            Ok(answer) => {
                output::print(&format!("{} \"{name}\" {}\n", known.qualified_kind(), result_text(&answer.document)))
            }
            Err(error) if error.is::<Unreachable>() => Err(error),
            Err(error) if self.args.ignore_not_found && is_not_found(&error) => Ok(()),
            Err(error) => {
                output::eprint(&format!("error: {}: {error:#}", known.qualified_name(name)));
                self.failures.record(exit::reason_of(&error));
                Ok(())
            }
        }
    }
}

fn is_not_found(error: &anyhow::Error) -> bool {
    error.downcast_ref::<ApiError>().is_some_and(|refusal| refusal.code == 404)
}

/// Describes the result of a deletion, from the document in the host's response.
fn result_text(answer: &Value) -> String {
    let finalizers = answer.pointer("/metadata/finalizers").and_then(Value::as_array);
    let finalizers: Vec<&str> = finalizers.into_iter().flatten().filter_map(Value::as_str).collect();
    let seconds = answer.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_u64).unwrap_or_default();
    match (finalizers.as_slice(), seconds) {
        ([], 0) => "deleted".to_owned(),
        ([], seconds) => format!("is being deleted, has {seconds} s for its end"),
        (finalizers, _) => format!("is being deleted, waits for {}", finalizers.join(", ")),
    }
}
