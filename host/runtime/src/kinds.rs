//! The kinds that this host knows: what they are called, and who said so.
//!
//! A kind is declared by a `CustomResourceDefinition`, by what a component answers to `describe`, or is built in.

use std::collections::BTreeMap;

use homeostat_component::KindDeclaration;
use homeostat_store::definition::{Column, Definition, Scale, Version};
use homeostat_store::jsonpath::JsonPath;
use homeostat_store::schema::{Schema, Schemas};
use homeostat_store::{Kind, Revision};
use parking_lot::{Mutex, RwLock};
use serde::Serialize;
use serde_json::Value;

use crate::{Error, keeper, manifest};

/// What a person may call a well-known kind for short, when nobody declared it.
const SHORT_NAMES: [(&str, &str, &str); 10] = [
    ("", "Event", "ev"),
    ("apps", "Deployment", "deploy"),
    ("apps", "ReplicaSet", "rs"),
    ("apps", "StatefulSet", "sts"),
    ("apps", "DaemonSet", "ds"),
    ("", "Pod", "po"),
    ("", "Service", "svc"),
    ("", "ConfigMap", "cm"),
    ("", "Namespace", "ns"),
    ("apiextensions.k8s.io", "CustomResourceDefinition", "crd"),
];

/// The first word of the source of what a definition declares.
const DEFINITION: &str = "CustomResourceDefinition";

/// Well-known kinds that people mean by `all`, when nobody declared them.
const ALL: [&str; 7] = ["Pod", "Service", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"];

/// One kind and its names.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KindInfo {
    /// Group, version and name.
    pub kind: Kind,
    /// As it stands in addresses, as `deployments`.
    pub plural: String,
    /// As a person may say it, as `deployment`.
    pub singular: String,
    /// Shorter names, as `deploy`.
    pub short_names: Vec<String>,
    /// Groups of kinds that it is listed with, as `all`.
    pub categories: Vec<String>,
    /// Whether its resources live in namespaces.
    pub namespaced: bool,
    /// Whether nothing of this kind is stored.
    pub keys_only: bool,
    /// A JSON schema of the document.
    pub schema: Option<Value>,
    /// Where a resource says how many of something it wants and has; `None` when it cannot be scaled.
    pub scale: Option<ScalePaths>,
    /// What tables show beside the name; empty when nobody said.
    #[serde(skip)]
    pub columns: Vec<Column>,
    /// What clients of this version are to be warned of; `None` when it is not deprecated.
    pub deprecation: Option<String>,
    /// Whether clients can ask for it in this version. Controllers name the stored version, served or not.
    #[serde(skip)]
    pub is_served: bool,
    /// The other versions that are served, in the order of the definition. Resources are stored in that of `kind`.
    #[serde(skip)]
    others: Vec<Other>,
    /// Who declared it: a controller, or a `CustomResourceDefinition`.
    pub source: String,
    /// The definition is being deleted.
    #[serde(skip)]
    ending: bool,
    /// When the definition was written; zero for what is no definition's.
    #[serde(skip)]
    written: Revision,
}

/// What differs in another version of a kind.
#[derive(Clone, Debug, PartialEq)]
struct Other {
    version: String,
    schema: Option<Value>,
    scale: Option<ScalePaths>,
    columns: Vec<Column>,
    deprecation: Option<String>,
}

impl Other {
    fn of(version: &Version) -> Self {
        Self {
            version: version.name.clone(),
            schema: version.schema.as_ref().and_then(Schema::source).cloned(),
            scale: version.scale.as_ref().map(ScalePaths::from_definition),
            columns: version.columns.clone(),
            deprecation: version.deprecation.clone(),
        }
    }
}

/// Where the numbers of a scale stand in a document, as JSON pointers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScalePaths {
    /// How many are wanted.
    pub spec: String,
    /// How many there are.
    pub status: String,
    /// By which labels they are found: a text, or an object with `matchLabels`.
    pub selector: Option<String>,
}

impl ScalePaths {
    /// Returns the paths of the kinds of Kubernetes that everybody scales.
    fn well_known(kind: &Kind) -> Option<Self> {
        let known = kind.group == "apps" && matches!(kind.name.as_str(), "Deployment" | "ReplicaSet" | "StatefulSet");
        known.then(|| Self {
            spec: "/spec/replicas".to_owned(),
            status: "/status/replicas".to_owned(),
            selector: Some("/spec/selector".to_owned()),
        })
    }

    /// Returns the paths that a definition states. They are plain, so that they can be written as well.
    fn from_definition(scale: &Scale) -> Self {
        let pointer = |path: &JsonPath| path.pointer().unwrap_or_default();
        Self {
            spec: pointer(&scale.spec_replicas),
            status: pointer(&scale.status_replicas),
            selector: scale.label_selector.as_ref().map(pointer),
        }
    }
}

