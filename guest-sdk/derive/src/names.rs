//! The rules for names of kinds. Source: Kubernetes.

const LABEL_BYTES_MAX: usize = 63;
const GROUP_BYTES_MAX: usize = 253;

/// Returns whether a text is a DNS label, as plurals and versions are.
pub(crate) fn is_label(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.len() <= LABEL_BYTES_MAX
        && text.bytes().next().is_some_and(|first| first.is_ascii_lowercase())
        && text.bytes().all(is_inner)
        && !text.ends_with('-')
}

/// Returns whether a text is an API group. The core group is empty.
pub(crate) fn is_group(text: &str) -> bool {
    let is_part = |part: &str| {
        let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !part.is_empty() && part.bytes().all(is_inner) && !part.starts_with('-') && !part.ends_with('-')
    };
    text.is_empty() || text.len() <= GROUP_BYTES_MAX && text.split('.').all(is_part)
}

/// Returns whether a text is the name of a kind.
pub(crate) fn is_kind(text: &str) -> bool {
    text.len() <= LABEL_BYTES_MAX
        && text.bytes().next().is_some_and(|first| first.is_ascii_uppercase())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Returns the English plural of a word in lower case, for regular words.
pub(crate) fn plural(singular: &str) -> String {
    let ends = |endings: &[&str]| endings.iter().any(|ending| singular.ends_with(ending));
    match singular.strip_suffix('y') {
        Some(stem) if !ends(&["ay", "ey", "iy", "oy", "uy"]) => format!("{stem}ies"),
        _ if ends(&["s", "x", "z", "ch", "sh"]) => format!("{singular}es"),
        _ => format!("{singular}s"),
    }
}

#[cfg(test)]
mod tests;
