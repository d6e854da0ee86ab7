//! The kinds that this host knows: what they are called, and who said so.
//!
//! A kind is declared by a `CustomResourceDefinition`, by what a component answers to `describe`, or is built in.

use std::collections::BTreeMap;

use homeostat_component::KindDeclaration;
use homeostat_store::schema::{Schema, Schemas};
use homeostat_store::{Kind, Revision};
use parking_lot::{Mutex, RwLock};
use serde_json::Value;

use crate::{Error, keeper, manifest};

mod info;

pub use info::{KindInfo, ScalePaths};

/// The registry.
#[derive(Default)]
pub struct Kinds {
    /// By group and name, in the version that is stored.
    by_type: RwLock<BTreeMap<(String, String), KindInfo>>,
    /// The newest word of each definition that was heard, by what it is called as a source. Touched only while `by_type` is locked for writing.
    heard: Mutex<BTreeMap<String, Revision>>,
    /// What was declared by something else than a definition: what stays when the definition goes.
    without_definition: RwLock<BTreeMap<(String, String), KindInfo>>,
    /// Where the store looks up what documents must be like.
    schemas: Schemas,
}

impl Kinds {
    /// Returns a registry that knows what is built in: `Controller`, `ControllerRevision`, `CustomResourceDefinition`, `Event` and
    /// `Namespace`.
    ///
    /// What is declared with a schema is told to `schemas`, which are those of the store.
    pub fn with_built_in(schemas: Schemas) -> Self {
        let mut kinds = Self { schemas, ..Self::default() };
        let built_in = [
            (keeper::controllers(), "controllers", false, Some(manifest::schema())),
            (keeper::revisions(), "controllerrevisions", false, Some(manifest::revision_schema())),
            (
                Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
                "customresourcedefinitions",
                false,
                None,
            ),
            (Kind::new("", "v1", "Event"), "events", true, None),
            (Kind::new("", "v1", "Namespace"), "namespaces", false, None),
        ];
        for (kind, plural, namespaced, schema) in built_in {
            // Schemas of what is built in explain, and the store is not told of them: who writes is checked more closely elsewhere.
            let (id, plural) = ((kind.group.clone(), kind.name.clone()), plural.into());
            let declaration = KindDeclaration { kind, plural, namespaced, keys_only: false, schema };
            kinds.by_type.get_mut().insert(id, KindInfo::declared(&declaration, "homeostat"));
        }
        kinds
    }

    /// Adds a kind. Declaring one again in the same way changes nothing, but a definition brings its schema and names. What a definition has
    /// said before its newest word is not heard any more.
    ///
    /// # Errors
    /// [`Error::KindDiffers`] when it is known, with another version, plural or scope; [`Error::BadDocument`] when its schema is not
    /// structural.
    pub fn declare(&self, info: KindInfo) -> Result<(), Error> {
        let structures = info.structures()?;
        let mut by_type = self.by_type.write();
        let id = (info.kind.group.clone(), info.kind.name.clone());
        if !self.is_news(&info) {
            return Ok(());
        }
        if let Some(known) = by_type.get(&id) {
            self.agree(known, &info)?;
        }
        self.hear(&info);
        if !info.is_of_definition() {
            self.without_definition.write().insert(id.clone(), info.clone());
            let is_known_better = |known: &KindInfo| known.is_of_definition() || info.schema.is_none();
            if by_type.get(&id).is_some_and(is_known_better) {
                return Ok(());
            }
        }
        self.tell(&info, structures);
        by_type.insert(id, info);
        drop(by_type);
        Ok(())
    }

    /// Tells the store of a kind, so that what is written from now on is stored in its version.
    ///
    /// # Errors
    /// As [`Kinds::declare`].
    pub(crate) fn prepare(&self, info: &KindInfo) -> Result<(), Error> {
        self.check(info)?;
        let structures = info.structures()?;
        let by_type = self.by_type.write();
        if self.is_news(info) {
            self.hear(info);
            self.tell(info, structures);
        }
        drop(by_type);
        Ok(())
    }

    /// Returns whether nothing newer was heard of the definition that says this.
    fn is_news(&self, info: &KindInfo) -> bool {
        self.heard.lock().get(&info.source).is_none_or(|heard| *heard <= info.written)
    }

    fn hear(&self, info: &KindInfo) {
        if info.is_of_definition() {
            self.heard.lock().insert(info.source.clone(), info.written);
        }
    }

    /// Lets a kind end, as when its definition is being deleted.
    pub(crate) fn end(&self, definition: &KindInfo) {
        let id = (definition.kind.group.clone(), definition.kind.name.clone());
        let mut by_type = self.by_type.write();
        if let Some(known) = by_type.get_mut(&id).filter(|known| known.source == definition.source) {
            known.ending = true;
        }
    }

    fn tell(&self, info: &KindInfo, structures: Vec<(String, Option<Schema>)>) {
        if info.is_of_definition() || info.schema.is_some() {
            self.schemas.set(&info.kind, structures);
        } else {
            self.schemas.forget(&info.kind);
        }
    }

    /// Returns whether a kind is gone when this definition goes: nothing else has declared it.
    pub(crate) fn goes_with(&self, definition: &KindInfo) -> bool {
        let id = (definition.kind.group.clone(), definition.kind.name.clone());
        let is_its = self.by_type.read().get(&id).is_some_and(|known| known.source == definition.source);
        is_its && !self.without_definition.read().contains_key(&id)
    }

    /// Returns whether a kind is about to go with its definition, so that nothing new of it is of use.
    pub fn is_ending(&self, kind: &Kind) -> bool {
        let id = (kind.group.clone(), kind.name.clone());
        let is_ending = self.by_type.read().get(&id).is_some_and(|info| info.ending);
        is_ending && !self.without_definition.read().contains_key(&id)
    }

