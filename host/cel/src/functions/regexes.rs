//! Regular expressions. A constant one is compiled once for each evaluation's thread.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::text_of;
use crate::evaluate::EvaluationError;
use crate::pattern::Pattern;
use crate::value::Value;

type Outcome<'a> = Result<Value<'a>, EvaluationError>;

/// Patterns that a thread keeps; at the bound it forgets all of them.
const KEPT_MAX: usize = 64;

thread_local! {
    static KEPT: RefCell<HashMap<String, Rc<Pattern>>> = RefCell::default();
}

/// Returns a compiled pattern.
fn pattern(text: &str) -> Result<Rc<Pattern>, EvaluationError> {
    KEPT.with_borrow_mut(|kept| {
        if let Some(known) = kept.get(text) {
            return Ok(Rc::clone(known));
        }
        let pattern = Pattern::new(text).map_err(|reason| EvaluationError::Invalid(format!("the pattern {reason}")))?;
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        let pattern = Rc::new(pattern);
        kept.insert(text.to_owned(), Rc::clone(&pattern));
        Ok(pattern)
    })
}

pub(super) fn matches<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let text = text_of(&arguments[0])?;
    Ok(Value::Bool(pattern(text_of(&arguments[1])?)?.is_in(text)))
}

pub(super) fn find<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let text = text_of(&arguments[0])?;
    let pattern = pattern(text_of(&arguments[1])?)?;
    Ok(Value::text(pattern.matches(text).next().unwrap_or_default()))
}

pub(super) fn find_all<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    let text = text_of(&arguments[0])?;
    let pattern = pattern(text_of(&arguments[1])?)?;
    let most = match arguments.get(2) {
        None => usize::MAX,
        Some(Value::Int(most)) => usize::try_from(*most).unwrap_or(usize::MAX),
        Some(_) => return Err(EvaluationError::NoSuchOverload),
    };
    Ok(Value::list(pattern.matches(text).take(most).map(Value::text).collect()))
}
