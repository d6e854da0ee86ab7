//! The keys of a message: templates with JSON pointers into its body. Pure.
//!
//! A template is text with places: `{/repository/owner/login}-{/repository/name}`. A place is a JSON pointer (RFC 6901),
//! which names a string or an integer of the body, or a word of the source, as `{subject.2}`. Deliberately absent:
//! expressions, defaults and conditions. A message without a wanted value is refused, because a key made of a guess
//! would reconcile the wrong resource.

use std::fmt;

use serde_json::Value;

use crate::feeder_definition::{LISTED_KEYS_MAX, ListedKey};

/// Maximum bytes of a template, and of a pointer.
pub const TEMPLATE_BYTES_MAX: usize = 1024;
/// Maximum bytes of a name or namespace that a template makes. The same bound as for resources.
const NAME_BYTES_MAX: usize = 253;
/// Maximum number of keys of one message.
pub const MESSAGE_KEYS_MAX: usize = LISTED_KEYS_MAX;

/// How the keys of a message are made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MessageKeys {
    /// The place of a list: each of its items makes one key. `None`: the body makes one key.
    pub each: Option<Pointer>,
    /// The namespace; `None` for a cluster-scoped kind.
    pub namespace: Option<Template>,
    /// The name of the resource.
    pub name: Template,
}

/// A JSON pointer, checked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pointer(String);

/// Text with places, checked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Template(Vec<Part>);

#[derive(Clone, Debug, Eq, PartialEq)]
enum Part {
    Text(String),
    /// A value of the body.
    Place(Pointer),
    /// A value of the source.
    Word(String),
}

/// Why a message makes no key.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum MessageError {
    /// The body is not JSON.
    #[error("the body is not JSON: {0}")]
    NotJson(String),
    /// The body has no string or integer at the place.
    #[error("the body has no string or integer at {0}")]
    NoValue(Pointer),
    /// The source has no such value.
    #[error("the message has no {0:?}")]
    NoWord(String),
    /// The body has no list at the place.
    #[error("the body has no list at {0}")]
    NoList(Pointer),
    /// The list has more items than one message may have keys.
    #[error("the list at {pointer} has {items} items, and {MESSAGE_KEYS_MAX} are allowed")]
    ManyKeys {
        /// The place of the list.
        pointer: Pointer,
        /// Its number of items.
        items: usize,
    },
    /// The result of a template is longer than a name may be.
    #[error("a name of more than {NAME_BYTES_MAX} bytes")]
    LongName,
}

impl MessageKeys {
    /// Returns the keys of a message, in the order of the list. The namespace is empty without a template for it.
    /// `word` returns the values of the source. The body is read only if a template has a pointer.
    ///
    /// # Errors
    /// [`MessageError`], for the first key that cannot be made: a message makes all of its keys or none.
    pub fn of_message(
        &self,
        body: &[u8],
        word: impl Fn(&str) -> Option<String>,
    ) -> Result<Vec<ListedKey>, MessageError> {
        let body = match self.reads_body() {
            true => serde_json::from_slice(body).map_err(|error| MessageError::NotJson(error.to_string()))?,
            false => Value::Null,
        };
        let one = |item: &Value| {
            let namespace =
                self.namespace.as_ref().map_or(Ok(String::new()), |namespace| namespace.fill(item, &word))?;
            Ok(ListedKey { namespace, name: self.name.fill(item, &word)? })
        };
        let Some(pointer) = &self.each else { return Ok(vec![one(&body)?]) };
        let list = body.pointer(&pointer.0).and_then(Value::as_array);
        let list = list.ok_or_else(|| MessageError::NoList(pointer.clone()))?;
        if list.len() > MESSAGE_KEYS_MAX {
            return Err(MessageError::ManyKeys { pointer: pointer.clone(), items: list.len() });
        }
        list.iter().map(one).collect()
    }