    /// Takes back what a definition has declared, up to this word of it. A kind that something else has declared too stays, as that declared it.
    pub(crate) fn take_back(&self, definition: &KindInfo) {
        let mut by_type = self.by_type.write();
        let id = (definition.kind.group.clone(), definition.kind.name.clone());
        if !self.is_news(definition) {
            return;
        }
        self.heard.lock().remove(&definition.source);
        if by_type.get(&id).is_none_or(|known| known.source != definition.source) {
            return;
        }
        by_type.remove(&id);
        let other = self.without_definition.read().get(&id).cloned();
        match other.as_ref().and_then(|other| Some((other, other.structures().ok()?))) {
            Some((other, structures)) => self.tell(other, structures),
            None => self.schemas.forget(&definition.kind),
        }
        by_type.extend(other.map(|other| (id, other)));
    }

    /// Returns whether a kind could be declared.
    ///
    /// # Errors
    /// As [`Kinds::declare`].
    pub fn check(&self, info: &KindInfo) -> Result<(), Error> {
        info.structures()?;
        self.of(&info.kind).map_or(Ok(()), |known| self.agree(&known, info))
    }

    /// Checks that two declarations agree. A definition may change the version that is stored, unless a component names the old one.
    fn agree(&self, known: &KindInfo, info: &KindInfo) -> Result<(), Error> {
        if !info.is_of_definition() || known.source != info.source {
            return known.agrees_with(info);
        }
        let without_definition = self.without_definition.read();
        match without_definition.get(&(info.kind.group.clone(), info.kind.name.clone())) {
            Some(component) => component.agrees_with(info),
            None => KindInfo { kind: info.kind.clone(), ..known.clone() }.agrees_with(info),
        }
    }

    /// Returns every kind in every version that is served, by group and name; of each kind the version first that is stored.
    pub fn list(&self) -> Vec<KindInfo> {
        self.by_type.read().values().flat_map(KindInfo::served).collect()
    }

    /// Returns the kind of this group and name, in the version that is stored, whatever version is asked for.
    pub fn of(&self, kind: &Kind) -> Option<KindInfo> {
        let by_type = self.by_type.read();
        by_type.get(&(kind.group.clone(), kind.name.clone())).cloned()
    }

    /// Returns this very kind, if it is served in this version.
    pub fn served(&self, kind: &Kind) -> Option<KindInfo> {
        let info = self.of(kind)?;
        info.served().find(|info| info.kind == *kind)
    }

    /// Returns this very kind, if it is stored in this version: by it controllers name the kind.
    pub fn stored(&self, kind: &Kind) -> Option<KindInfo> {
        self.of(kind).filter(|info| info.kind == *kind)
    }

    /// Returns whether this very kind is stored in this version.
    pub fn stores(&self, kind: &Kind) -> bool {
        let by_type = self.by_type.read();
        by_type.get(&(kind.group.clone(), kind.name.clone())).is_some_and(|info| info.kind.version == kind.version)
    }

    /// Returns the kind that a person means: plural, singular, short name or name, with or without `.group`.
    pub fn find(&self, name: &str) -> Option<KindInfo> {
        self.by_type.read().values().find(|info| info.is_called(name)).cloned()
    }

    /// Returns the kind under an address.
    pub fn by_plural(&self, group: &str, version: &str, plural: &str) -> Option<KindInfo> {
        let meant = |info: &&KindInfo| info.kind.group == group && info.plural == plural && info.is_served_in(version);
        let by_type = self.by_type.read();
        by_type.values().find(meant)?.served().find(|info| info.kind.version == version)
    }

    /// Returns names of kinds that look like `name`, at most three.
    pub fn similar(&self, name: &str) -> Vec<String> {
        let wanted = name.to_lowercase();
        let by_type = self.by_type.read();
        let mut names: Vec<(usize, String)> = by_type
            .values()
            .map(|info| {
                let distance = [&info.singular, &info.plural].into_iter().map(|known| distance(&wanted, known)).min();
                (distance.unwrap_or(usize::MAX), info.kind.to_string())
            })
            .filter(|(distance, _)| *distance <= 2.max(wanted.len() / 3))
            .collect();
        names.sort();
        names.into_iter().take(3).map(|(_, name)| name).collect()
    }
}

/// Reads the kind that a document names.
pub(crate) fn kind_of(document: &Value) -> Result<Kind, Error> {
    let text = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default();
    Kind::parse(text("apiVersion"), text("kind")).map_err(|error| Error::BadDocument(error.to_string()))
}

/// Gives a namespaced document a namespace when it names none, and refuses one that must not have any.
pub(crate) fn place(document: &mut Value, info: &KindInfo) -> Result<(), Error> {
    let metadata = document.get_mut("metadata").and_then(Value::as_object_mut);
    let metadata = metadata.ok_or_else(|| Error::BadDocument("metadata: must be there, with a name".into()))?;
    if info.keys_only {
        let reason = format!("nothing of kind {} is stored: its keys come from a feeder", info.kind);
        return Err(Error::BadDocument(reason));
    }
    if info.namespaced {
        metadata.entry("namespace").or_insert_with(|| "default".into());
    } else if metadata.get("namespace").is_some_and(|namespace| namespace != "") {
        let reason = format!("metadata.namespace: a {} lives outside of namespaces", info.kind.name);
        return Err(Error::BadDocument(reason));
    }
    Ok(())
}

/// The number of letters to change, add or drop to get from one word to the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for column in 0..to.len() {
            let changed = diagonal + usize::from(letter != to[column]);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests;
