//! Checks the log: that it is complete, in order, and consistent with itself and with the documents.

use super::{Checker, readable};
use crate::embedded::codec::{self, LogRow};
use crate::{EventType, Revision, model};

impl Checker<'_> {
    /// Checks every change; returns their number.
    pub(super) fn check_log(&mut self) -> Result<u64, redb::Error> {
        let (mut count, mut bytes) = (0, 0);
        let mut expected = self.meta.compacted.0.saturating_add(1);
        for row in self.log.range::<u64>(..)? {
            let (revision, row) = row?;
            let (revision, row) = (revision.value(), row.value());
            count += 1;
            bytes += row.len() as u64;
            if revision < expected || revision > self.meta.revision.0 {
                self.findings.add("log", revision, "is outside of the history of the store");
                continue;
            }
            self.report_gap(expected, revision);
            expected = revision.saturating_add(1);
            match LogRow::decode(row) {
                Err(_) => self.findings.add("log", revision, "cannot be read"),
                Ok(row) => self.check_change(revision, &row)?,
            }
        }
        self.report_gap(expected, self.meta.revision.0.saturating_add(1));
        if let Some(measure) = self.meta.measure.filter(|measure| measure.bytes != bytes) {
            self.findings.add(
                "meta",
                "log",
                format!("says that the log has {} bytes, and it has {bytes}", measure.bytes),
            );
        }
        self.check_latest()?;
        Ok(count)
    }

    fn report_gap(&mut self, expected: u64, found: u64) {
        if expected < found {
            self.findings.add("log", expected, format!("is missing, and so is every one up to {}", found - 1));
        }
    }

    /// Checks one change: its documents, and that it starts from the result of the resource's previous
    /// change.
    fn check_change(&mut self, revision: u64, row: &LogRow<'_>) -> Result<(), redb::Error> {
        let earlier = self.latest.insert(row.path.to_vec(), revision);
        match codec::resource(row.document) {
            Err(_) => self.findings.add("log", revision, "has a document that cannot be read"),
            Ok(after) if model::Path::of(after.key()).0 != row.path => {
                self.findings.add(
                    "log",
                    revision,
                    format!("is about {}, with the document of {}", readable(row.path), after.key()),
                );
            }
            Ok(after) if after.revision() != Revision(revision) => {
                self.findings.add("log", revision, format!("has a document of revision {}", after.revision()));
            }
            Ok(_) => {}
        }
        if (row.kind == EventType::Added) != row.previous.is_empty() {
            self.findings.add("log", revision, "has a kind that contradicts the document before it");
        }
        match row.before() {
            Err(_) => self.findings.add("log", revision, "has a document before it that cannot be read"),
            Ok(Some(before)) if earlier.is_none() && before.revision() > self.meta.compacted => {
                self.findings.add(
                    "log",
                    revision,
                    format!("follows revision {}, which is not in the log", before.revision()),
                );
            }
            Ok(_) => {}
        }
        let Some(earlier) = earlier else { return Ok(()) };
        if let Some(before) = self.log.get(earlier)?
            && let Ok(before) = LogRow::decode(before.value())
        {
            let left = if before.kind == EventType::Deleted { &[] } else { before.document };
            if left != &*row.previous {
                self.findings.add("log", revision, format!("does not start from the result of revision {earlier}"));
            }
        }
        Ok(())
    }

    /// Checks that the last change of every resource agrees with the stored document.
    fn check_latest(&mut self) -> Result<(), redb::Error> {
        let mut latest: Vec<_> = self.latest.iter().map(|(path, revision)| (*revision, path)).collect();
        latest.sort_unstable();
        for (revision, path) in latest {
            let Some(row) = self.log.get(revision)? else { continue };
            let Ok(row) = LogRow::decode(row.value()) else { continue };
            let document = self.resources.get(path.as_slice())?;
            let what = match (row.kind, document) {
                (EventType::Deleted, None) => continue,
                (EventType::Deleted, Some(_)) => "was deleted in the log, but exists",
                (_, None) => "was not deleted in the log, but is missing",
                (_, Some(document)) if document.value() == row.document => continue,
                (_, Some(_)) => "differs from the log",
            };
            self.findings.add("resources", readable(path), format!("{what} at revision {revision}"));
        }
        Ok(())
    }
}
