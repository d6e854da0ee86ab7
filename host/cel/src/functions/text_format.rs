//! `'…%s…'.format([…])`. Source: cel-go's extension of strings.

use super::{conversions, text_of};
use crate::error::EvaluationError;
use crate::objects::time;
use crate::operators::{TEXT_BYTES_MAX, bounded, too_long};
use crate::value::Value;

/// Most digits behind the point.
const PRECISION_MAX: usize = 1000;

pub(super) fn format<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, EvaluationError> {
    let Value::List(values) = &arguments[1] else { return Err(EvaluationError::NoSuchOverload) };
    let mut values = values.iter();
    let mut rest = text_of(&arguments[0])?;
    let (mut text, mut left) = (String::new(), TEXT_BYTES_MAX);
    while let Some(at) = rest.find('%') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let (verb, precision, after) = clause(rest)?;
        rest = after;
        if verb == '%' {
            text.push('%');
        } else {
            let value = values.next().ok_or_else(|| invalid("index out of range: too few arguments"))?;
            text.push_str(&formatted(&value, verb, precision, &mut left)?);
        }
        bounded(text.len())?;
    }
    text.push_str(rest);
    Ok(Value::text(text))
}

fn invalid(reason: impl Into<String>) -> EvaluationError {
    EvaluationError::Invalid(reason.into())
}

/// Reads a clause behind its percent sign: its verb, its precision, and the rest of the text.
fn clause(text: &str) -> Result<(char, Option<usize>, &str), EvaluationError> {
    let (precision, rest) = match text.strip_prefix('.') {
        None => (None, text),
        Some(digits) => {
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            let precision = digits[..end].parse().ok().filter(|precision| *precision <= PRECISION_MAX);
            (Some(precision.ok_or_else(|| invalid("invalid precision in a format"))?), &digits[end..])
        }
    };
    let verb = rest.chars().next().ok_or_else(|| invalid("unexpected end of string in a format"))?;
    Ok((verb, precision, &rest[verb.len_utf8()..]))
}

fn formatted(
    value: &Value<'_>,
    verb: char,
    precision: Option<usize>,
    left: &mut usize,
) -> Result<String, EvaluationError> {
    let wrong = || invalid(format!("a format clause %{verb} cannot have a value of the type {}", value.type_name()));
    Ok(match (verb, value) {
        ('s', value) => shown(value, left)?,
        ('d', Value::Int(_) | Value::Uint(_)) => shown(value, left)?,
        ('f', Value::Double(number)) => format!("{number:.0$}", precision.unwrap_or(6)),
        ('e', Value::Double(number)) => {
            let text = format!("{number:.0$e}", precision.unwrap_or(6));
            let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let (sign, digits) = exponent.strip_prefix('-').map_or(("+", exponent), |digits| ("-", digits));
            format!("{mantissa}e{sign}{digits:0>2}")
        }
        ('b', Value::Bool(value)) => i32::from(*value).to_string(),
        ('b', Value::Int(number)) => signed(*number, |number| format!("{number:b}")),
        ('b', Value::Uint(number)) => format!("{number:b}"),
        ('o', Value::Int(number)) => signed(*number, |number| format!("{number:o}")),
        ('o', Value::Uint(number)) => format!("{number:o}"),
        ('x', Value::Int(number)) => signed(*number, |number| format!("{number:x}")),
        ('X', Value::Int(number)) => signed(*number, |number| format!("{number:X}")),
        ('x', Value::Uint(number)) => format!("{number:x}"),
        ('X', Value::Uint(number)) => format!("{number:X}"),
        ('x', Value::Text(text)) => hexadecimal(text.as_bytes()),
        ('X', Value::Text(text)) => hexadecimal(text.as_bytes()).to_uppercase(),
        ('x', Value::Bytes(bytes)) => hexadecimal(bytes),
        ('X', Value::Bytes(bytes)) => hexadecimal(bytes).to_uppercase(),
        ('d' | 'f' | 'e' | 'b' | 'o' | 'x' | 'X', _) => return Err(wrong()),
        _ => return Err(invalid(format!("unrecognized formatting clause \"{verb}\""))),
    })
}

fn signed(number: i64, shown: impl FnOnce(u64) -> String) -> String {
    let text = shown(number.unsigned_abs());
    if number < 0 { format!("-{text}") } else { text }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the text of any value, whose bytes it takes from `left`.
fn shown(value: &Value<'_>, left: &mut usize) -> Result<String, EvaluationError> {
    let text = match value {
        Value::Text(text) => text.to_string(),
        Value::Null => "null".to_owned(),
        Value::TypeName(name) => (*name).to_owned(),
        Value::Duration(duration) => time::duration_text(*duration),
        Value::List(list) => {
            let mut items = Vec::new();
            for item in list.iter() {
                take(SEPARATOR_BYTES, left)?;
                items.push(shown(&item, left)?);
            }
            return Ok(format!("[{}]", items.join(", ")));
        }
        Value::Map(map) => {
            let mut entries = Vec::new();
            for (key, value) in map.entries() {
                take(SEPARATOR_BYTES, left)?;
                entries.push(format!("{}: {}", shown(&key, left)?, shown(&value, left)?));
            }
            entries.sort();
            return Ok(format!("{{{}}}", entries.join(", ")));
        }
        value => conversions::shown(value)?,
    };
    take(text.len(), left)?;
    Ok(text)
}

/// The bytes around an item of a list or an entry of a map.
const SEPARATOR_BYTES: usize = 4;

fn take(bytes: usize, left: &mut usize) -> Result<(), EvaluationError> {
    *left = left.checked_sub(bytes).ok_or_else(too_long)?;
    Ok(())
}
