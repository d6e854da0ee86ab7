//! Runs the contenders of every work in turn, A B A B, and writes their results.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use homeostat_servers::{Cluster, ClusterOptions};

use crate::arguments::{Arguments, Suite};
use crate::plan::{self, OURS, Program, STATUS_FAR, System, Work};
use crate::process::{self, Programs};
use crate::report::{self, Row};
use crate::values::Values;
use crate::{backends, go, guests, kube, projects};

/// The figures of each contender of one work, by its name, round by round.
pub(crate) type Samples = BTreeMap<&'static str, Vec<Values>>;

/// Measures a suite, writes `target/peers/NAME.json` and prints the table.
///
/// # Errors
/// A build fails, our contender fails, or the results cannot be written. A peer that fails is reported and
/// left out.
pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let suite = arguments.suite.context("name the suite to measure")?;
    let works = works(suite, arguments)?;
    let target = target_folder()?;
    let folder = arguments.out.clone().unwrap_or_else(|| target.join("peers"));
    std::fs::create_dir_all(&folder).with_context(|| format!("{} cannot be created", folder.display()))?;
    let programs = prepare(&target, &folder, &works, arguments).await?;
    let (file, mut rows) = (folder.join(format!("{}.json", suite.name())), Vec::new());
    for (number, work) in works.iter().enumerate() {
        let of = format!("{}/{} {}", number + 1, works.len(), work.figures[0].name);
        let samples = measure(&programs, work, arguments.rounds.get(), &of).await?;
        rows.extend(report::rows(work, &samples));
        if arguments.only.is_none() {
            // After every work, so that an interrupted run leaves its results.
            write(&file, &rows).with_context(|| format!("{} cannot be written", file.display()))?;
        }
    }
    tell("");
    writeln!(std::io::stdout(), "{}", report::table(&rows)).context("the table cannot be printed")
}

/// Returns the works to measure.
fn works(suite: Suite, arguments: &Arguments) -> Result<Vec<Work>> {
    let mut works = plan::works(suite);
    if let Some(only) = &arguments.only {
        works.retain(|work| work.name.contains(only) || work.figures.iter().any(|figure| figure.name.contains(only)));
    }
    if arguments.tiny {
        works = works.into_iter().map(Work::tiny).collect();
    }
    ensure!(!works.is_empty(), "no work or figure of {} has this name", suite.name());
    Ok(works)
}

/// Builds the programs and guests that the works need.
async fn prepare(target: &Path, folder: &Path, works: &[Work], arguments: &Arguments) -> Result<Programs> {
    let needs = |program| works.iter().flat_map(|work| &work.peers).any(|system| system.program == program);
    let needs_guests = works.iter().any(|work| !matches!(work.suite, Suite::Queue | Suite::Store | Suite::Api));
    let languages: Vec<&str> =
        works.iter().filter(|work| work.suite == Suite::Languages).map(|work| work.name).collect();
    let needs_host = works.iter().any(|work| work.suite == Suite::Api || work.name == STATUS_FAR);
    tell("building");
    if needs_host {
        // Builds its programs, so that no contender waits for that.
        tokio::task::spawn_blocking(|| drop(Cluster::start(ClusterOptions::default()))).await?;
    }
    Ok(Programs {
        this: std::env::current_exe().context("the path of this program cannot be determined")?,
        disk: folder.to_owned(),
        kube: if needs(Program::Kube) { kube::build(target).await? } else { PathBuf::new() },
        go: if needs(Program::Go) { go::build(folder).await? } else { PathBuf::new() },
        host: match &arguments.host {
            Some(host) => host.clone(),
            None if needs_host => projects::host(target).await?,
            None => PathBuf::new(),
        },
        guests: match &arguments.guests {
            Some(guests) => guests.clone(),
            None if !languages.is_empty() => projects::build(target, &languages).await?,
            None if needs_guests => guests::build(target).await?,
            None => PathBuf::new(),
        },
    })
}

/// Runs every contender of a work once in each round. Each round begins with another one: what a contender leaves behind
/// in a server or on the disk burdens each of them in turn.
async fn measure(programs: &Programs, work: &Work, rounds: u32, of: &str) -> Result<Samples> {
    let mut samples = Samples::new();
    let server = match work.backend {
        Some(backend) => Some(backends::start(backend, &programs.disk).await?),
        None => None,
    };
    let mut systems: Vec<&System> = [&OURS].into_iter().chain(&work.peers).collect();
    for round in 1..=rounds {
        for system in &systems {
            tell(&format!("{of}: round {round} of {rounds}, {}", system.shown));
            let values = match &server {
                Some(server) => server.run(programs, system, work).await,
                None if work.suite == Suite::Api => process::run(programs, system, work, Some(programs.host()?)).await,
                None => process::run(programs, system, work, None).await,
            };
            match values {
                Ok(values) => samples.entry(system.name).or_default().push(values),
                Err(error) if **system == OURS => {
                    return Err(error.context(format!("{} failed at {}", system.shown, work.name)));
                }
                Err(error) => failed(system, work, &error),
            }
        }
        systems.rotate_left(1);
    }
    Ok(samples)
}

fn failed(system: &System, work: &Work, error: &anyhow::Error) {
    tell("");
    drop(writeln!(std::io::stderr(), "{} failed at {}: {error:#}", system.shown, work.name));
}

/// Shows the progress in one line that the next one replaces. Errors are ignored.
fn tell(progress: &str) {
    drop(write!(std::io::stderr(), "\r\x1b[K{progress}").and_then(|()| std::io::stderr().flush()));
}

fn write(file: &Path, rows: &[Row]) -> Result<()> {
    Ok(std::fs::write(file, serde_json::to_string_pretty(rows)? + "\n")?)
}

/// Returns cargo's target folder: this binary is in `target/PROFILE`.
fn target_folder() -> Result<PathBuf> {
    let program = std::env::current_exe().context("the path of this program cannot be determined")?;
    let folder = program.ancestors().nth(2).context("this program is not in cargo's target folder")?;
    Ok(folder.to_owned())
}
