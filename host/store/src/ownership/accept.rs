//! What a document must be like to be applied: nothing of it is `null` any more, and every item of a list can be told from the others.

use serde_json::Value;

use super::shape::{ItemKeyError, Shape};
use crate::{Error, Result};

/// Checks a document that is to be applied, which is no deeper than documents may be.
///
/// # Errors
/// `Invalid` with the path of a field that is `null`, of an item that is in its list twice, or of a key that an item lacks.
pub(super) fn document(applied: &Value, shape: Shape<'_>) -> Result<()> {
    value(applied, Some(shape), "")
}

/// Inside of a value that has one owner only `null` is looked for; it has no `shape`.
fn value(applied: &Value, shape: Option<Shape<'_>>, path: &str) -> Result<()> {
    match applied {
        Value::Null => Err(Error::invalid(path, "must not be null; leave out what is not wanted")),
        Value::Object(fields) => {
            let shape = shape.filter(|shape| shape.has_fields());
            for (name, field) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                value(field, shape.and_then(|shape| shape.field(name)), &path)?;
            }
            Ok(())
        }
        Value::Array(items) => {
            let elements = shape.and_then(|shape| shape.elements(items));
            if let Some(Err(ItemKeyError { at, field, reason })) = &elements {
                let field = field.as_ref().map(|field| format!(".{field}")).unwrap_or_default();
                return Err(Error::invalid(format!("{path}[{at}]{field}"), *reason));
            }
            let shape = elements.and(shape).map(Shape::items);
            for (at, item) in items.iter().enumerate() {
                value(item, shape, &format!("{path}[{at}]"))?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
