//! Functions of semantic versions.

use super::text_of;
use crate::error::EvaluationError;
use crate::objects::semver::Version;
use crate::value::Value;

fn parsed(arguments: &[Value<'_>]) -> Result<Option<Version>, EvaluationError> {
    let is_lenient = match arguments.get(1) {
        None => false,
        Some(Value::Bool(is_lenient)) => *is_lenient,
        Some(_) => return Err(EvaluationError::NoSuchOverload),
    };
    Ok(Version::parse(text_of(&arguments[0])?, is_lenient))
}

pub(super) fn semver<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, EvaluationError> {
    let version = parsed(arguments)?;
    version
        .map(|version| Value::Semver(version.into()))
        .ok_or_else(|| EvaluationError::Invalid("the text is not a semantic version".to_owned()))
}

pub(super) fn is_semver<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, EvaluationError> {
    Ok(Value::Bool(parsed(arguments)?.is_some()))
}

fn number<'a>(arguments: &[Value<'a>], at: usize) -> Result<Value<'a>, EvaluationError> {
    match &arguments[0] {
        Value::Semver(version) => Ok(Value::Int(version.number(at))),
        _ => Err(EvaluationError::NoSuchOverload),
    }
}

pub(super) fn major<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, EvaluationError> {
    number(arguments, 0)
}

pub(super) fn minor<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, EvaluationError> {
    number(arguments, 1)
}

pub(super) fn patch<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, EvaluationError> {
    number(arguments, 2)
}
