//! One kind in the registry: its names and versions, and the fields on which all declarations must agree.

use std::sync::Arc;

use homeostat_builtin::{BuiltInKind, autoscaler};
use homeostat_component::KindDeclaration;
use homeostat_store::catalog::ServedKind;
use homeostat_store::definition::{Conversion, Definition, Presentation, PrinterColumn, Scale, Version};
use homeostat_store::jsonpath::JsonPath;
use homeostat_store::schema::{ReplicaPointers, Schema};
use homeostat_store::{IndexTerm, Kind, Revision};
use serde::Serialize;
use serde_json::Value;

#[cfg(doc)]
use crate::Kinds;
use crate::conditions::holds;
use crate::host_kinds::is_written_by_host_alone;
use crate::{Error, conversion};

/// Short names of well-known kinds, if no declaration gives any.
const SHORT_NAMES: [(&str, &str, &str); 11] = [
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
    ("apiextensions.k8s.io", "CustomResourceDefinition", "crds"),
];

/// The prefix of the source name of a definition.
pub(super) const DEFINITION: &str = "CustomResourceDefinition";

/// Well-known kinds in the category `all`, if no declaration says otherwise.
const ALL: [&str; 7] = ["Pod", "Service", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"];

/// One kind and its names.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KindInfo {
    /// Group, version and name.
    pub kind: Kind,
    /// The plural in URLs, as `deployments`.
    pub plural: String,
    /// The singular, as `deployment`.
    pub singular: String,
    /// Shorter names, as `deploy`.
    pub short_names: Vec<String>,
    /// Categories, as `all`.
    pub categories: Vec<String>,
    /// Whether its resources live in namespaces.
    pub namespaced: bool,
    /// Whether no resources of this kind are stored.
    pub keys_only: bool,
    /// A JSON schema of the document.
    pub schema: Option<Value>,
    /// The scale subresource; `None` if the kind cannot be scaled.
    pub scale: Option<ScaleSource>,
    /// Additional columns of tables; empty if none were declared.
    #[serde(skip)]
    pub columns: Vec<PrinterColumn>,
    /// Whether its resources have the subresource `status`.
    #[serde(skip)]
    pub has_status: bool,
    /// The built-in kind of Kubernetes; `None` for a kind that a component, a definition or a server declares.
    #[serde(skip)]
    pub(super) built_in: Option<&'static BuiltInKind>,
    /// The deprecation warning of this version; `None` if it is not deprecated.
    pub deprecation: Option<String>,
    /// Whether clients can request this version. Controllers name the storage version, served or not.
    #[serde(skip)]
    pub is_served: bool,
    /// The other served versions, in the order of the definition. `kind` has the storage version.
    #[serde(skip)]
    pub(super) others: Vec<OtherVersion>,
    /// How documents get from one version to another. Only a definition says so.
    #[serde(skip)]
    pub(super) conversion: Arc<Conversion>,
    /// The labels and fields of which stores keep an index. Only a definition declares them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<IndexTerm>,
    /// The source of the declaration: a controller, a `CustomResourceDefinition` or a store.
    pub source: String,
    /// The name of the store that has its resources; `None` if the host has one store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<Arc<str>>,
    /// The definition is being deleted.
    #[serde(skip)]
    pub(super) ending: bool,
    /// Whether discovery lists the kind: its definition has the condition `Established`.
    #[serde(skip)]
    pub(super) is_established: bool,
    /// Whether clients see other documents than those that are stored: the schema of a definition has defaults, or this
    /// version of it is not stored.
    #[serde(skip)]
    pub(super) is_reshaped: bool,
    /// Revision of the definition; zero for declarations of components.
    #[serde(skip)]
    pub(super) written: Revision,
}

/// Returns whether a schema may have defaults: whether a field is called so.
fn names_default(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => fields.contains_key("default") || fields.values().any(names_default),
        Value::Array(items) => items.iter().any(names_default),
        _ => false,
    }
}

/// The fields of another version that differ.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OtherVersion {
    version: String,
    schema: Option<Value>,
    scale: Option<ScaleSource>,
    columns: Vec<PrinterColumn>,
    deprecation: Option<String>,
}

impl OtherVersion {
    fn of(version: &Version) -> Self {
        Self {
            version: version.name.clone(),
            schema: version.schema.as_ref().and_then(Schema::source).cloned(),
            scale: version.scale.as_ref().map(ScalePaths::from_definition).map(ScaleSource::Fields),
            columns: version.columns.clone(),
            deprecation: version.deprecation.clone(),
        }
    }
}