    fn reads_body(&self) -> bool {
        let templates = [Some(&self.name), self.namespace.as_ref()];
        self.each.is_some() || templates.into_iter().flatten().any(Template::has_place)
    }
}

impl Template {
    /// Parses a template. `is_word` tells the words of the source.
    ///
    /// # Errors
    /// The reason, for a person: a brace without its partner, an unknown place, or too many bytes.
    pub fn parse(text: &str, is_word: impl Fn(&str) -> bool) -> Result<Self, String> {
        if text.is_empty() || text.len() > TEMPLATE_BYTES_MAX {
            return Err(format!("must have 1 to {TEMPLATE_BYTES_MAX} bytes"));
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (place, behind) = after.split_once('}').ok_or("has a `{` without a `}`")?;
            parts.extend(plain(before)?);
            parts.push(match place {
                word if is_word(word) => Part::Word(word.to_owned()),
                pointer => Part::Place(Pointer::parse(pointer)?),
            });
            rest = behind;
        }
        parts.extend(plain(rest)?);
        Ok(Self(parts))
    }

    fn has_place(&self) -> bool {
        self.0.iter().any(|part| matches!(part, Part::Place(_)))
    }

    /// Returns the text with the values of a message.
    fn fill(&self, body: &Value, word: impl Fn(&str) -> Option<String>) -> Result<String, MessageError> {
        let mut filled = String::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => filled.push_str(text),
                Part::Word(name) => {
                    let value = word(name).filter(|value| !value.is_empty());
                    filled.push_str(&value.ok_or_else(|| MessageError::NoWord(name.clone()))?);
                }
                Part::Place(pointer) => match body.pointer(&pointer.0) {
                    Some(Value::String(text)) if !text.is_empty() => filled.push_str(text),
                    Some(Value::Number(number)) if number.is_i64() || number.is_u64() => {
                        filled.push_str(&number.to_string());
                    }
                    _ => return Err(MessageError::NoValue(pointer.clone())),
                },
            }
            if filled.len() > NAME_BYTES_MAX {
                return Err(MessageError::LongName);
            }
        }
        Ok(filled)
    }
}

fn plain(text: &str) -> Result<Option<Part>, String> {
    if text.contains('}') {
        return Err("has a `}` without a `{`".to_owned());
    }
    Ok((!text.is_empty()).then(|| Part::Text(text.to_owned())))
}

/// Returns the value of a word of a template: the subject, or one of its tokens, which count from 1.
pub(crate) fn subject_word(subject: &str, word: &str) -> Option<String> {
    match word.strip_prefix("subject")? {
        "" => Some(subject.to_owned()),
        token => {
            let at: usize = token.strip_prefix('.')?.parse().ok()?;
            subject.split('.').nth(at.checked_sub(1)?).map(str::to_owned)
        }
    }
}

/// Returns whether a word of a template is one of those of a subject.
pub(crate) fn is_subject_word(word: &str) -> bool {
    /// Maximum number of tokens that a template can name.
    const TOKENS_MAX: usize = 32;
    let token = word.strip_prefix("subject.").and_then(|token| token.parse::<usize>().ok());
    word == "subject" || token.is_some_and(|token| (1..=TOKENS_MAX).contains(&token))
}

impl Pointer {
    /// Parses a JSON pointer. The empty pointer names the whole message.
    ///
    /// # Errors
    /// The reason, for a person.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > TEMPLATE_BYTES_MAX {
            return Err(format!("must have at most {TEMPLATE_BYTES_MAX} bytes"));
        }
        if !text.is_empty() && !text.starts_with('/') {
            return Err(format!("{text:?} is not a JSON pointer: it starts with `/`"));
        }
        // Source: RFC 6901, section 3.
        if text.split('~').skip(1).any(|escaped| !escaped.starts_with(['0', '1'])) {
            return Err(format!("{text:?} is not a JSON pointer: after `~` comes 0 or 1"));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests;
