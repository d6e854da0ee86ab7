//! `homeostat dev DIR`: serves a folder as `run` does, builds its guests first, and rebuilds them on every
//! save.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use clap::Args;

use crate::build::{self, Guest, InstallArgs};
use crate::exit::ExitReason;
use crate::file_debouncer::QUIET;
use crate::output;
use crate::progress_reporter::{IdleDetector, ProgressReporter, REPORT_EVERY};
use crate::serve::{FolderHost, HostArgs};
use crate::signals::Signals;
use crate::sources::{self, SourceChanges, Sources};
use crate::terminal::Screen;
use crate::watcher::Watcher;

/// How often the status line is redrawn while cargo works.
const TICK: Duration = Duration::from_millis(200);

/// Build the guests of a folder, serve it, and swap each guest when it is saved
///
/// Guests are the projects in DIR and directly below it, as with `build`; each becomes DIR/NAME.wasm. The wasm
/// target of Rust is installed if it is missing. Build errors are shown; the running version keeps running.
/// Everything else is as with `run`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DevArgs {
    #[command(flatten)]
    pub(crate) host: HostArgs,
    #[command(flatten)]
    pub(crate) install: InstallArgs,
    /// Exit when every controller is ready and no work is left; print the final table
    ///
    /// The exit code is 0, or 1 if a manifest has a problem or a guest does not build, or 3 if a component is
    /// refused.
    #[arg(long)]
    pub(crate) exit_when_settled: bool,
}

/// Runs `homeostat dev`.
///
/// # Errors
/// When a build tool is missing or the host cannot start.
pub(crate) async fn run(args: &DevArgs, screen: Screen) -> Result<ExitCode> {
    let mut signals = Signals::new().context("cannot install the signal handlers")?;
    let ended = tokio::select! {
        started = start(args, &screen) => started.map(Ok),
        ending = signals.next() => Ok(Err(ExitCode::from(ending.code()))),
    };
    let (running, builder) = match ended {
        Ok(Ok(started)) => started,
        Ok(Err(code)) => {
            screen.close();
            return Ok(code);
        }
        Err(error) => {
            screen.close();
            return Err(error);
        }
    };
    let state = builder.state.clone();
    let building = tokio::spawn(builder.watch_sources());
    let mut narrator = ProgressReporter::start(running.host.clone(), screen.clone());
    let code = tokio::select! {
        code = report_progress(&mut narrator, &running, &state, args.exit_when_settled) => code,
        _ = signals.next() => None,
    };
    signals.end_at_next(screen.clone());
    // This also kills a running cargo.
    building.abort();
    screen.close();
    if let Some(code) = code {
        let table = narrator.table(running.host.controllers()).await;
        let stopped = running.stop().await;
        output::print(&format!("{}\n", table.join("\n")))?;
        return Ok(if code == ExitCode::SUCCESS { stopped } else { code });
    }
    Ok(running.stop().await)
}

async fn start(args: &DevArgs, screen: &Screen) -> Result<(FolderHost, Builder)> {
    let folder = &args.host.folder;
    if !folder.is_dir() {
        return Err(crate::exit::failed(format!(
            "{} is not a folder: name the folder that holds the guests and manifests",
            folder.display()
        )));
    }
    // The host starts first: a locked store is reported before minutes of building.
    let mut running = FolderHost::prepare(&args.host, screen).await?;
    let prepared = async {
        build::prepare(folder, args.install.install, screen).await?;
        let mut builder = Builder::new(folder, screen.clone());
        builder.discover().await?;
        if builder.guests.is_empty() {
            screen.line(&format!(
                "no guest found in {}: neither it nor a direct subfolder has a project; nothing is built, and the manifests are served",
                folder.display()
            ));
        }
        builder.build_all().await?;
        anyhow::Ok(builder)
    };
    match prepared.await {
        Ok(builder) => {
            running.start_folder();
            Ok((running, builder))
        }
        Err(error) => {
            running.stop().await;
            Err(error)
        }
    }
}

/// Reports progress. Returns only with `--exit-when-settled`, when the host has settled.
async fn report_progress(
    narrator: &mut ProgressReporter,
    running: &FolderHost,
    building: &BuildState,
    exit_when_settled: bool,
) -> Option<ExitCode> {
    let mut calm = IdleDetector::default();
    let mut looks = tokio::time::interval(REPORT_EVERY);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let controllers = narrator.report().await;
        let standing = running.folder_status();
        let busy = building.busy.load(Ordering::Relaxed) || !standing.settled;
        if calm.observe(tokio::time::Instant::now(), busy, &controllers) && exit_when_settled {
            return Some(match (standing.refused, standing.problems, building.failed.load(Ordering::Relaxed)) {
                (0, 0, false) => ExitCode::SUCCESS,
                (0, ..) => ExitReason::Failed.into(),
                _ => ExitReason::Refused.into(),
            });
        }
    }
}

