//! Conversions between types. Source: the specification of CEL.

use std::rc::Rc;

use super::text_of;
use crate::error::EvaluationError;
use crate::objects::time;
use crate::value::Value;

type Outcome<'a> = Result<Value<'a>, EvaluationError>;

fn invalid(reason: &str) -> EvaluationError {
    EvaluationError::Invalid(reason.to_owned())
}

#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
pub(super) fn int<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    match &arguments[0] {
        number @ Value::Int(_) => Ok(number.clone()),
        Value::Uint(number) => i64::try_from(*number).map(Value::Int).map_err(|_| EvaluationError::Overflow),
        Value::Double(number) if number.abs() < 9.223_372_036_854_775e18 => Ok(Value::Int(*number as i64)),
        Value::Double(_) => Err(EvaluationError::Overflow),
        Value::Text(text) => {
            text.parse().map(Value::Int).map_err(|_| invalid("type conversion error from 'string' to 'int'"))
        }
        Value::Timestamp(moment) => Ok(Value::Int(moment.as_second())),
        Value::Duration(duration) => {
            i64::try_from(duration.as_nanos()).map(Value::Int).map_err(|_| EvaluationError::Overflow)
        }
        _ => Err(EvaluationError::NoSuchOverload),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
pub(super) fn uint<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    match &arguments[0] {
        number @ Value::Uint(_) => Ok(number.clone()),
        Value::Int(number) => u64::try_from(*number).map(Value::Uint).map_err(|_| EvaluationError::Overflow),
        Value::Double(number) if *number >= 0.0 && *number < 1.844_674_407_370_955e19 => {
            Ok(Value::Uint(*number as u64))
        }
        Value::Double(_) => Err(EvaluationError::Overflow),
        Value::Text(text) => {
            text.parse().map(Value::Uint).map_err(|_| invalid("type conversion error from 'string' to 'uint'"))
        }
        _ => Err(EvaluationError::NoSuchOverload),
    }
}

#[expect(clippy::cast_precision_loss, reason = "CEL converts in this way")]
pub(super) fn double<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    match &arguments[0] {
        number @ Value::Double(_) => Ok(number.clone()),
        Value::Int(number) => Ok(Value::Double(*number as f64)),
        Value::Uint(number) => Ok(Value::Double(*number as f64)),
        Value::Text(text) => {
            text.parse().map(Value::Double).map_err(|_| invalid("type conversion error from 'string' to 'double'"))
        }
        _ => Err(EvaluationError::NoSuchOverload),
    }
}

pub(super) fn string<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    match &arguments[0] {
        text @ Value::Text(_) => Ok(text.clone()),
        value => shown(value).map(Value::text),
    }
}

/// Returns the text of a value that is no text.
pub(super) fn shown(value: &Value<'_>) -> Result<String, EvaluationError> {
    Ok(match value {
        Value::Bool(value) => value.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => double_text(*number),
        Value::Bytes(bytes) => {
            let text = String::from_utf8((**bytes).clone());
            text.map_err(|_| invalid("invalid UTF-8 in bytes, cannot convert to string"))?
        }
        Value::Timestamp(moment) => moment.to_string(),
        Value::Duration(duration) => time::duration_text(*duration),
        Value::Ip(address) => address.to_string(),
        Value::Cidr(range) => format!("{}/{}", range.address, range.prefix),
        _ => return Err(EvaluationError::NoSuchOverload),
    })
}

/// Writes a number as Go does with the shortest precision.
pub(super) fn double_text(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let size = number.abs();
    if size != 0.0 && !(1e-4..1e6).contains(&size) {
        let text = format!("{number:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, digits) = exponent.strip_prefix('-').map_or(("+", exponent), |digits| ("-", digits));
        return format!("{mantissa}e{sign}{digits:0>2}");
    }
    number.to_string()
}

pub(super) fn bytes<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    match &arguments[0] {
        bytes @ Value::Bytes(_) => Ok(bytes.clone()),
        Value::Text(text) => Ok(Value::Bytes(Rc::new(text.as_bytes().to_vec()))),
        _ => Err(EvaluationError::NoSuchOverload),
    }
}

pub(super) fn bool<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    match &arguments[0] {
        value @ Value::Bool(_) => Ok(value.clone()),
        Value::Text(text) => match &***text {
            "true" | "TRUE" | "True" | "t" | "T" | "1" => Ok(Value::Bool(true)),
            "false" | "FALSE" | "False" | "f" | "F" | "0" => Ok(Value::Bool(false)),
            _ => Err(invalid("type conversion error from 'string' to 'bool'")),
        },
        _ => Err(EvaluationError::NoSuchOverload),
    }
}

pub(super) fn timestamp<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    match &arguments[0] {
        moment @ Value::Timestamp(_) => Ok(moment.clone()),
        Value::Int(seconds) => {
            let moment = jiff::Timestamp::from_second(*seconds);
            moment.map(Value::Timestamp).map_err(|_| EvaluationError::Overflow)
        }
        value => {
            let moment = time::timestamp(text_of(value)?);
            moment.map(Value::Timestamp).ok_or_else(|| invalid("invalid timestamp"))
        }
    }
}

pub(super) fn duration<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    match &arguments[0] {
        duration @ Value::Duration(_) => Ok(duration.clone()),
        Value::Int(nanos) => Ok(Value::Duration(jiff::SignedDuration::from_nanos(*nanos))),
        value => {
            let duration = time::duration(text_of(value)?);
            duration.map(Value::Duration).ok_or_else(|| invalid("invalid duration"))
        }
    }
}

/// `dyn`.
pub(super) fn untyped<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    Ok(arguments[0].clone())
}

/// `type`.
pub(super) fn type_of<'a>(arguments: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::TypeName(arguments[0].type_name()))
}
