//! The registry of kinds: names, versions, and the source of each.
//!
//! A kind is declared by a `CustomResourceDefinition` or by a component's `describe`, or it is built in, or the server
//! of its store defines it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use homeostat_component::KindDeclaration;
use homeostat_store::schema::{Schema, Schemas};
use homeostat_store::{Kind, Revision};
use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tokio::sync::watch;

use crate::conversion::Converters;
use crate::{BuiltInGroups, Error, Stores, definition_rules, host_kinds, manifest};

mod info;
mod lookup;
mod owner_kind_resolver;
mod server_kinds;

pub(crate) use owner_kind_resolver::OwnerKindResolver;
use server_kinds::ServerKinds;

pub use info::{KindInfo, ScalePaths, ScaleSource};

/// Identifies a kind in all its versions: group and name.
pub(crate) type KindId = (String, String);

/// Returns the group and name of a kind.
pub(crate) fn id_of(kind: &Kind) -> KindId {
    (kind.group.clone(), kind.name.clone())
}

/// The registry of kinds.
#[derive(Default)]
pub struct Kinds {
    /// By group and name; the kind has the storage version.
    by_type: RwLock<BTreeMap<KindId, KindInfo>>,
    /// The newest revision seen of each definition, by source name. Accessed only while `by_type` is locked
    /// for writing.
    heard: Mutex<BTreeMap<String, Revision>>,
    /// Declarations of components. They stay when a definition of the same kind is deleted.
    without_definition: RwLock<BTreeMap<KindId, ComponentDeclaration>>,
    /// Kinds that exist without a declaration.
    built_in: BTreeSet<KindId>,
    /// Schemas by which the store validates documents.
    schemas: Schemas,
    /// The converters of the kinds that have one.
    converters: Arc<Converters>,
    /// Where kinds live; `None` if the host has one store.
    stores: Option<Stores>,
    /// The kinds that servers of stores define, whether anybody here declares them or not. Locked after `by_type`.
    of_servers: RwLock<ServerKinds>,
    /// Counts declared and removed kinds, for those who wait for one.
    changes: watch::Sender<u64>,
}

/// The declarations of components for one kind.
struct ComponentDeclaration {
    info: KindInfo,
    /// The controllers of this host that declare it, as source names.
    claimants: BTreeSet<String>,
    /// The state of claims by other controllers.
    claim: Claim,
}

/// Whether components still declare a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    /// A component declares it, or may: not every controller was loaded since.
    Held,
    /// No component declares it.
    Given,
    /// No component declares it and it has no resources. It is removed if the next review finds none either.
    Ending,
}

/// The result of a review of a declared kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Review {
    /// The kind is needed.
    Stays,
    /// The next review removes the kind if nothing changes.
    Ending,
    /// Components no longer declare the kind.
    Goes,
}

impl ComponentDeclaration {
    /// Returns whether no component is known to need this declaration.
    fn is_unclaimed(&self) -> bool {
        self.claimants.is_empty() && self.claim != Claim::Held
    }

