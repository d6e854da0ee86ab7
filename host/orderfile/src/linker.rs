//! The linker that rustc calls.

#[cfg(test)]
mod tests;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// LLD writes this into each program, before its version.
const MARK: &[u8] = b"Linker: LLD";

/// A compiler, and the settings that decide which linker it calls.
#[derive(Debug)]
pub(crate) struct Linker {
    pub(crate) rustc: PathBuf,
    /// Cargo's setting `linker`.
    pub(crate) program: Option<String>,
    /// The flags of the compiler, which may name another linker.
    pub(crate) flags: Vec<String>,
}

impl Linker {
    /// Returns whether LLD links a program with this argument. It links one in the folder.
    ///
    /// The command line of the linker does not tell: a later argument, or the environment, may name another linker.
    pub(crate) fn is_lld(&self, argument: &str, folder: &Path) -> bool {
        let program = folder.join("probe");
        let linked = self.link("fn main() {}", &[argument], &program);
        let is_lld = linked && fs::read(&program).is_ok_and(|bytes| bytes.windows(MARK.len()).any(|part| part == MARK));
        // Without a program there is nothing to remove.
        drop(fs::remove_file(program));
        is_lld
    }

    /// Returns whether a program that is linked with this argument runs on this machine. It links one in the folder.
    pub(crate) fn links_running_programs(&self, argument: &str, folder: &Path) -> bool {
        let program = folder.join("probe");
        let runs = || Command::new(&program).stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        let has_run = self.link("fn main() {}", &[argument], &program) && runs();
        // Without a program there is nothing to remove.
        drop(fs::remove_file(&program));
        has_run
    }

    /// Compiles the source of a program and links it with arguments. Returns whether that worked.
    fn link(&self, source: &str, arguments: &[&str], program: &Path) -> bool {
        let mut command = Command::new(&self.rustc);
        command.args(["--crate-name", "probe", "-o"]).arg(program);
        // Cargo, too, puts its setting before the flags.
        command.args(self.program.iter().map(|program| format!("-Clinker={program}"))).args(&self.flags);
        command.args(arguments.iter().map(|argument| format!("-Clink-arg={argument}"))).arg("-");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else { return false };
        let written = child.stdin.take().is_some_and(|mut input| input.write_all(source.as_bytes()).is_ok());
        child.wait().is_ok_and(|status| written && status.success())
    }
}
