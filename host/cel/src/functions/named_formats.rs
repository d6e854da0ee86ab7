//! Functions of named formats, as `format.dns1123Label()`. Source: Kubernetes' library of formats.

use std::rc::Rc;

use super::text_of;
use crate::error::EvaluationError;
use crate::objects::named_formats::by_name;
use crate::value::Value;

type Outcome<'a> = Result<Value<'a>, EvaluationError>;

/// Declares the functions that return formats.
macro_rules! constants {
    ($($function:ident = $name:literal;)*) => {
        $(
            #[doc = concat!("`format.", $name, "()`.")]
            pub(super) fn $function<'a>(_: &[Value<'a>]) -> Outcome<'a> {
                by_name($name).map(Value::Format).ok_or(EvaluationError::NoSuchOverload)
            }
        )*
    };
}

constants! {
    dns1123_label = "dns1123Label";
    dns1123_label_prefix = "dns1123LabelPrefix";
    dns1123_subdomain = "dns1123Subdomain";
    dns1123_subdomain_prefix = "dns1123SubdomainPrefix";
    dns1035_label = "dns1035Label";
    dns1035_label_prefix = "dns1035LabelPrefix";
    qualified_name = "qualifiedName";
    label_value = "labelValue";
    uri = "uri";
    uuid = "uuid";
    byte = "byte";
    date = "date";
    datetime = "datetime";
}

/// `format.named`.
pub(super) fn named<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Optional(by_name(text_of(&arguments[0])?).map(|format| Rc::new(Value::Format(format)))))
}

/// `validate`: the faults of a text, or none.
pub(super) fn validate<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let Value::Format(format) = arguments[0] else { return Err(EvaluationError::NoSuchOverload) };
    let wrong = format.faults(text_of(&arguments[1])?);
    let wrong = (!wrong.is_empty()).then(|| Rc::new(Value::list(wrong.into_iter().map(Value::text).collect())));
    Ok(Value::Optional(wrong))
}
