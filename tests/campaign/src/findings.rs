//! What a campaign has found, and how it is told.

use std::fmt;
use std::io::{IsTerminal, Write, stderr};

/// Things that were found and must not be.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Acknowledged writes that are not there, and stores that cannot be opened or read.
    pub(crate) lost: u64,
    /// Writes that are there in part, and writes that nobody made.
    pub(crate) half: u64,
    /// Changes that a watch did not deliver once and in order.
    pub(crate) gaps: u64,
    /// What exactly, the first of them.
    notes: Vec<String>,
}

/// Notes that are kept.
const NOTES_MAX: usize = 20;

impl Findings {
    /// Notes something that is lost.
    pub(crate) fn lost(&mut self, what: impl fmt::Display) {
        self.lost += 1;
        self.note(format!("lost: {what}"));
    }

    /// Notes something that is there in part.
    pub(crate) fn half(&mut self, what: impl fmt::Display) {
        self.half += 1;
        self.note(format!("half: {what}"));
    }

    /// Notes something that a watch did wrong.
    pub(crate) fn gap(&mut self, what: impl fmt::Display) {
        self.gaps += 1;
        self.note(format!("watch: {what}"));
    }

    fn note(&mut self, note: String) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(note);
        }
    }

    /// Returns whether nothing was found.
    pub(crate) fn is_empty(&self) -> bool {
        self.lost + self.half + self.gaps == 0
    }

    /// Says what was found on standard error, and how to see it again.
    pub(crate) fn report(&self, seed: u64, cycle: u64, kept: impl fmt::Display) {
        let mut out = stderr().lock();
        for note in &self.notes {
            drop(writeln!(out, "{note}"));
        }
        drop(writeln!(out, "seed {seed}, cycle {cycle}; what was found in: {kept}"));
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lost, half, gaps, notes: _ } = self;
        write!(f, "{lost} lost, {half} half, {gaps} watch gaps")
    }
}

/// How a campaign ended.
#[derive(Debug)]
pub(crate) struct CampaignResult {
    /// The count, one line.
    pub(crate) count: String,
    /// Whether nothing was found.
    pub(crate) is_good: bool,
}

/// Says on a terminal how far a campaign is.
pub(crate) fn progress(done: u64, of: u64) {
    let mut out = stderr().lock();
    if out.is_terminal() {
        drop(write!(out, "\r{done} of {of}{}", if done == of { "\n" } else { "" }));
    }
}
