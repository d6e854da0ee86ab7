//! Checks that a document can be applied: no list has a `null`, and all list items can be told apart. In a list with a single
//! owner, a kind of Kubernetes may have a `null`: it becomes the empty value of its type.

use serde_json::Value;

use super::shape::{ItemKeyError, Shape};
use crate::schema::Schema;
use crate::{Error, Result};

/// Checks an applied document. It must not be nested deeper than the limit.
///
/// # Errors
/// `Invalid` with the path of a list item that is `null` or a duplicate, or of the missing key of an item.
pub(super) fn document(applied: &Value, shape: Shape<'_>, schema: Option<&Schema>) -> Result<()> {
    let has_empty_values = schema.is_some_and(Schema::is_typed);
    value(applied, Some(shape), has_empty_values, "")
}

/// A value with a single owner has no `shape`, and is only checked for `null`.
fn value(applied: &Value, shape: Option<Shape<'_>>, has_empty_values: bool, path: &str) -> Result<()> {
    match applied {
        Value::Null if has_empty_values && shape.is_none() => Ok(()),
        Value::Null => Err(Error::invalid(path, "must not be null; omit the field instead")),
        Value::Object(fields) => {
            let shape = shape.filter(|shape| shape.has_fields());
            for (name, field) in fields.iter().filter(|(_, field)| !field.is_null()) {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                value(field, shape.and_then(|shape| shape.field(name)), has_empty_values, &path)?;
            }
            Ok(())
        }
        Value::Array(items) => {
            let elements = shape.and_then(|shape| shape.elements(items));
            match &elements {
                Some(Err(ItemKeyError::Item { at, field, reason })) => {
                    let field = field.as_ref().map(|field| format!(".{field}")).unwrap_or_default();
                    return Err(Error::invalid(format!("{path}[{at}]{field}"), *reason));
                }
                Some(Err(ItemKeyError::Duplicate(element))) => {
                    return Err(Error::invalid(path, format!("duplicate entries for key {}", element.shown())));
                }
                Some(Ok(_)) | None => {}
            }
            let shape = elements.and(shape).map(Shape::items);
            for (at, item) in items.iter().enumerate() {
                value(item, shape, has_empty_values, &format!("{path}[{at}]"))?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
