//! The kinds that this host knows: what they are called, and who said so.
//!
//! A kind is declared by a `CustomResourceDefinition`, by what a component answers to `describe`, or is built in.

use std::collections::{BTreeMap, BTreeSet};

use homeostat_component::KindDeclaration;
use homeostat_store::schema::{Schema, Schemas};
use homeostat_store::{Kind, Revision};
use parking_lot::{Mutex, RwLock};
use serde_json::Value;

use crate::{Error, declarations, keeper, manifest};

mod info;

pub use info::{KindInfo, ScalePaths};

/// A kind in whatever version: its group and its name.
pub(crate) type KindId = (String, String);

/// Returns what a kind is in whatever version.
pub(crate) fn id_of(kind: &Kind) -> KindId {
    (kind.group.clone(), kind.name.clone())
}

/// The registry.
#[derive(Default)]
pub struct Kinds {
    /// By group and name, in the version that is stored.
    by_type: RwLock<BTreeMap<KindId, KindInfo>>,
    /// The newest word of each definition that was heard, by what it is called as a source. Touched only while `by_type` is locked for writing.
    heard: Mutex<BTreeMap<String, Revision>>,
    /// What was declared by something else than a definition: what stays when the definition goes.
    without_definition: RwLock<BTreeMap<KindId, ComponentDeclaration>>,
    /// What is known whoever declares it.
    built_in: BTreeSet<KindId>,
    /// Where the store looks up what documents must be like.
    schemas: Schemas,
}

/// What components say of a kind.
struct ComponentDeclaration {
    info: KindInfo,
    /// Who of this host declares it, as sources are called.
    claimants: BTreeSet<String>,
    /// What is known of others that may.
    claim: Claim,
}

/// Whether a kind that components declared is one that a component still declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    /// One does, or may: not every controller was loaded since.
    Held,
    /// None does.
    Given,
    /// None does, and no resource of it was there: it goes, unless one is there when somebody looks again.
    Ending,
}

/// What becomes of a kind that components declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Review {
    /// It is needed.
    Stays,
    /// It goes when nothing has changed the next time.
    Ending,
    /// It is no longer declared by components.
    Goes,
}

impl ComponentDeclaration {
    /// Returns whether no component is known to need the kind as it is.
    fn is_unclaimed(&self) -> bool {
        self.claimants.is_empty() && self.claim != Claim::Held
    }

    /// Returns whether another declaration can take its place: not one under which resources would have other keys. A definition that is
    /// changed need not wait until every controller is loaded.
    fn gives_way_to(&self, info: &KindInfo, known: &KindInfo) -> bool {
        let is_free = match (known.is_of_definition(), known.source == info.source) {
            (true, true) => self.claimants.is_empty(),
            (true, false) => false,
            (false, _) => self.is_unclaimed(),
        };
        is_free && self.info.namespaced == info.namespaced && self.info.keys_only == info.keys_only
    }
}

impl Kinds {
    /// Returns a registry that knows what is built in: `Controller`, `ControllerRevision`, `CustomResourceDefinition`, `Event`,
    /// `KindDeclaration` and `Namespace`.
    ///
    /// What is declared with a schema is told to `schemas`, which are those of the store.
    pub fn with_built_in(schemas: Schemas) -> Self {
        let mut kinds = Self { schemas, ..Self::default() };
        let built_in = [
            (keeper::controllers(), "controllers", false, Some(manifest::schema())),
            (keeper::revisions(), "controllerrevisions", false, Some(manifest::revision_schema())),
            (declarations::kind(), "kinddeclarations", false, None),
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
            let (id, plural) = (id_of(&kind), plural.into());
            let declaration = KindDeclaration { kind, plural, namespaced, keys_only: false, schema };
            kinds.built_in.insert(id.clone());
            kinds.by_type.get_mut().insert(id, KindInfo::declared(&declaration, "homeostat"));
        }
        kinds
    }

    /// Adds a kind. Declaring one again in the same way changes nothing, but a definition brings its schema and names. What a definition has
    /// said before its newest word is not heard any more.
    ///
    /// # Errors
    /// [`Error::KindDiffers`] when it is known, with another version, plural or scope; [`Error::ReservedKind`] when a definition declares what is
    /// built in; [`Error::BadDocument`] when its schema is not structural.
    pub fn declare(&self, info: KindInfo) -> Result<(), Error> {
        let claim = (!info.is_of_definition()).then(|| (info.source.clone(), id_of(&info.kind)));
        self.remember(info)?;
        if let Some((source, id)) = claim {
            self.claim(source, &id);
        }
        Ok(())
    }

