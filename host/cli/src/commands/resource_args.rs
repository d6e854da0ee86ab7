//! Parses the arguments that name resources. Pure.

use crate::exit;

/// The API group of controllers.
const GROUP: &str = "homeostat.dev";

/// A kind as the user wrote it, and names of its resources. Without names it means all of them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ResourceArg {
    pub(crate) kind: String,
    pub(crate) names: Vec<String>,
}

/// Parses `KIND`, `KIND,KIND`, `KIND NAME…` or `KIND/NAME…`.
///
/// # Errors
/// A usage error that lists the valid forms.
pub(crate) fn parse(words: &[String]) -> anyhow::Result<Vec<ResourceArg>> {
    let Some((first, names)) = words.split_first() else {
        return Err(exit::usage("name the resources: KIND, KIND NAME or KIND/NAME"));
    };
    if words.iter().any(|word| word.contains('/')) {
        return words.iter().map(|word| parse_slashed(word)).collect();
    }
    let kinds: Vec<&str> = first.split(',').filter(|kind| !kind.is_empty()).collect();
    match (&kinds[..], names) {
        ([], _) => Err(exit::usage("the kind is empty: write KIND, KIND NAME or KIND/NAME")),
        ([_, _, ..], [_, ..]) => Err(exit::usage("names of several kinds are written as KIND/NAME KIND/NAME")),
        (kinds, names) => {
            Ok(kinds.iter().map(|kind| ResourceArg { kind: (*kind).to_owned(), names: names.to_vec() }).collect())
        }
    }
}

fn parse_slashed(word: &str) -> anyhow::Result<ResourceArg> {
    match word.split_once('/') {
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(ResourceArg { kind: kind.to_owned(), names: vec![name.to_owned()] })
        }
        _ => Err(exit::usage(format!("`{word}` is not KIND/NAME like the other arguments"))),
    }
}

/// Parses arguments that name exactly one resource.
///
/// # Errors
/// A usage error when they name none, or several.
pub(crate) fn parse_one(words: &[String]) -> anyhow::Result<(String, String)> {
    match &parse(words)?[..] {
        [ResourceArg { kind, names }] if names.len() == 1 => Ok((kind.clone(), names[0].clone())),
        _ => Err(exit::usage("name one resource: KIND NAME or KIND/NAME")),
    }
}

/// Parses the name of a controller, with or without its kind, so that the output of one command fits the
/// next.
///
/// # Errors
/// When the kind is another one or the name is empty: the message says what to write instead.
pub(crate) fn controller(word: &str) -> Result<String, String> {
    let (kind, name) = word.split_once('/').unwrap_or(("controller", word));
    let (kind, group) = kind.split_once('.').unwrap_or((kind, GROUP));
    let is_controller = ["controller", "controllers"].contains(&kind.to_lowercase().as_str()) && group == GROUP;
    if !is_controller {
        return Err("only controllers are allowed here: write NAME or controller/NAME".to_owned());
    }
    if name.is_empty() || name.contains('/') {
        return Err("write NAME or controller/NAME".to_owned());
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests;
