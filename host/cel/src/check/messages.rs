//! Messages that expressions make for patches: `JSONPatch{…}`, `Object{…}`, `Object.spec{…}`.
//!
//! As in Kubernetes, an object has all fields, of any type.
//!
//! Source: `pkg/cel/mutation` of `k8s.io/apiserver`.

use std::sync::Arc;

use super::{Checker, Estimate, Outcome};
use crate::evaluate::type_name;
use crate::messages::{JSON_PATCH, MESSAGE_COST, OBJECT};
use crate::syntax::MessageField;
use crate::types::Type;

fn is_message(name: &str) -> bool {
    name == JSON_PATCH || name == OBJECT || name.strip_prefix(OBJECT).is_some_and(|part| part.starts_with('.'))
}

/// Returns the type of a field; `None` if the message has no such field.
pub(super) fn field(message: &str, field: &str) -> Option<Type> {
    match (message, field) {
        (JSON_PATCH, "op" | "path" | "from") => Some(Type::TEXT),
        (JSON_PATCH, "value") => Some(Type::Dyn),
        (JSON_PATCH, _) => None,
        _ => Some(Type::Dyn),
    }
}

impl Checker<'_> {
    pub(super) fn message(&mut self, at: usize, name: &Arc<str>, fields: &mut [MessageField]) -> Outcome {
        if !self.makes_patch || !is_message(name) {
            let reason = match self.variable(name) {
                Some(known) => format!("'{}' is not a type", known.value),
                None if type_name(name).is_some() => format!("'{name}' is not a message type"),
                None => format!("undeclared reference to '{name}' (in container '')"),
            };
            return Err(self.error(at, &reason));
        }
        let mut cost = MESSAGE_COST;
        for MessageField { at, name: field_name, entry } in fields {
            let value = self.entry(entry)?;
            cost = cost.saturating_add(value.cost);
            let wanted = field(name, field_name);
            if !wanted.as_ref().is_some_and(|wanted| value.value.fits(wanted)) {
                // As in Kubernetes, an unknown field has no type.
                let wanted = wanted.map(|wanted| wanted.to_string()).unwrap_or_default();
                let found = value.value;
                let reason =
                    format!("expected type of field '{field_name}' is '{wanted}' but provided type is '{found}'");
                return Err(self.error(*at, &reason));
            }
        }
        Ok(Estimate::made(Type::Message(Arc::clone(name)), cost))
    }
}