/// Who knows the number of replicas of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ScaleSource {
    /// The host: fields of the resource have it.
    Fields(ScalePaths),
    /// The server of the store, which has the subresource itself.
    Server,
}

/// Paths of the scale subresource, as JSON pointers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScalePaths {
    /// The desired number of replicas.
    pub spec: String,
    /// The current number of replicas.
    pub status: String,
    /// The label selector of the replicas: a text, or an object with `matchLabels`.
    pub selector: Option<String>,
}

impl ScalePaths {
    /// Returns the paths of well-known scalable kinds.
    fn well_known(kind: &Kind) -> Option<Self> {
        let known = kind.group == "apps" && matches!(kind.name.as_str(), "Deployment" | "ReplicaSet" | "StatefulSet");
        known.then(|| Self {
            spec: "/spec/replicas".to_owned(),
            status: "/status/replicas".to_owned(),
            selector: Some("/spec/selector".to_owned()),
        })
    }

    /// Returns the paths of a definition. They contain no wildcards, so the host can write to them.
    fn from_definition(scale: &Scale) -> Self {
        let pointer = |path: &JsonPath| path.pointer().unwrap_or_default();
        Self {
            spec: pointer(&scale.spec_replicas),
            status: pointer(&scale.status_replicas),
            selector: scale.label_selector.as_ref().map(pointer),
        }
    }
}

/// Returns the further versions of a built-in kind.
fn other_versions(kind: &Kind) -> Vec<OtherVersion> {
    let (schema, scale, columns, deprecation) = (None, None, Vec::new(), None);
    let version = autoscaler::kind().version;
    let is_meant = *kind == autoscaler::stored_kind();
    is_meant.then_some(OtherVersion { version, schema, scale, columns, deprecation }).into_iter().collect()
}

/// Returns the indexes of a built-in kind: of fields by which clients select few of many resources.
fn built_in_indexes(kind: &Kind) -> Vec<IndexTerm> {
    let pointers: &[&str] = match (kind.group.as_str(), kind.name.as_str()) {
        ("", "Pod") => &["/spec/nodeName", "/status/phase"],
        ("", "Event") => &["/involvedObject/name", "/involvedObject/uid", "/involvedObject/kind"],
        ("scheduling.k8s.io", "PriorityClass") => &["/globalDefault"],
        _ => &[],
    };
    pointers.iter().map(|pointer| IndexTerm::Field((*pointer).to_owned())).collect()
}

fn is_definition(kind: &Kind) -> bool {
    kind.group == "apiextensions.k8s.io" && kind.name == DEFINITION
}

impl KindInfo {
    /// Returns the kind of a component's declaration, with default names for missing ones. Invalid names in its schema
    /// count as missing here; [`Kinds::declare`] refuses them.
    pub fn declared(declaration: &KindDeclaration, source: &str) -> Self {
        let kind = declaration.kind.clone();
        let presentation = declaration.schema.as_ref().and_then(|schema| Presentation::of_schema(schema).ok());
        let Presentation { singular, mut short_names, mut categories, columns } = presentation.unwrap_or_default();
        if short_names.is_empty() {
            let known = SHORT_NAMES.iter().filter(|(group, name, _)| *group == kind.group && *name == kind.name);
            short_names.extend(known.map(|(_, _, short)| (*short).to_owned()));
        }
        if categories.is_empty() {
            let known = [(ALL.contains(&kind.name.as_str()), "all"), (is_definition(&kind), "api-extensions")];
            categories.extend(known.into_iter().filter(|(holds, _)| *holds).map(|(_, category)| category.to_owned()));
        }
        Self {
            plural: declaration.plural.clone(),
            singular: singular.unwrap_or_else(|| kind.name.to_lowercase()),
            short_names,
            categories,
            namespaced: declaration.namespaced,
            keys_only: declaration.keys_only,
            schema: declaration.schema.clone(),
            scale: ScalePaths::well_known(&kind).map(ScaleSource::Fields),
            columns,
            has_status: true,
            built_in: None,
            deprecation: None,
            is_served: true,
            conversion: Arc::default(),
            indexes: Vec::new(),
            others: Vec::new(),
            source: source.to_owned(),
            kind,
            store: None,
            ending: false,
            is_established: true,
            is_reshaped: false,
            written: Revision::ZERO,
        }
    }