    /// As [`Kinds::declare`], for what somebody has declared who may not be here any more.
    ///
    /// # Errors
    /// As [`Kinds::declare`].
    pub(crate) fn remember(&self, info: KindInfo) -> Result<(), Error> {
        let structures = info.structures()?;
        let mut by_type = self.by_type.write();
        let id = id_of(&info.kind);
        if !self.is_news(&info) {
            return Ok(());
        }
        if let Some(known) = by_type.get(&id) {
            self.agree(known, &info)?;
        }
        self.hear(&info);
        let mut without_definition = self.without_definition.write();
        // What gives way is forgotten.
        if without_definition.get(&id).is_some_and(|known| known.info.agrees_with(&info).is_err()) {
            without_definition.remove(&id);
            by_type.retain(|known, info| *known != id || info.is_of_definition());
        }
        if !info.is_of_definition() {
            let is_known_better = |known: &KindInfo| known.is_of_definition() || info.schema.is_none();
            match without_definition.get_mut(&id) {
                Some(known) if info.schema.is_some() || known.info.schema.is_none() => known.info = info.clone(),
                Some(_) => {}
                None => {
                    let (claimants, claim) = (BTreeSet::new(), Claim::Held);
                    without_definition
                        .insert(id.clone(), ComponentDeclaration { info: info.clone(), claimants, claim });
                }
            }
            if by_type.get(&id).is_some_and(is_known_better) {
                return Ok(());
            }
        }
        drop(without_definition);
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
            self.schemas.set(&info.kind, structures);
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
        let id = id_of(&definition.kind);
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
        let id = id_of(&definition.kind);
        let is_its = self.by_type.read().get(&id).is_some_and(|known| known.source == definition.source);
        is_its && self.without_definition.read().get(&id).is_none_or(ComponentDeclaration::is_unclaimed)
    }

    /// Returns whether a kind is about to go with its last declaration, so that nothing new of it is of use.
    pub fn is_ending(&self, kind: &Kind) -> bool {
        let id = id_of(kind);
        let by_type = self.by_type.read();
        let Some(known) = by_type.get(&id) else { return false };
        let without_definition = self.without_definition.read();
        let by_components = without_definition.get(&id);
        if known.is_of_definition() {
            known.ending && by_components.is_none_or(ComponentDeclaration::is_unclaimed)
        } else {
            by_components.is_some_and(|known| known.claim == Claim::Ending)
        }
    }

    /// Notes who declares a kind, which is known.
    fn claim(&self, source: String, id: &KindId) {
        if let Some(known) = self.without_definition.write().get_mut(id) {
            known.claim = Claim::Held;
            known.claimants.insert(source);
        }
    }

    /// Notes that no controller that is still to be loaded declares a kind. One that runs holds it all the same.
    pub(crate) fn disown(&self, kind: &Kind) {
        if let Some(known) = self.without_definition.write().get_mut(&id_of(kind)).filter(|it| it.claimants.is_empty())
        {
            known.claim = Claim::Given;
        }
    }

    /// Notes that a source is gone. The kinds that it declared stay until they are [reviewed](Self::review).
    pub(crate) fn withdraw(&self, source: &str) {
        for known in self.without_definition.write().values_mut() {
            known.claimants.remove(source);
        }
    }

    /// Returns whether a kind is known whoever declares it.
    pub(crate) fn is_built_in(&self, kind: &Kind) -> bool {
        self.built_in.contains(&id_of(kind))
    }

    /// Returns whether a controller that runs declares a kind.
    pub(crate) fn is_claimed(&self, id: &KindId) -> bool {
        self.without_definition.read().get(id).is_some_and(|known| !known.claimants.is_empty())
    }

    /// Returns the sources of kinds that are here.
    pub(crate) fn claimants(&self) -> BTreeSet<String> {
        let without_definition = self.without_definition.read();
        without_definition.values().flat_map(|known| known.claimants.iter().cloned()).collect()
    }

    /// Looks whether a kind is still to be declared by components, when every controller is loaded. What no controller declares
    /// goes when a definition declares it as well, or when twice in a row there was no resource of it.
    pub(crate) fn review(&self, id: &KindId, has_resources: bool) -> Review {
        let mut by_type = self.by_type.write();
        let mut without_definition = self.without_definition.write();
        let Some(known) = without_definition.get_mut(id) else { return Review::Goes };
        if !known.claimants.is_empty() {
            return Review::Stays;
        }
        let is_defined = by_type.get(id).is_some_and(KindInfo::is_of_definition);
        if !is_defined && has_resources {
            known.claim = Claim::Given;
            return Review::Stays;
        }
        if !is_defined && known.claim != Claim::Ending {
            known.claim = Claim::Ending;
            return Review::Ending;
        }
        let kind = without_definition.remove(id).map(|known| known.info.kind);
        drop(without_definition);
        if let Some(kind) = kind.filter(|_| !is_defined) {
            by_type.remove(id);
            self.schemas.forget(&kind);
        }
        Review::Goes
    }

    /// Takes back what a definition has declared, up to this word of it. A kind that something else has declared too stays, as that declared it.
    pub(crate) fn remove_definition(&self, definition: &KindInfo) {
        let mut by_type = self.by_type.write();
        let id = id_of(&definition.kind);
        if !self.is_news(definition) {
            return;
        }
        self.heard.lock().remove(&definition.source);
        if by_type.get(&id).is_none_or(|known| known.source != definition.source) {
            return;
        }
        by_type.remove(&id);
        let other = self.without_definition.read().get(&id).map(|known| known.info.clone());
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
        if info.is_of_definition() && self.is_built_in(&info.kind) {
            // Its resources would go with the definition: every controller, where it is that kind.
            return Err(Error::ReservedKind(info.kind.to_string()));
        }
        let without_definition = self.without_definition.read();
        let by_components = without_definition.get(&id_of(&info.kind));
        if by_components.is_some_and(|by_components| by_components.gives_way_to(info, known)) {
            return Ok(());
        }
        if !info.is_of_definition() || known.source != info.source {
            return known.agrees_with(info);
        }
        match by_components {
            Some(component) => component.info.agrees_with(info),
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
        by_type.get(&id_of(kind)).cloned()
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
        by_type.get(&id_of(kind)).is_some_and(|info| info.kind.version == kind.version)
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
