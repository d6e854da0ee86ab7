//! An accepted definition meets the host's requirements, and its schemas keep their properties.

use std::collections::BTreeSet;

use homeostat_store::Kind;
use homeostat_store::definition::{ColumnType, Definition, Version};
use serde_json::{Value, json};

use crate::target::{Acceptance, Outcome, must, same};
use crate::targets::schema;
use crate::test_store;

pub(crate) fn judge(input: &[u8]) -> Outcome {
    let Ok(document) = serde_json::from_slice::<Value>(input) else { return Ok(Acceptance::Rejected) };
    let Ok(definition) = Definition::parse(&document) else { return Ok(Acceptance::Rejected) };
    same("a definition reads the same twice", &Definition::parse(&document).as_ref(), &Ok(&definition))?;
    same("one version is stored", &definition.versions.iter().filter(|version| version.storage).count(), &1)?;
    must("the stored version is the one that is", definition.stored().storage)?;
    let names: BTreeSet<_> = definition.versions.iter().map(|version| &version.name).collect();
    same("each version has its name", &names.len(), &definition.versions.len())?;
    for version in &definition.versions {
        let kind = definition.kind(version);
        same("a kind can be written in documents", &Kind::parse(&kind.api_version(), &kind.name).as_ref(), &Ok(&kind))?;
        must("a version is found by its name", definition.version(&version.name) == Some(version))?;
        paths(version, &document)?;
        if let Some(schema) = &version.schema {
            schema::fits(
                schema,
                test_store::widget("a", json!({"size": -1, "color": "red", "parts": [{"name": "a"}, null]})),
            )?;
        }
    }
    Ok(Acceptance::Accepted)
}

/// Evaluates every path, on the definition itself.
fn paths(version: &Version, document: &Value) -> Result<(), String> {
    for column in &version.columns {
        must("a path finds a thousand values at most", column.path.evaluate(document).len() <= 1000)?;
        must("a type has a name", !ColumnType::name(column.column_type).is_empty())?;
    }
    let plain = version.selectable_fields.iter().all(|path| path.pointer().is_some());
    must("a field to select by has a pointer", plain)?;
    let Some(scale) = &version.scale else { return Ok(()) };
    let paths = [Some(&scale.spec_replicas), Some(&scale.status_replicas), scale.label_selector.as_ref()];
    must("a field of a scale has a pointer", paths.into_iter().flatten().all(|path| path.pointer().is_some()))
}
