//! A manifest reads back as it was written, in JSON and in YAML, and a validated one is within its limits.

use homeostat_runtime::manifest::Manifest;

use crate::target::{Acceptance, Outcome, must, same};

pub(crate) fn judge(input: &[u8]) -> Outcome {
    let Ok(text) = std::str::from_utf8(input) else { return Ok(Acceptance::Rejected) };
    let Ok(manifest) = serde_saphyr::from_str::<Manifest>(text) else { return Ok(Acceptance::Rejected) };
    let json = serde_json::to_string(&manifest).map_err(|error| error.to_string())?;
    same("a manifest reads as it was written", &serde_json::from_str(&json).ok().as_ref(), &Some(&manifest))?;
    same("JSON is YAML", &serde_saphyr::from_str(&json).ok().as_ref(), &Some(&manifest))?;
    let (checked, again) = (manifest.spec.check(), manifest.spec.check());
    match (checked, again) {
        (Ok(checked), Ok(again)) => {
            same("a check says the same twice", &checked.limits, &again.limits)?;
            same("limits that are taken are good", &checked.limits.problems(), &Vec::new())?;
            same("grants are taken as they are", &checked.grants, &manifest.spec.grants)?;
            Ok(Acceptance::Accepted)
        }
        (Err(problems), Err(again)) => {
            must("a refusal has a reason", !problems.is_empty())?;
            same("a check says the same twice", &problems.len(), &again.len())?;
            Ok(Acceptance::Rejected)
        }
        _ => Err("a check says the same twice".to_owned()),
    }
}
