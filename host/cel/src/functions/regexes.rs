//! Searches with regular expressions.

use super::text_of;
use crate::error::EvaluationError;
use crate::pattern::Pattern;
use crate::value::Value;

type Outcome<'a> = Result<Value<'a>, EvaluationError>;

/// Returns the result of `matches`, `find` or `findAll`.
pub(crate) fn search<'a>(function: &str, pattern: &Pattern, arguments: &[Value<'a>]) -> Outcome<'a> {
    let text = text_of(&arguments[0])?;
    match function {
        "matches" => Ok(Value::Bool(pattern.is_in(text))),
        "find" => Ok(Value::text(pattern.matches(text).next().unwrap_or_default())),
        _ => {
            let most = match arguments.get(2) {
                None => usize::MAX,
                Some(Value::Int(most)) => usize::try_from(*most).unwrap_or(usize::MAX),
                Some(_) => return Err(EvaluationError::NoSuchOverload),
            };
            Ok(Value::list(pattern.matches(text).take(most).map(Value::text).collect()))
        }
    }
}

/// The evaluation calls [`search`] in place of this, with the pattern.
pub(super) fn unsearched<'a>(_: &[Value<'a>]) -> Outcome<'a> {
    Err(EvaluationError::NoSuchOverload)
}
