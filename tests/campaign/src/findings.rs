//! The findings of a campaign, and how they are reported.

use std::fmt;
use std::io::{IsTerminal, Write, stderr};

/// Violations of the store's promises.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Acknowledged writes that are missing, and stores that cannot be opened or read.
    pub(crate) lost: u64,
    /// Partial writes, and content that was never written.
    pub(crate) half: u64,
    /// Changes that a watch did not deliver once and in order.
    pub(crate) gaps: u64,
    /// The first findings in detail.
    notes: Vec<String>,
}

/// Maximum number of detailed findings.
const NOTES_MAX: usize = 20;

impl Findings {
    /// Adds a lost write.
    pub(crate) fn lost(&mut self, what: impl fmt::Display) {
        self.lost += 1;
        self.note(format!("lost: {what}"));
    }

    /// Adds a partial write.
    pub(crate) fn half(&mut self, what: impl fmt::Display) {
        self.half += 1;
        self.note(format!("half: {what}"));
    }

    /// Adds a fault of a watch.
    pub(crate) fn gap(&mut self, what: impl fmt::Display) {
        self.gaps += 1;
        self.note(format!("watch: {what}"));
    }

    fn note(&mut self, note: String) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(note);
        }
    }

    /// Returns whether there are no findings.
    pub(crate) fn is_empty(&self) -> bool {
        self.lost + self.half + self.gaps == 0
    }

    /// Prints the findings on standard error, and how to reproduce them.
    pub(crate) fn report(&self, seed: u64, cycle: u64, kept: impl fmt::Display) {
        let mut out = stderr().lock();
        for note in &self.notes {
            drop(writeln!(out, "{note}"));
        }
        drop(writeln!(out, "seed {seed}, cycle {cycle}; kept: {kept}"));
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lost, half, gaps, notes: _ } = self;
        write!(f, "{lost} lost, {half} half, {gaps} watch gaps")
    }
}

/// The result of a campaign.
#[derive(Debug)]
pub(crate) struct CampaignResult {
    /// The counts, in one line.
    pub(crate) count: String,
    /// Whether there were no findings.
    pub(crate) is_good: bool,
}

/// Prints the progress, if standard error is a terminal.
pub(crate) fn progress(done: u64, of: u64) {
    let mut out = stderr().lock();
    if out.is_terminal() {
        drop(write!(out, "\r{done} of {of}{}", if done == of { "\n" } else { "" }));
    }
}
