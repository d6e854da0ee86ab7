//! A path prints as it was written, finds at most a thousand values, and agrees with its pointer.

use homeostat_store::jsonpath::JsonPath;

use crate::target::{Acceptance, Outcome, must, pair, same};

/// Source: the documentation of [`JsonPath::evaluate`].
const FOUND_MAX: usize = 1000;

pub(crate) fn judge(input: &[u8]) -> Outcome {
    let Some((path, document)) = pair(input, "path", "document") else { return Ok(Acceptance::Rejected) };
    let Ok(path) = JsonPath::parse(path.as_str().unwrap_or("")) else { return Ok(Acceptance::Rejected) };
    same("a path reads as it was written", &JsonPath::parse(&path.to_string()).as_ref(), &Ok(&path))?;
    same("a path of nothing but names has a pointer", &path.pointer().is_some(), &path.is_plain())?;
    let found = path.evaluate(&document);
    must("a path finds a thousand values at most", found.len() <= FOUND_MAX)?;
    if let (Some(pointer), [_, ..]) = (path.pointer(), &found[..]) {
        same("a pointer leads where its path leads", &document.pointer(&pointer), &found.first().copied())?;
    }
    Ok(Acceptance::Accepted)
}
