//! `homeostat apply`: creates resources, or updates them to match their manifests.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use reqwest::Method;

use crate::client::{ApiResource, ApiResponse, Client, Kinds, with_query};
use crate::exit::{self, ExitReason, Failures};
use crate::failure::Unreachable;
use crate::global::{Format, Global};
use crate::manifest::{self, Document, Problem};
use crate::{document, output};

/// The field manager of `homeostat apply`.
const MANAGER: &str = "homeostat-apply";

/// Bytes that are read from standard input, at most.
const INPUT_BYTES_MAX: u64 = 16 << 20;

/// The file extensions of manifests.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// Create resources, or update them to match their manifests
///
/// A document that fails does not stop the others. The exit code is 1 then, or 3 if all failures were
/// refusals, or 69 if the host could write none of them at the time, for example because its disk is full.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// A manifest, a folder of manifests, or - for standard input; can be given several times
    #[arg(short = 'f', long = "filename", required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Also read subfolders
    #[arg(short = 'R', long)]
    recursive: bool,
}

/// Applies every document. A document that fails is reported on stderr with its position, and the next one
/// follows.
///
/// # Errors
/// When the host becomes unreachable.
pub(crate) async fn run(args: Args, global: &Global) -> anyhow::Result<ExitCode> {
    let format = global.format(&[Format::Table, Format::Json, Format::Yaml, Format::Name])?;
    let (mut documents, mut problems) = read(&args.files, args.recursive)?;
    problems.extend(manifest::take_duplicates(&mut documents));
    // CustomResourceDefinitions come before the resources of their kind.
    documents.sort_by_key(|document| document.value["kind"] != "CustomResourceDefinition");
    let client = Client::new(global)?;
    let kinds = Kinds::fetch(&client).await?;
    let mut apply = Apply { client, kinds, global, format };
    let mut failures = Failures::default();
    for problem in &problems {
        report_problem(problem);
        failures.record(ExitReason::Failed);
    }
    for document in &documents {
        if let Err((problem, code)) = apply.apply_one(document).await? {
            report_problem(&problem);
            failures.record(code);
        }
    }
    if documents.is_empty() && failures.is_empty() {
        return Err(exit::failed("the input contains no document"));
    }
    Ok(failures.into())
}

struct Apply<'g> {
    client: Client,
    kinds: Kinds,
    global: &'g Global,
    format: Format,
}

impl Apply<'_> {
    /// Applies one document. The inner error concerns this document alone; the outer one ends the command.
    async fn apply_one(&mut self, document: &Document) -> anyhow::Result<Result<(), (Problem, ExitReason)>> {
        if self.kinds.of(&document.value).is_none() {
            // An earlier document may have declared the kind.
            self.kinds = Kinds::fetch(&self.client).await?;
        }
        let path = match path(document, &self.kinds, self.global) {
            Ok((_, path)) => with_query(&path, &[("fieldManager", Some(MANAGER)), ("force", Some("true"))]),
            Err(problem) => return Ok(Err((problem, ExitReason::Failed))),
        };
        let body = document.value.to_string();
        match self.client.send(Method::PATCH, &path, "application/apply-patch+yaml", body).await {
            Ok(answer) => self.print(document, &answer).map(Ok),
            Err(error) if error.is::<Unreachable>() => Err(error),
            Err(error) => {
                let problem = document.problem(format!("{}: {error:#}", document.identity()));
                Ok(Err((problem, exit::reason_of(&error))))
            }
        }
    }

    fn print(&self, document: &Document, answer: &ApiResponse) -> anyhow::Result<()> {
        match self.format {
            Format::Json => output::print(&output::json(&answer.document)),
            Format::Yaml => output::print(&format!("---\n{}", output::yaml(&answer.document)?)),
            Format::Name => output::print(&format!("{}\n", document.identity())),
            Format::Table | Format::Wide => output::print(&format!("{} {}\n", document.identity(), answer.change)),
        }
    }
}

/// Reports a problem with a document on stderr.
pub(super) fn report_problem(problem: &Problem) {
    output::eprint(&format!("error: {problem}"));
}

/// Returns the kind of a document, and the path of its resource.
pub(super) fn path<'k>(
    document: &Document,
    kinds: &'k Kinds,
    global: &Global,
) -> Result<(&'k ApiResource, String), Problem> {
    let text = |pointer| document::text(&document.value, pointer);
    let Some(known) = kinds.of(&document.value) else {
        let message = match kinds.find(text("/kind")) {
            Ok(other) => {
                format!("the host has `{}` as {}, not as {}", other.name(), other.api_version(), text("/apiVersion"))
            }
            Err(_) => kinds.unknown(text("/kind")),
        };
        return Err(document.problem_at(document.kind_place, message));
    };
    let own = Some(text("/metadata/namespace")).filter(|namespace| !namespace.is_empty());
    if let (Some(own), Some(asked), true) = (own, global.namespace.as_deref(), known.namespaced)
        && own != asked
    {
        let message = format!("the document is in the namespace {own}, the command line says {asked}");
        return Err(document.problem(message));
    }
    Ok((known, known.path_of(own.unwrap_or(global.namespace()), text("/metadata/name"))))
}

/// Reads the inputs of the command line: files, folders and standard input.
pub(super) fn read(files: &[PathBuf], recursive: bool) -> anyhow::Result<(Vec<Document>, Vec<Problem>)> {
    let (mut documents, mut problems) = (Vec::new(), Vec::new());
    let mut take = |(more_documents, more_problems): (Vec<Document>, Vec<Problem>)| {
        documents.extend(more_documents);
        problems.extend(more_problems);
    };
    for file in files {
        if file == Path::new("-") {
            let mut bytes = Vec::new();
            std::io::stdin()
                .take(INPUT_BYTES_MAX + 1)
                .read_to_end(&mut bytes)
                .context("standard input cannot be read")?;
            if bytes.len() as u64 > INPUT_BYTES_MAX {
                return Err(exit::refused(format!(
                    "standard input has more than {} MiB: split it",
                    INPUT_BYTES_MAX >> 20
                )));
            }
            take(manifest::read_bytes(Path::new("stdin"), &bytes));
        } else if file.is_dir() {
            manifests(file, recursive)?.iter().for_each(|file| take(manifest::read(file)));
        } else {
            take(manifest::read(file));
        }
    }
    Ok((documents, problems))
}

/// Returns the manifests in a folder, sorted by name.
fn manifests(folder: &Path, recursive: bool) -> anyhow::Result<Vec<PathBuf>> {
    let cannot_read = || format!("the folder {} cannot be read", folder.display());
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(cannot_read)? {
        entries.push(entry.with_context(cannot_read)?.path());
    }
    entries.sort();
    let mut found = Vec::new();
    for path in entries {
        if path.is_dir() {
            // A symbolic link to a folder could form a cycle.
            if recursive && !path.is_symlink() {
                found.extend(manifests(&path, recursive)?);
            }
        } else if path.extension().is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known)) {
            found.push(path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