/// The state of a builder, shared with the reporter.
#[derive(Default)]
struct BuildState {
    /// A build is running or pending.
    busy: AtomicBool,
    /// The last build of some guest failed.
    failed: AtomicBool,
}

/// Builds guests, and rebuilds them when their sources change.
struct Builder {
    folder: PathBuf,
    screen: Screen,
    guests: Vec<Guest>,
    /// The folders with crates at the last discovery.
    crates: Vec<PathBuf>,
    sources: Sources,
    /// Guests whose last build failed. They are rebuilt with the next ones.
    failed: Vec<String>,
    /// The last error that was reported.
    last_error: String,
    state: Arc<BuildState>,
}

impl Builder {
    fn new(folder: &Path, screen: Screen) -> Self {
        Self {
            folder: folder.to_owned(),
            screen,
            guests: Vec::new(),
            crates: Vec::new(),
            sources: Sources::default(),
            failed: Vec::new(),
            last_error: String::new(),
            state: Arc::default(),
        }
    }

    /// Finds the guests, and records the current state of their sources.
    async fn discover(&mut self) -> Result<()> {
        let crates = build::guest_folders(&self.folder)?;
        self.guests = build::discover(&self.folder).await?;
        self.sources = Sources::default();
        self.sources.update(&self.guests, Instant::now(), SystemTime::now());
        self.crates = crates;
        Ok(())
    }

    async fn build_all(&mut self) -> Result<()> {
        let all = self.guests.clone();
        self.build(&all).await
    }

    /// Builds guests and installs their components. A failed guest is reported and retried with the next
    /// build.
    async fn build(&mut self, guests: &[Guest]) -> Result<()> {
        if guests.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = guests.iter().map(|guest| guest.name.as_str()).collect();
        let (names, start) = (names.join(", "), Instant::now());
        if !self.screen.is_live() {
            self.screen.line(&format!("building {names}"));
        }
        self.screen.status(&format!("building: {names}"));
        let building = build::build(guests, &self.screen);
        let ticking = async {
            // Cargo's output comes in bursts: the last line is drawn at the next tick.
            loop {
                tokio::time::sleep(TICK).await;
                self.screen.refresh();
            }
        };
        let built = tokio::select! {
            built = building => built,
            never = ticking => never,
        };
        self.screen.status("");
        let built = built?;
        build::show_output(&built, &self.screen);
        for artifact in &built.artifacts {
            build::install(artifact, &self.folder)?;
        }
        let took = start.elapsed().as_secs_f32();
        if built.unchanged.len() == guests.len() {
            self.screen.line(&format!("{names}: up to date"));
        } else if built.failed.is_empty() {
            self.screen.line(&format!("built {names} in {took:.1} s"));
        } else {
            self.screen.line(&format!("{} did not build; the running version keeps running", built.failed.join(", ")));
        }
        self.failed = built.failed;
        self.state.failed.store(!self.failed.is_empty(), Ordering::Relaxed);
        Ok(())
    }

    /// Watches the sources until the task is aborted.
    async fn watch_sources(mut self) {
        let mut watcher = Watcher::new();
        loop {
            let mut folders = sources::folders(&self.guests);
            folders.entry(self.folder.clone()).or_insert(false);
            watcher.set(folders);
            let found = self.sources.update(&self.guests, Instant::now(), SystemTime::now());
            self.state.busy.store(!self.sources.is_settled() || found != SourceChanges::default(), Ordering::Relaxed);
            let error = self.rebuild(found).await.err().map(|error| format!("{error:#}")).unwrap_or_default();
            if !error.is_empty() {
                self.state.failed.store(true, Ordering::Relaxed);
            }
            if !error.is_empty() && error != self.last_error {
                self.screen.warn(&error);
            }
            self.last_error = error;
            self.state.busy.store(!self.sources.is_settled(), Ordering::Relaxed);
            if self.sources.is_settled() {
                tokio::select! {
                    () = watcher.changed() => {}
                    () = tokio::time::sleep(watcher.poll_every()) => {}
                }
            } else {
                tokio::time::sleep(QUIET).await;
            }
        }
    }

    /// Rebuilds the guests whose sources changed.
    async fn rebuild(&mut self, found: SourceChanges) -> Result<()> {
        let mut wanted = found.guests;
        if found.crates || build::guest_folders(&self.folder)? != self.crates {
            let before = self.guests.clone();
            // Stays empty if the discovery fails, so that it is retried.
            self.crates.clear();
            self.discover().await?;
            let new = self.guests.iter().filter(|guest| !before.contains(guest));
            wanted.extend(new.map(|guest| guest.name.clone()));
        }
        if wanted.is_empty() {
            return Ok(());
        }
        wanted.extend(self.failed.iter().cloned());
        let guests: Vec<Guest> = self.guests.iter().filter(|guest| wanted.contains(&guest.name)).cloned().collect();
        self.build(&guests).await
    }
}