    /// Returns a built-in kind of Kubernetes. Its schema is not here: the store parses it when a write needs it first.
    pub(super) fn of_built_in(known: &'static BuiltInKind) -> Self {
        let declaration = KindDeclaration {
            kind: known.kind(),
            plural: known.plural.clone(),
            namespaced: known.namespaced,
            keys_only: false,
            schema: None,
        };
        // The selector of a replication controller has no `matchLabels`.
        let selector = (known.name != "ReplicationController").then(|| "/spec/selector".to_owned());
        let scale = ScalePaths { spec: "/spec/replicas".to_owned(), status: "/status/replicas".to_owned(), selector };
        Self {
            singular: known.singular.clone(),
            short_names: known.short_names.clone(),
            categories: known.categories.clone(),
            scale: known.has("scale").then_some(ScaleSource::Fields(scale)),
            has_status: known.has("status"),
            others: other_versions(&known.kind()),
            indexes: built_in_indexes(&known.kind()),
            built_in: Some(known),
            deprecation: known.deprecation().map(str::to_owned),
            ..Self::declared(&declaration, "homeostat")
        }
    }

    /// Returns the built-in kind of Kubernetes; `None` for other kinds.
    pub fn built_in(&self) -> Option<&'static BuiltInKind> {
        self.built_in
    }

    /// Returns whether discovery lists the kind. A kind of a definition is served a moment before.
    pub fn is_established(&self) -> bool {
        self.is_established
    }

    /// Returns the revision of the definition, if clients see other documents than those that are stored. Stored resources
    /// may lack defaults that it got after they were written, and have fields that another version does not know.
    pub fn reshaped_since(&self) -> Option<Revision> {
        self.is_reshaped.then_some(self.written)
    }

    /// Returns whether this is the kind of definitions.
    pub fn is_definition(&self) -> bool {
        is_definition(&self.kind)
    }

    /// Returns whether Kubernetes has a Go type for the kind: its resources have a protobuf form, and no kind of their own
    /// in a list.
    pub fn is_typed(&self) -> bool {
        self.built_in.is_some() || self.is_definition()
    }

    /// Returns a kind that the server of a store defines, in the version that the server prefers.
    pub(super) fn served_by(served: &ServedKind, store: &str) -> Self {
        let ServedKind { kind, versions, plural, singular, short_names, categories, namespaced, .. } = served;
        let scale = |version: &str| served.has_scale(version).then_some(ScaleSource::Server);
        let others = versions.iter().filter(|version| **version != kind.version);
        let other = |version: &String| OtherVersion {
            version: version.clone(),
            schema: None,
            scale: scale(version),
            columns: Vec::new(),
            deprecation: None,
        };
        let singular = if singular.is_empty() { kind.name.to_lowercase() } else { singular.clone() };
        Self {
            plural: plural.clone(),
            singular,
            short_names: short_names.clone(),
            categories: categories.clone(),
            namespaced: *namespaced,
            keys_only: false,
            schema: None,
            scale: scale(&kind.version),
            columns: Vec::new(),
            has_status: true,
            built_in: None,
            deprecation: None,
            is_served: true,
            conversion: Arc::default(),
            indexes: Vec::new(),
            others: others.map(other).collect(),
            source: format!("store {store}"),
            kind: kind.clone(),
            store: None,
            ending: false,
            is_established: true,
            is_reshaped: false,
            written: Revision::ZERO,
        }
    }

    /// Reads the kind of a `CustomResourceDefinition` in its storage version. [`Kinds::list`] returns the
    /// other versions too.
    ///
    /// # Errors
    /// [`Error::BadDocument`] with the path of the missing or invalid field.
    pub fn from_definition(document: &Value) -> Result<Self, Error> {
        let definition = Definition::parse(document).map_err(|error| Error::BadDocument(error.to_string()))?;
        conversion::check(&definition.conversion).map_err(Error::BadDocument)?;
        let stored = definition.stored();
        let OtherVersion { version: _, schema, scale, columns, deprecation } = OtherVersion::of(stored);
        let others = definition.versions.iter().filter(|version| version.served && !version.storage);
        let names = &definition.names;
        let written = document.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        let written = written.and_then(|revision| revision.parse().ok());
        Ok(Self {
            kind: definition.kind(stored),
            indexes: definition.indexes(),
            plural: names.plural.clone(),
            singular: names.singular.clone(),
            short_names: names.short_names.clone(),
            categories: names.categories.clone(),
            namespaced: definition.namespaced,
            keys_only: false,
            schema,
            scale,
            columns,
            has_status: true,
            built_in: None,
            deprecation,
            is_served: stored.served,
            conversion: Arc::new(definition.conversion.clone()),
            others: others.map(OtherVersion::of).collect(),
            source: format!("{DEFINITION} {}.{}", names.plural, definition.group),
            store: None,
            ending: document.pointer("/metadata/deletionTimestamp").is_some_and(|since| !since.is_null()),
            is_established: holds(&document["status"], "Established"),
            is_reshaped: definition
                .versions
                .iter()
                .any(|version| version.schema.as_ref().and_then(Schema::source).is_some_and(names_default)),
            written: written.unwrap_or(Revision::ZERO),
        })
    }

    /// Returns the same declaration at another revision.
    pub(crate) fn said_at(self, revision: Revision) -> Self {
        Self { written: revision, ..self }
    }

    /// Returns whether its versions differ in more than their `apiVersion`.
    pub fn converts(&self) -> bool {
        *self.conversion != Conversion::None
    }

    /// Returns whether the host alone writes resources of the kind.
    pub fn is_read_only(&self) -> bool {
        is_written_by_host_alone(&self.kind)
    }

    /// Returns whether a `CustomResourceDefinition` declares the kind. Then its schema overrides those of
    /// components.
    pub fn is_of_definition(&self) -> bool {
        self.source.starts_with(DEFINITION)
    }

    pub(super) fn is_called(&self, name: &str) -> bool {
        let (short, group) = name.split_once('.').map_or((name, None), |(short, group)| (short, Some(group)));
        let lower = short.to_lowercase();
        group.is_none_or(|group| group == self.kind.group)
            && (lower == self.plural
                || lower == self.singular
                || self.short_names.contains(&lower)
                || short == self.kind.name)
    }

    /// Returns the kind in every served version, with the storage version first.
    pub(super) fn served(&self) -> impl Iterator<Item = Self> + '_ {
        let stored = self.is_served.then(|| Self { others: Vec::new(), ..self.clone() });
        let other = |other: &OtherVersion| {
            let OtherVersion { version, schema, scale, columns, deprecation } = other.clone();
            let kind = Kind { version, ..self.kind.clone() };
            let is_reshaped = self.is_reshaped || (self.is_of_definition() && !self.converts());
            let others = Vec::new();
            Self { kind, schema, scale, columns, deprecation, is_served: true, others, is_reshaped, ..self.clone() }
        };
        stored.into_iter().chain(self.others.iter().map(other))
    }

    /// Returns the served versions, with the storage version first.
    pub(crate) fn served_versions(&self) -> impl Iterator<Item = &str> {
        let stored = self.is_served.then_some(self.kind.version.as_str());
        stored.into_iter().chain(self.others.iter().map(|other| other.version.as_str()))
    }

    /// Returns the scale subresource in one of the versions.
    pub(super) fn scale_in(&self, version: &str) -> Option<ScaleSource> {
        let other = || self.others.iter().find(|other| other.version == version)?.scale.clone();
        if self.kind.version == version { self.scale.clone() } else { other() }
    }

    /// Returns whether clients can request this version.
    pub(super) fn is_served_in(&self, version: &str) -> bool {
        (self.is_served && self.kind.version == version) || self.others.iter().any(|other| other.version == version)
    }

    /// Returns the parsed schemas by version.
    pub(super) fn structures(&self) -> Result<Vec<(String, Option<Schema>)>, Error> {
        let parse = |version: &str, schema: &Option<Value>| {
            let parsed = schema.as_ref().map(Schema::parse).transpose();
            let wrong = |error| Error::BadDocument(format!("schema of {}: {error}", self.kind));
            let scale = self.scale_in(version).filter(|_| self.is_of_definition());
            let scaled = |schema: Schema| match scale {
                Some(ScaleSource::Fields(ScalePaths { spec, status, .. })) => {
                    schema.with_replicas(ReplicaPointers { spec, status })
                }
                Some(ScaleSource::Server) | None => schema,
            };
            parsed.map(|schema| (version.to_owned(), schema.map(scaled))).map_err(wrong)
        };
        if let Some(schema) = self.schema.as_ref().filter(|_| !self.is_of_definition()) {
            let wrong = |error| Error::BadDocument(format!("schema of {}: {error}", self.kind));
            Presentation::of_schema(schema).map_err(wrong)?;
        }
        let others = self.others.iter().map(|other| parse(&other.version, &other.schema));
        std::iter::once(parse(&self.kind.version, &self.schema)).chain(others).collect()
    }

    pub(crate) fn agrees_with(&self, other: &Self) -> Result<(), Error> {
        match self.difference(other) {
            Some(difference) => Err(Error::KindDiffers { kind: other.kind.to_string(), difference }),
            None => Ok(()),
        }
    }

    /// Returns the first difference between two declarations of one kind.
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