    /// Returns whether another declaration can replace this one. It must not change the keys of existing
    /// resources. A changed definition need not wait until every controller is loaded.
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
    /// Returns a registry of the built-in kinds: `Controller`, `ControllerRevision`,
    /// `CustomResourceDefinition`, `Event`, `Host`, `KindDeclaration`, `Namespace` and `WebhookDelivery`.
    ///
    /// `schemas` are those of the store; declared schemas are added to them.
    pub fn with_built_in(schemas: Schemas) -> Self {
        let mut kinds = Self { schemas, ..Self::default() };
        let definitions = Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let built_in = [
            (host_kinds::controllers(), "controllers", false, Some(manifest::schema())),
            (host_kinds::revisions(), "controllerrevisions", false, Some(manifest::revision_schema())),
            (host_kinds::declarations(), "kinddeclarations", false, None),
            (host_kinds::hosts(), "hosts", false, Some(manifest::host_schema())),
            (host_kinds::deliveries(), "webhookdeliveries", false, Some(manifest::delivery_schema())),
            (definitions.clone(), "customresourcedefinitions", false, None),
            (Kind::new("", "v1", "Event"), "events", true, None),
            (Kind::new("", "v1", "Namespace"), "namespaces", false, None),
        ];
        for (kind, plural, namespaced, schema) in built_in {
            // Schemas of built-in kinds only serve `kubectl explain`. Writes of these kinds are validated
            // elsewhere, so the store does not get the schemas.
            let (id, plural) = (id_of(&kind), plural.into());
            let declaration = KindDeclaration { kind, plural, namespaced, keys_only: false, schema };
            kinds.built_in.insert(id.clone());
            kinds.by_type.get_mut().insert(id, KindInfo::declared(&declaration, "homeostat"));
        }
        kinds.schemas.set_built_in(&definitions, definition_rules::schema);
        kinds
    }

    /// Adds built-in kinds of Kubernetes. Kinds that the server of a store defines are left to it.
    fn add_built_in(&mut self, groups: &BuiltInGroups) {
        for known in groups.kinds() {
            let kind = known.kind();
            if self.stores.as_ref().is_some_and(|stores| stores.defines(&kind)) {
                continue;
            }
            let info = KindInfo::of_built_in(known);
            self.schemas.set_built_in(&kind, homeostat_builtin::schema);
            self.schemas.set_indexes(&kind, &info.indexes);
            self.built_in.insert(id_of(&kind));
            self.by_type.get_mut().insert(id_of(&kind), info);
        }
    }

    /// As [`Kinds::with_built_in`], for the kinds of these stores, and with built-in kinds of Kubernetes.
    pub(crate) fn of_stores(stores: &Stores, groups: &BuiltInGroups) -> Self {
        let mut kinds = Self { stores: Some(stores.clone()), ..Self::with_built_in(stores.schemas()) };
        kinds.add_built_in(groups);
        for info in kinds.by_type.get_mut().values_mut() {
            info.store = stores.name_of(&info.kind);
        }
        kinds
    }

    /// Returns the kind with the name of the store that has its resources.
    fn located(&self, info: KindInfo) -> KindInfo {
        let store = self.stores.as_ref().and_then(|stores| stores.name_of(&info.kind));
        KindInfo { store, ..info }
    }

    /// Returns the name of the store whose server defines the kind; `None` for a kind that this host defines. Stores
    /// that stand alone have an empty name.
    pub(crate) fn defined_in(&self, kind: &Kind) -> Option<Arc<str>> {
        let stores = self.stores.as_ref().filter(|stores| stores.defines(kind))?;
        Some(stores.name_of(kind).unwrap_or_default())
    }

    /// Checks that a definition is of a kind that this host defines.
    fn check_definable(&self, info: &KindInfo) -> Result<(), Error> {
        let Some(store) = self.defined_in(&info.kind).filter(|_| info.is_of_definition()) else { return Ok(()) };
        let kind = info.kind.to_string();
        Err(Error::BadDocument(format!(
            "the kind {kind} lives in store {store}, which has its own definitions: apply it there"
        )))
    }

    /// Declares a kind. Repeating a declaration changes nothing; a definition updates schema and names. A
    /// definition older than the newest revision seen is ignored.
    ///
    /// # Errors
    /// [`Error::KindDiffers`] when the kind is known with another version, plural or scope;
    /// [`Error::ReservedKind`] when a definition declares a built-in kind; [`Error::BadDocument`] when the
    /// schema is not structural.
    pub fn declare(&self, info: KindInfo) -> Result<(), Error> {
        let claim = (!info.is_of_definition()).then(|| (info.source.clone(), id_of(&info.kind)));
        self.remember(info)?;
        if let Some((source, id)) = claim {
            self.claim(source, &id);
        }
        Ok(())
    }

