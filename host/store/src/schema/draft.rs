//! The schema of a definition that is being written.
//!
//! [`Schema::parse`] ends at the first fault. A draft has all faults of its rules, and the parts against which defaults are
//! checked, also where keywords are refused elsewhere.

use homeostat_cel::Budget;
use serde_json::Value;

use super::{Path, Result, Schema, Violation, check, parse, rules};

/// A schema whose rules are compiled, and whose defaults are not checked.
#[derive(Debug)]
pub struct Draft {
    /// The schema, with the rules that could be compiled.
    pub schema: Schema,
    /// The violations of the rules of `x-kubernetes-validations` in CEL, and of their costs.
    pub rule_violations: Vec<Violation>,
}

impl Draft {
    /// Parses a structural schema at `path`, and returns the first [`VIOLATIONS_MAX`](super::VIOLATIONS_MAX) violations of its
    /// rules. As in Kubernetes, they are none of those of the parts at the paths `refused`, and of the parts above these.
    ///
    /// # Errors
    /// `Invalid` when the schema is not structural or above a bound of this store, `TooLarge`.
    pub fn parse(source: &Value, path: &str, refused: &[String]) -> Result<Self> {
        let path = Path::ROOT.field(path);
        let mut schema = parse::parse_draft(source, &path)?;
        let rule_violations = rules::parse_draft(&mut schema, source, &path, refused)?;
        Ok(Self { schema, rule_violations })
    }
}

/// Checks the defaults of one schema, within a bound for the cost of their rules.
#[derive(Debug)]
pub struct DefaultChecker {
    budget: Budget,
}

impl Default for DefaultChecker {
    fn default() -> Self {
        Self { budget: Budget::new(rules::DOCUMENT_COST_MAX) }
    }
}

impl DefaultChecker {
    /// Returns the violations of a part of a draft by its default at `path`. Its rules are evaluated only if it is valid
    /// otherwise.
    pub fn check(&mut self, part: &Schema, default: &Value, path: &Path<'_>) -> Vec<Violation> {
        let mut found = check::check_default(part, default, &Path::ROOT);
        let is_by_rules = found.is_empty() && part.has_rules;
        if is_by_rules {
            found = rules::check_default(part, default, &mut self.budget);
        }
        for violation in &mut found {
            violation.path = match violation.path.as_str() {
                "" | check::NO_PATH => path.to_string(),
                below if is_by_rules && below.starts_with('[') => format!("{path}{below}"),
                // As in Kubernetes, an item of a default that is a list has `.default.[0]`.
                below => format!("{path}.{below}"),
            };
        }
        found
    }
}
