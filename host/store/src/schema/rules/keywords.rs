//! The keywords of rules, apart from their expressions.

use std::str::Chars;

use serde_json::Value;

use crate::path::Path;
use crate::schema::{Reason, Violation};
use crate::violation::shown;

pub(super) const KEYWORD: &str = "x-kubernetes-validations";
/// The reasons that a rule can give, as Kubernetes lists them.
pub(super) const REASONS: [Reason; 4] = [Reason::Duplicate, Reason::Forbidden, Reason::Invalid, Reason::Required];

/// A fault of a rule.
#[derive(Debug)]
pub(super) struct RuleFault {
    pub(super) path: String,
    pub(super) reason: Reason,
    /// The value for display; may be empty.
    pub(super) value: String,
    pub(super) words: String,
}

impl RuleFault {
    pub(super) fn violation(self) -> Violation {
        let Self { path, reason, value, words } = self;
        let detail = if value.is_empty() { words } else { format!("{value}: {words}") };
        Violation { path, reason, detail }
    }
}

/// Returns the violations of the keywords of the rules of one part of a schema at `path`: all but those of the expressions
/// themselves. Whether the field of a rule exists is known only for a well-formed part.
pub fn keyword_violations(part: &Value, path: &Path<'_>, is_well_formed: bool) -> Vec<Violation> {
    keyword_faults(part, path, is_well_formed).into_iter().map(RuleFault::violation).collect()
}

pub(super) fn keyword_faults(part: &Value, path: &Path<'_>, is_well_formed: bool) -> Vec<RuleFault> {
    let path = path.field(KEYWORD);
    let rules = part[KEYWORD].as_array().into_iter().flatten().enumerate();
    rules.flat_map(|(at, rule)| faults_of_rule(part, rule, &path.item(at), is_well_formed)).collect()
}

fn faults_of_rule(part: &Value, rule: &Value, path: &Path<'_>, is_well_formed: bool) -> Vec<RuleFault> {
    let mut faults = Vec::new();
    let mut add = |name: &str, reason, value: String, words: &str| {
        faults.push(RuleFault { path: path.field(name).to_string(), reason, value, words: words.to_owned() });
    };
    let text = |name: &str| rule[name].as_str().unwrap_or_default();
    let is_blank = |text: &str| !text.is_empty() && text.trim().is_empty();
    let message = text("message");
    if text("rule").trim().is_empty() {
        add("rule", Reason::Required, String::new(), "rule is not specified");
    } else if is_blank(message) {
        add("message", Reason::Invalid, shown(&rule["message"]), "must be non-empty if specified");
    } else if has_line_breaks(message.trim()) {
        add("message", Reason::Invalid, shown(&rule["message"]), "must not contain line breaks");
    } else if has_line_breaks(text("rule").trim()) && message.is_empty() {
        let words = "message must be specified if rule contains line breaks";
        add("message", Reason::Required, String::new(), words);
    }
    if is_blank(text("messageExpression")) {
        let words = "messageExpression must be non-empty if specified";
        add("messageExpression", Reason::Required, String::new(), words);
    }
    if let Some(reason) = rule["reason"].as_str().filter(|name| REASONS.iter().all(|known| known.cause() != *name)) {
        let known = REASONS.map(|reason| format!("{:?}", reason.cause())).join(", ");
        add("reason", Reason::Unsupported, format!("{reason:?}"), &format!("supported values: {known}"));
    }
    let field = text("fieldPath");
    if is_blank(field) {
        add("fieldPath", Reason::Invalid, shown(&rule["fieldPath"]), "must be non-empty if specified");
    }
    if has_line_breaks(field) {
        add("fieldPath", Reason::Invalid, shown(&rule["fieldPath"]), "must not contain line breaks");
    }
    if !field.is_empty() && is_well_formed && field_path(part, field).is_none() {
        add("fieldPath", Reason::Invalid, shown(&rule["fieldPath"]), "must be a valid path");
    }
    faults
}

fn has_line_breaks(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

/// Returns the path of a field of a part of a schema, as `ports.http` for `.ports['http']`; `None` if the schema does not
/// have it.
pub(super) fn field_path(part: &Value, written: &str) -> Option<String> {
    let (mut part, mut rest, mut path) = (part, written, String::new());
    while !rest.is_empty() {
        let (name, after) = if let Some(quoted) = rest.strip_prefix('[') {
            let (name, after) = quoted_name(quoted)?;
            (name, after.strip_prefix(']')?)
        } else {
            let plain = rest.strip_prefix('.').filter(|plain| !plain.is_empty())?;
            let end = plain.find(['.', '[', ']']).unwrap_or(plain.len()).max(1);
            (plain.get(..end)?.to_owned(), plain.get(end..)?)
        };
        match part["properties"].as_object().filter(|properties| !properties.is_empty()) {
            Some(properties) => {
                part = properties.get(&name)?;
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(&name);
            }
            None => {
                // As in Kubernetes, any values have a path of one name.
                part = part.get("additionalProperties").filter(|part| !part.is_null())?;
                path.push_str(&format!("[{name}]"));
            }
        }
        rest = after;
    }
    Some(path)
}

/// Returns the name at the begin of a text, which is in single quotes and may have escapes, and the text behind it.
fn quoted_name(text: &str) -> Option<(String, &str)> {
    let mut characters = text.strip_prefix('\'')?.chars();
    let mut name = String::new();
    loop {
        match characters.next()? {
            '\'' => return Some((name, characters.as_str())),
            '\\' => name.push(escaped_character(&mut characters)?),
            other => name.push(other),
        }
    }
}

fn escaped_character(characters: &mut Chars<'_>) -> Option<char> {
    Some(match characters.next()? {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        known @ ('\'' | '\\') => known,
        _ => return None,
    })
}
