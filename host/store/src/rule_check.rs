//! Evaluates the rules in CEL of a write before the store decides it.
//!
//! All writes of a store wait for its writer, and rules can take a second. So the client's task evaluates them, for the
//! current resource and the current schema, and the writer decides the write only if both are still the same. Otherwise
//! the rules are evaluated again.

use std::sync::Arc;

use crate::schema::{Schema, Schemas};
use crate::semantics::{self, Validation};
use crate::{ClockAndIds, Key, Request, Resource, Result, Revision, Write};

/// Evaluations for one write at most. Each was overtaken by another write of the same resource, or by a new schema.
pub(crate) const TRIES_MAX: usize = 16;

/// The state on which the evaluated rules of a write rely.
#[derive(Debug, Clone)]
pub(crate) struct RuleCheck {
    /// The resource of the write.
    pub(crate) key: Key,
    /// The revision of the current resource, `None` if there is none.
    pub(crate) previous: Option<Revision>,
    schema: Arc<Schema>,
}

/// Returns whether a write has to pass rules in CEL.
pub fn needs_rules(schemas: &Schemas, request: &Request) -> bool {
    schema_with_rules(schemas, request).is_some()
}

/// Returns the schema of a write, if it has rules.
fn schema_with_rules(schemas: &Schemas, request: &Request) -> Option<Arc<Schema>> {
    if !schemas.have_rules() || request.is_move || request.is_planned || matches!(request.write, Write::Delete { .. }) {
        return None;
    }
    // The store tells the client about a write without a resource.
    let kind = request.write.target().ok()?.kind;
    schemas.of(&kind).schema.filter(|schema| schema.has_rules())
}

impl RuleCheck {
    /// Evaluates the rules of a write; `None` if it has none. `lookup` reads the current resource.
    ///
    /// A resource whose name is to be generated gets it here.
    ///
    /// # Errors
    /// Those of the write, so that it need not be decided.
    pub(crate) fn evaluate(
        clock: &dyn ClockAndIds,
        schemas: &Schemas,
        request: &mut Request,
        lookup: impl FnMut(&Key) -> Result<Option<Arc<Resource>>>,
    ) -> Result<Option<Self>> {
        let Some(schema) = schema_with_rules(schemas, request) else { return Ok(None) };
        let plan =
            semantics::plan_write(clock, schemas, request.clone(), Revision::ZERO, Validation::Complete, lookup)?;
        if let Write::Create { document } = &mut request.write {
            document["metadata"]["name"] = plan.key.name().into();
        }
        let previous = plan.previous.map(|previous| previous.revision());
        Ok(Some(Self { key: plan.key, previous, schema }))
    }

    /// Returns whether a write can be decided by a check: the schema is still the same, and so is the resource, which
    /// `lookup` reads.
    ///
    /// # Errors
    /// Those of `lookup`.
    pub(crate) fn is_current(
        check: Option<&Self>,
        schemas: &Schemas,
        request: &Request,
        lookup: impl FnOnce(&Key) -> Result<Option<Arc<Resource>>>,
    ) -> Result<bool> {
        match (check, schema_with_rules(schemas, request)) {
            (_, None) => Ok(true),
            (None, Some(_)) => Ok(false),
            (Some(check), Some(schema)) => Ok(Arc::ptr_eq(&check.schema, &schema)
                && lookup(&check.key)?.map(|resource| resource.revision()) == check.previous),
        }
    }
}
