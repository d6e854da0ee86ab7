//! The realistic inputs that all others are derived from: the files of `corpus/TARGET/`, in the order of
//! their names.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::target::Target;
use crate::targets::{compiled, component, file};

/// Maximum bytes of all inputs that a run adds.
const ADDED_BYTES_MAX: usize = 256 << 20;

/// Inputs, and the words in them.
#[derive(Debug)]
pub(crate) struct Corpus {
    /// At least one. First the given ones, then those that the run added.
    pub(crate) inputs: Vec<Vec<u8>>,
    /// The number of the given ones.
    pub(crate) given: usize,
    /// Field names and strings in the JSON inputs.
    pub(crate) words: Vec<String>,
}

impl Corpus {
    /// Reads the corpus of a target. Large binary inputs are generated instead.
    pub(crate) fn of(target: Target) -> Result<Self> {
        let inputs = match target {
            Target::File | Target::Fsck => file::inputs()?,
            Target::Component => component::inputs(files(&folder(target))?)?,
            Target::Compiled => compiled::inputs()?,
            _ => files(&folder(target))?,
        };
        let mut words = BTreeSet::new();
        for input in &inputs {
            if let Ok(value) = serde_json::from_slice(input) {
                collect(&value, &mut words);
            }
        }
        Ok(Self { given: inputs.len(), inputs, words: words.into_iter().collect() })
    }

    /// Adds an input that reached new code, unless it is there already or the bound is reached.
    pub(crate) fn add(&mut self, input: Vec<u8>) {
        let added: usize = self.inputs[self.given..].iter().map(Vec::len).sum();
        if added + input.len() <= ADDED_BYTES_MAX && !self.inputs.contains(&input) {
            self.inputs.push(input);
        }
    }
}

fn folder(target: Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name())
}

fn files(folder: &Path) -> Result<Vec<Vec<u8>>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    ensure!(!paths.is_empty(), "{} is empty", folder.display());
    paths.sort();
    paths.iter().map(|path| fs::read(path).with_context(|| format!("cannot read {}", path.display()))).collect()
}

fn collect(value: &Value, words: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => drop(words.insert(text.clone())),
        Value::Array(items) => items.iter().for_each(|item| collect(item, words)),
        Value::Object(fields) => {
            words.extend(fields.keys().cloned());
            fields.values().for_each(|field| collect(field, words));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
