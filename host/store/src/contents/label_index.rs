//! An index by label, for the label names that lists ask for.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::model::Path;
use crate::{LabelRequirement, Resource};

/// Label names with an index. The one that was used least recently is dropped for another one.
pub(crate) const NAMES_MAX: usize = 8;

/// The resources by the values of some labels. The index of a name is built by the first list that asks for
/// it.
#[derive(Debug, Default)]
pub(crate) struct LabelIndex(Mutex<Vec<NameIndex>>);

/// The resources that have one label, by its value.
#[derive(Debug)]
struct NameIndex {
    name: String,
    paths: BTreeMap<String, BTreeSet<Path>>,
}

impl LabelIndex {
    /// Returns the paths of all resources that can satisfy the requirements, in order; `None` when no
    /// requirement names a value.
    pub(crate) fn candidates(
        &self,
        requirements: &[LabelRequirement],
        resources: &BTreeMap<Path, Arc<Resource>>,
    ) -> Option<BTreeSet<Path>> {
        let (name, values) = requirements.iter().find_map(named_values)?;
        let mut indexes = self.lock();
        let index = match indexes.iter().position(|index| index.name == *name) {
            Some(place) => indexes.remove(place),
            None => NameIndex::of(name, resources),
        };
        let found = values.iter().filter_map(|value| index.paths.get(value)).flatten().cloned().collect();
        indexes.insert(0, index);
        indexes.truncate(NAMES_MAX);
        Some(found)
    }

    /// Follows a change of one resource.
    pub(crate) fn change(&self, path: &Path, before: Option<&Resource>, after: Option<&Resource>) {
        let mut indexes = self.lock();
        if indexes.is_empty() {
            return;
        }
        // Copies, so that the stored resources keep no parsed document.
        let (before, after) = (before.map(Resource::without_document), after.map(Resource::without_document));
        for NameIndex { name, paths } in &mut *indexes {
            let value = |resource: &Option<Arc<Resource>>| Some(resource.as_ref()?.label(name)?.to_owned());
            if let Some(value) = value(&before)
                && let Some(of_value) = paths.get_mut(&value)
            {
                of_value.remove(path);
                if of_value.is_empty() {
                    paths.remove(&value);
                }
            }
            if let Some(value) = value(&after) {
                paths.entry(value).or_default().insert(path.clone());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<NameIndex>> {
        self.0.lock().expect("no thread panics while holding the index")
    }
}

impl NameIndex {
    fn of(name: &str, resources: &BTreeMap<Path, Arc<Resource>>) -> Self {
        let mut paths: BTreeMap<String, BTreeSet<Path>> = BTreeMap::new();
        for (path, resource) in resources {
            if let Some(value) = resource.without_document().label(name) {
                paths.entry(value.to_owned()).or_default().insert(path.clone());
            }
        }
        Self { name: name.to_owned(), paths }
    }
}

/// Returns the name of a label and the values that a requirement accepts, if it names them.
fn named_values(requirement: &LabelRequirement) -> Option<(&str, &[String])> {
    match requirement {
        LabelRequirement::Equals(name, value) => Some((name, std::slice::from_ref(value))),
        LabelRequirement::OneOf(name, values) => Some((name, values)),
        LabelRequirement::NotEquals(..)
        | LabelRequirement::NoneOf(..)
        | LabelRequirement::Exists(_)
        | LabelRequirement::Absent(_) => None,
    }
}
