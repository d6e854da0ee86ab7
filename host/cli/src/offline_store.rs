//! `homeostat restore` and `homeostat fsck`: work on the file of a store that no host has open.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use homeostat_store::embedded::{OpenError, RestoreOptions, RestoreReport, fsck, restore};
use serde_json::json;

use crate::exit;
use crate::global::{Format, Global};
use crate::layout::COMPONENTS;
use crate::output;

mod missing;

/// Create a store from a backup
///
/// The backup is checked first, and never changed. The store has a new identity: clients that watched the old
/// one list again. Start `homeostat run` with `--data` and the folder; the store's file in it is called
/// store.redb. A backup contains no components: those that controllers name and that the folder `components`
/// beside the new store lacks are listed.
#[derive(Args, Clone, Debug)]
pub(crate) struct RestoreArgs {
    /// The backup
    backup: PathBuf,
    /// The file of the new store, for example DIR/.homeostat/store.redb
    file: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    overwrite: bool,
}

/// Check the file of a store
///
/// Reads the whole file and changes nothing. Checks every document, the history and the index of owners, and
/// that they agree. The exit code is 3 if they do not, and 1 if the file cannot be read as a store.
#[derive(Args, Clone, Debug)]
pub(crate) struct FsckArgs {
    /// The file: DIR/.homeostat/store.redb, or a backup
    file: PathBuf,
}

/// Runs `homeostat restore`.
///
/// # Errors
/// When the backup is damaged, or the file exists or cannot be written.
pub(crate) async fn run_restore(args: RestoreArgs, global: &Global) -> Result<ExitCode> {
    global.format(&[Format::Table])?;
    let RestoreArgs { backup, file, overwrite } = args;
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        homeostat_files::make_private_folder(folder)
            .with_context(|| format!("{} cannot be created", folder.display()))?;
    }
    let restoring = move || restore(&backup, &file, &RestoreOptions { overwrite, ..RestoreOptions::default() });
    let restored = tokio::task::spawn_blocking(restoring).await.context("the backup could not be read")?;
    let restored = restored.map_err(|error| match error {
        OpenError::Exists { path } if !overwrite => {
            exit::failed(format!("nothing was restored: {} already exists; --overwrite replaces it", path.display()))
        }
        error => anyhow::Error::new(error).context("nothing was restored"),
    });
    let RestoreReport { path, resources, revision, .. } = restored?;
    output::print(&format!("{} restored: {resources} resources, revision {revision}\n", path.display()))?;
    let folder = path.parent().unwrap_or(Path::new(".")).join(COMPONENTS);
    if let Some(missing) = missing::missing_components(&path, &folder).await? {
        output::eprint(&missing);
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `homeostat fsck`.
///
/// # Errors
/// When the file cannot be read or has a problem.
pub(crate) async fn run_fsck(args: FsckArgs, global: &Global) -> Result<ExitCode> {
    let format = global.format(&[Format::Table, Format::Json])?;
    let found = tokio::task::spawn_blocking(move || fsck(&args.file)).await.context("the file could not be read")??;
    let problems: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
    let cut_off = found.cut_off.map(|cut_off| cut_off.to_string());
    if format == Format::Json {
        let facts = json!({
            "file": found.path, "format": found.format, "id": found.id, "revision": found.revision,
            "oldest": found.oldest, "resources": found.resources, "changes": found.changes, "owners": found.owners,
            "journaled": found.journaled, "cutOff": cut_off, "problems": problems, "problemsTotal": found.problems_total,
        });
        output::print(&output::json(&facts))?;
    } else {
        let path = found.path.display();
        let counts = format!("{} resources, {} changes, revision {}", found.resources, found.changes, found.revision);
        output::print(&format!("{path}: {counts}\n"))?;
        // In a damaged store, the problems include it.
        if let Some(cut_off) = cut_off.filter(|_| found.is_sound()) {
            output::print(&format!("note: the write-ahead log ends early: {cut_off}\n"))?;
        }
        output::print(&problems.iter().map(|problem| format!("{problem}\n")).collect::<String>())?;
    }
    if found.is_sound() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(exit::refused(format!("{} problems were found", found.problems_total)))
}
