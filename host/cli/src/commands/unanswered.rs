//! The hosts of a fleet that have not answered a question which the asked host has forwarded to them.

use std::collections::BTreeSet;
use std::process::ExitCode;

use serde_json::Value;

use crate::document::text;
use crate::exit::ExitReason;
use crate::output::{self, plain};

/// The hosts that have not answered, each with the reason.
#[derive(Debug, Default)]
pub(super) struct UnansweredHosts(BTreeSet<String>);

impl UnansweredHosts {
    /// Warns of the hosts that a document or a line names, of each reason once. Returns whether it names any.
    pub(super) fn note(&mut self, document: &Value) -> bool {
        let named = &document["unanswered"];
        let hosts = named.as_array().map_or(std::slice::from_ref(named), Vec::as_slice);
        for host in hosts.iter().filter(|host| host.is_object()) {
            let warning = format!("host/{} has not answered: {}", text(host, "/host"), text(host, "/reason"));
            if !self.0.contains(&warning) {
                output::eprint(&plain(&warning));
                self.0.insert(warning);
            }
        }
        !named.is_null()
    }

    /// Returns the exit code of a command that has shown everything else.
    pub(super) fn exit_code(&self) -> ExitCode {
        if self.0.is_empty() { ExitCode::SUCCESS } else { ExitReason::Unavailable.into() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_reason_of_a_host_is_noted_once_and_a_whole_answer_has_none() {
        let mut hosts = UnansweredHosts::default();
        assert!(!hosts.note(&json!({ "items": [] })));
        assert_eq!(hosts.exit_code(), ExitCode::SUCCESS);
        let silent = json!({ "host": "b", "reason": "late" });
        assert!(hosts.note(&json!({ "unanswered": silent })));
        assert!(hosts.note(&json!({ "unanswered": [silent, { "host": "c", "reason": "late" }] })));
        assert_eq!(hosts.0.len(), 2);
        assert_eq!(hosts.exit_code(), ExitReason::Unavailable.into());
    }
}
