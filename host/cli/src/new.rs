//! `homeostat new NAME`: writes a project with a controller that builds, runs and passes its tests.

mod templates;

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use homeostat_componentize::CONTRACT;

use crate::exit;
use crate::language::Language;
use crate::output;
use templates::files;

/// Bytes of a name, at most: it is a label of the group of the project's kind.
const NAME_BYTES_MAX: usize = 40;

/// Make a project with a controller
///
/// The project has a controller that greets the name in each `Greeting`, its manifest with its grants, a first
/// resource, and tests. A folder that has files is never changed.
#[derive(Args, Clone, Debug)]
pub(crate) struct NewArgs {
    /// The folder of the project; its last part is the name of the controller: at most 40 lower-case letters, digits
    /// and `-`
    #[arg(value_name = "NAME")]
    folder: PathBuf,
    /// The language of the controller
    #[arg(long, value_enum, value_name = "LANGUAGE")]
    lang: Language,
    /// The folder of the crate homeostat-sdk, for a controller in Rust [default: the published crate of this version]
    #[arg(long, value_name = "FOLDER")]
    sdk: Option<PathBuf>,
}

/// Runs `homeostat new`.
///
/// # Errors
/// When the name is invalid, the folder has files, or a file cannot be written.
pub(crate) fn run(args: &NewArgs) -> Result<ExitCode> {
    let NewArgs { folder, lang, sdk } = args;
    let name = name_of(folder)?;
    if sdk.is_some() && *lang != Language::Rust {
        return Err(exit::usage("--sdk is the folder of the SDK for Rust: leave it out, or use --lang rust"));
    }
    let project = Project { name, language: *lang, sdk: sdk.as_deref().map(sdk_folder).transpose()? };
    project.write(folder)?;
    let install = if matches!(lang, Language::Rust | Language::Go) { "" } else { " --install" };
    output::print(&format!(
        "made {}, a controller in {}; go on with:\n  cd {}\n  homeostat dev .{install}\n",
        folder.display(),
        lang.name(),
        folder.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// A project that is to be written.
struct Project {
    name: String,
    language: Language,
    /// The absolute path of the SDK for Rust. `None` is the published crate.
    sdk: Option<PathBuf>,
}

impl Project {
    /// Writes the project into a folder, which is new or empty.
    fn write(&self, folder: &Path) -> Result<()> {
        let unwritable = || format!("{} cannot be written", folder.display());
        fs::create_dir_all(folder).with_context(unwritable)?;
        if fs::read_dir(folder).with_context(unwritable)?.next().is_some() {
            return Err(exit::failed(format!(
                "{} has files, and nothing is overwritten: name a new folder",
                folder.display()
            )));
        }
        for (path, text) in files(self.language) {
            write_new(&folder.join(self.fill(path)), &self.fill(text))?;
        }
        if self.language != Language::Rust {
            for (path, text) in CONTRACT {
                write_new(&folder.join("wit").join(path), text)?;
            }
        }
        Ok(())
    }

    /// Fills in the name and the dependency on the SDK.
    fn fill(&self, text: &str) -> String {
        let sdk = match &self.sdk {
            Some(path) => format!("{{ path = {:?} }}", path.display().to_string()),
            None => format!("{:?}", env!("CARGO_PKG_VERSION")),
        };
        text.replace("{{name}}", &self.name).replace("{{sdk}}", &sdk)
    }
}

/// Returns the name of the controller: the last part of the path of its folder.
fn name_of(folder: &Path) -> Result<String> {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_first = |letter: char| letter.is_ascii_lowercase();
    let is_inner = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    let valid = name.starts_with(is_first) && name.chars().all(is_inner) && !name.ends_with('-');
    if valid && name.len() <= NAME_BYTES_MAX {
        return Ok(name.to_owned());
    }
    Err(exit::usage(format!(
        "{name:?} cannot be the name of a controller: use at most {NAME_BYTES_MAX} lower-case letters, digits and `-`, as in `my-controller`"
    )))
}

/// Returns the absolute path of the SDK.
fn sdk_folder(path: &Path) -> Result<PathBuf> {
    let folder = path.canonicalize().with_context(|| format!("the SDK in {} cannot be read", path.display()))?;
    if folder.join("Cargo.toml").is_file() {
        return Ok(folder);
    }
    Err(anyhow!("{} is not the SDK: it has no Cargo.toml", path.display()))
}

/// Writes a file that does not exist yet.
fn write_new(path: &Path, text: &str) -> Result<()> {
    let written = || -> io::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        OpenOptions::new().write(true).create_new(true).open(path)?.write_all(text.as_bytes())
    };
    written().with_context(|| format!("{} cannot be written", path.display()))
}

#[cfg(test)]
mod tests;