    /// As [`Kinds::declare`], for a declaration whose source may not exist any more.
    ///
    /// # Errors
    /// As [`Kinds::declare`].
    pub(crate) fn remember(&self, info: KindInfo) -> Result<(), Error> {
        self.check_definable(&info)?;
        self.check_server(&info)?;
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
        // A replaced declaration is removed.
        if without_definition.get(&id).is_some_and(|known| known.info.agrees_with(&info).is_err()) {
            without_definition.remove(&id);
            by_type.retain(|known, info| *known != id || info.is_of_definition());
        }
        if !info.is_of_definition() {
            let is_known_better =
                |known: &KindInfo| known.is_of_definition() || known.built_in().is_some() || info.schema.is_none();
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
        by_type.insert(id, self.scaled(self.located(info)));
        drop(by_type);
        self.notify();
        Ok(())
    }

    /// Returns the converters of the kinds that have one.
    pub(crate) fn converters(&self) -> Arc<Converters> {
        Arc::clone(&self.converters)
    }

    /// Returns a receiver that is notified after a kind was declared or removed.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Returns a number that is another one after a kind was declared, changed or removed.
    pub fn version(&self) -> u64 {
        *self.changes.borrow()
    }

    fn notify(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Publishes the schemas of a kind to the store, so that later writes are stored in its version.
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

    /// Returns whether this is the newest revision seen of its definition.
    fn is_news(&self, info: &KindInfo) -> bool {
        self.heard.lock().get(&info.source).is_none_or(|heard| *heard <= info.written)
    }

    fn hear(&self, info: &KindInfo) {
        if info.is_of_definition() {
            self.heard.lock().insert(info.source.clone(), info.written);
        }
    }

    /// Marks a kind as ending, because its definition is being deleted.
    pub(crate) fn end(&self, definition: &KindInfo) {
        let id = id_of(&definition.kind);
        let mut by_type = self.by_type.write();
        if let Some(known) = by_type.get_mut(&id).filter(|known| known.source == definition.source) {
            known.ending = true;
        }
    }

    fn tell(&self, info: &KindInfo, structures: Vec<(String, Option<Schema>)>) {
        self.converters.set(&info.kind, &info.conversion, &structures);
        if info.converts() {
            self.schemas.set_converted(&info.kind, structures);
        } else if info.is_of_definition() || info.schema.is_some() {
            self.schemas.set(&info.kind, structures);
        } else {
            self.schemas.forget(&info.kind);
        }
        // Components declare no indexes, and may come before the definition: meanwhile a store keeps those that it has.
        if info.is_of_definition() {
            self.schemas.set_indexes(&info.kind, &info.indexes);
        }
    }

    /// Returns whether a kind ends with this definition, because nothing else declares it.
    pub(crate) fn goes_with(&self, definition: &KindInfo) -> bool {
        let id = id_of(&definition.kind);
        let is_its = self.by_type.read().get(&id).is_some_and(|known| known.source == definition.source);
        is_its && self.without_definition.read().get(&id).is_none_or(ComponentDeclaration::is_unclaimed)
    }

    /// Returns whether a kind is about to end with its last declaration. Nothing new of it should be created.
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

    /// Records the source of a known kind.
    fn claim(&self, source: String, id: &KindId) {
        if let Some(known) = self.without_definition.write().get_mut(id) {
            known.claim = Claim::Held;
            known.claimants.insert(source);
        }
    }

    /// Records that none of the controllers still to be loaded declares a kind. Running controllers keep
    /// their claims.
    pub(crate) fn disown(&self, kind: &Kind) {
        if let Some(known) = self.without_definition.write().get_mut(&id_of(kind)).filter(|it| it.claimants.is_empty())
        {
            known.claim = Claim::Given;
        }
    }

    /// Records that a source is gone. Its kinds stay until they are [reviewed](Self::review).
    pub(crate) fn withdraw(&self, source: &str) {
        for known in self.without_definition.write().values_mut() {
            known.claimants.remove(source);
        }
    }

    /// Returns whether a kind is built in.
    pub(crate) fn is_built_in(&self, kind: &Kind) -> bool {
        self.built_in.contains(&id_of(kind))
    }

    /// Returns whether a kind is one of Kubernetes' built-in kinds, with its schema.
    pub(crate) fn has_built_in_schema(&self, kind: &Kind) -> bool {
        self.by_type.read().get(&id_of(kind)).is_some_and(|known| known.built_in().is_some())
    }

    /// Returns whether a running controller declares a kind.
    pub(crate) fn is_claimed(&self, id: &KindId) -> bool {
        self.without_definition.read().get(id).is_some_and(|known| !known.claimants.is_empty())
    }

    /// Returns the sources that currently declare kinds.
    pub(crate) fn claimants(&self) -> BTreeSet<String> {
        let without_definition = self.without_definition.read();
        without_definition.values().flat_map(|known| known.claimants.iter().cloned()).collect()
    }

    /// Reviews whether components still declare a kind; every controller must be loaded. A kind without a
    /// claim is removed when a definition declares it as well, or when two consecutive reviews find no
    /// resources.
    pub(crate) fn review(&self, id: &KindId, has_resources: bool) -> Review {
        let mut by_type = self.by_type.write();
        let mut without_definition = self.without_definition.write();
        let Some(known) = without_definition.get_mut(id) else { return Review::Goes };
        if !known.claimants.is_empty() {
            return Review::Stays;
        }
        let is_defined = self.built_in.contains(id) || by_type.get(id).is_some_and(KindInfo::is_of_definition);
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
            drop(by_type);
            self.notify();
        }
        Review::Goes
    }

    /// Removes the declaration of a definition, up to this revision of it. If components declare the kind
    /// too, their declaration takes over.
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
            None => {
                self.schemas.forget(&definition.kind);
                self.converters.forget(&definition.kind);
            }
        }
        by_type.extend(other.map(|other| (id, self.scaled(self.located(other)))));
        drop(by_type);
        self.notify();
    }

    /// Returns whether a kind could be declared.
    ///
    /// # Errors
    /// As [`Kinds::declare`].
    pub fn check(&self, info: &KindInfo) -> Result<(), Error> {
        self.check_definable(info)?;
        self.check_server(info)?;
        info.structures()?;
        let known = self.by_type.read().get(&id_of(&info.kind)).cloned();
        known.map_or(Ok(()), |known| self.agree(&known, info))
    }

    /// Checks that two declarations agree. A definition may change the storage version, unless a component
    /// names the old one.
    fn agree(&self, known: &KindInfo, info: &KindInfo) -> Result<(), Error> {
        if info.is_of_definition() && self.is_built_in(&info.kind) {
            // Deleting the definition would delete all resources of the built-in kind, such as every
            // controller.
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
}

/// Reads the kind that a document names.
pub(crate) fn kind_of(document: &Value) -> Result<Kind, Error> {
    let text = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default();
    Kind::parse(text("apiVersion"), text("kind")).map_err(|error| Error::BadDocument(error.to_string()))
}

/// Sets the default namespace of a namespaced document that names none. Refuses a namespace for other kinds.
pub(crate) fn place(document: &mut Value, info: &KindInfo) -> Result<(), Error> {
    let metadata = document.get_mut("metadata").and_then(Value::as_object_mut);
    let metadata = metadata.ok_or_else(|| Error::BadDocument("metadata: must be set, with a name".into()))?;
    if info.keys_only {
        let reason = format!("nothing of kind {} is stored: its keys come from a feeder", info.kind);
        return Err(Error::BadDocument(reason));
    }
    if info.namespaced {
        metadata.entry("namespace").or_insert_with(|| "default".into());
    } else if metadata.get("namespace").is_some_and(|namespace| namespace != "") {
        let reason = format!("metadata.namespace: a {} is cluster-scoped", info.kind.name);
        return Err(Error::BadDocument(reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