impl KindInfo {
    /// Returns what `declaration` says, with the names that it leaves out.
    pub fn declared(declaration: &KindDeclaration, source: &str) -> Self {
        let kind = declaration.kind.clone();
        let short_names = SHORT_NAMES.iter().filter(|(group, name, _)| *group == kind.group && *name == kind.name);
        Self {
            plural: declaration.plural.clone(),
            singular: kind.name.to_lowercase(),
            short_names: short_names.map(|(_, _, short)| (*short).to_owned()).collect(),
            categories: ALL.contains(&kind.name.as_str()).then(|| "all".to_owned()).into_iter().collect(),
            namespaced: declaration.namespaced,
            keys_only: declaration.keys_only,
            schema: declaration.schema.clone(),
            scale: ScalePaths::well_known(&kind),
            columns: Vec::new(),
            deprecation: None,
            is_served: true,
            others: Vec::new(),
            source: source.to_owned(),
            kind,
            ending: false,
            written: Revision::ZERO,
        }
    }

    /// Reads the kind that a `CustomResourceDefinition` declares, in the version that is stored. [`Kinds::list`] has the others too.
    ///
    /// # Errors
    /// [`Error::BadDocument`] with the path of what is missing or wrong.
    pub fn from_definition(document: &Value) -> Result<Self, Error> {
        let definition = Definition::parse(document).map_err(|error| Error::BadDocument(error.to_string()))?;
        let stored = definition.stored();
        let Other { version: _, schema, scale, columns, deprecation } = Other::of(stored);
        let others = definition.versions.iter().filter(|version| version.served && !version.storage);
        let names = &definition.names;
        let written = document.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        let written = written.and_then(|revision| revision.parse().ok());
        Ok(Self {
            kind: definition.kind(stored),
            plural: names.plural.clone(),
            singular: names.singular.clone(),
            short_names: names.short_names.clone(),
            categories: names.categories.clone(),
            namespaced: definition.namespaced,
            keys_only: false,
            schema,
            scale,
            columns,
            deprecation,
            is_served: stored.served,
            others: others.map(Other::of).collect(),
            source: format!("{DEFINITION} {}.{}", names.plural, definition.group),
            ending: document.pointer("/metadata/deletionTimestamp").is_some_and(|since| !since.is_null()),
            written: written.unwrap_or(Revision::ZERO),
        })
    }

    /// Returns the same, as said at a revision.
    pub(crate) fn said_at(self, revision: Revision) -> Self {
        Self { written: revision, ..self }
    }

    fn is_of_definition(&self) -> bool {
        self.source.starts_with(DEFINITION)
    }

    fn is_called(&self, name: &str) -> bool {
        let (short, group) = name.split_once('.').map_or((name, None), |(short, group)| (short, Some(group)));
        let lower = short.to_lowercase();
        group.is_none_or(|group| group == self.kind.group)
            && (lower == self.plural
                || lower == self.singular
                || self.short_names.contains(&lower)
                || short == self.kind.name)
    }

    /// Returns the kind as clients see it in every version that is served; the stored one first.
    fn served(&self) -> impl Iterator<Item = Self> + '_ {
        let stored = self.is_served.then(|| Self { others: Vec::new(), ..self.clone() });
        let other = |other: &Other| {
            let Other { version, schema, scale, columns, deprecation } = other.clone();
            let kind = Kind { version, ..self.kind.clone() };
            Self { kind, schema, scale, columns, deprecation, is_served: true, others: Vec::new(), ..self.clone() }
        };
        stored.into_iter().chain(self.others.iter().map(other))
    }

    /// Returns whether clients can ask for it in this version.
    fn is_served_in(&self, version: &str) -> bool {
        (self.is_served && self.kind.version == version) || self.others.iter().any(|other| other.version == version)
    }

    /// Returns what the schemas say of documents, by version.
    fn structures(&self) -> Result<Vec<(String, Option<Schema>)>, Error> {
        let parse = |version: &str, schema: &Option<Value>| {
            let parsed = schema.as_ref().map(Schema::parse).transpose();
            let wrong = |error| Error::BadDocument(format!("schema of {}: {error}", self.kind));
            parsed.map(|schema| (version.to_owned(), schema)).map_err(wrong)
        };
        let others = self.others.iter().map(|other| parse(&other.version, &other.schema));
        std::iter::once(parse(&self.kind.version, &self.schema)).chain(others).collect()
    }

    fn agrees_with(&self, other: &Self) -> Result<(), Error> {
        match self.difference(other) {
            Some(difference) => Err(Error::KindDiffers { kind: other.kind.to_string(), difference }),
            None => Ok(()),
        }
    }

    /// Says what keeps two declarations of one kind from being the same.
    fn difference(&self, other: &Self) -> Option<String> {
        let differs = |what: &str, ours: &str, theirs: &str| {
            (ours != theirs).then(|| format!("{what} is `{ours}` by {}, `{theirs}` by {}", self.source, other.source))
        };
        let scope = |info: &Self| if info.namespaced { "namespaced" } else { "cluster" };
        let stored = |info: &Self| if info.keys_only { "keys only" } else { "resources" };
        differs("version", &self.kind.version, &other.kind.version)
            .or_else(|| differs("plural", &self.plural, &other.plural))
            .or_else(|| differs("scope", scope(self), scope(other)))
            .or_else(|| differs("what is stored", stored(self), stored(other)))
    }
}

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
