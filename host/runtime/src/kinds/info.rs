//! One kind as this host knows it: its names, its versions, and what two who declare it must agree about.

use homeostat_component::KindDeclaration;
use homeostat_store::definition::{Definition, PrinterColumn, Scale, Version};
use homeostat_store::jsonpath::JsonPath;
use homeostat_store::schema::Schema;
use homeostat_store::{Kind, Revision};
use serde::Serialize;
use serde_json::Value;

use crate::Error;
#[cfg(doc)]
use crate::Kinds;

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
pub(super) const DEFINITION: &str = "CustomResourceDefinition";

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
    pub columns: Vec<PrinterColumn>,
    /// What clients of this version are to be warned of; `None` when it is not deprecated.
    pub deprecation: Option<String>,
    /// Whether clients can ask for it in this version. Controllers name the stored version, served or not.
    #[serde(skip)]
    pub is_served: bool,
    /// The other versions that are served, in the order of the definition. Resources are stored in that of `kind`.
    #[serde(skip)]
    pub(super) others: Vec<OtherVersion>,
    /// Who declared it: a controller, or a `CustomResourceDefinition`.
    pub source: String,
    /// The definition is being deleted.
    #[serde(skip)]
    pub(super) ending: bool,
    /// When the definition was written; zero for what is no definition's.
    #[serde(skip)]
    pub(super) written: Revision,
}

/// What differs in another version of a kind.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OtherVersion {
    version: String,
    schema: Option<Value>,
    scale: Option<ScalePaths>,
    columns: Vec<PrinterColumn>,
    deprecation: Option<String>,
}

impl OtherVersion {
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
        let OtherVersion { version: _, schema, scale, columns, deprecation } = OtherVersion::of(stored);
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
            others: others.map(OtherVersion::of).collect(),
            source: format!("{DEFINITION} {}.{}", names.plural, definition.group),
            ending: document.pointer("/metadata/deletionTimestamp").is_some_and(|since| !since.is_null()),
            written: written.unwrap_or(Revision::ZERO),
        })
    }

    /// Returns the same, as said at a revision.
    pub(crate) fn said_at(self, revision: Revision) -> Self {
        Self { written: revision, ..self }
    }

    /// Returns whether a `CustomResourceDefinition` declares it: then no component has a say in what its resources are like.
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

    /// Returns the kind as clients see it in every version that is served; the stored one first.
    pub(super) fn served(&self) -> impl Iterator<Item = Self> + '_ {
        let stored = self.is_served.then(|| Self { others: Vec::new(), ..self.clone() });
        let other = |other: &OtherVersion| {
            let OtherVersion { version, schema, scale, columns, deprecation } = other.clone();
            let kind = Kind { version, ..self.kind.clone() };
            Self { kind, schema, scale, columns, deprecation, is_served: true, others: Vec::new(), ..self.clone() }
        };
        stored.into_iter().chain(self.others.iter().map(other))
    }

    /// Returns whether clients can ask for it in this version.
    pub(super) fn is_served_in(&self, version: &str) -> bool {
        (self.is_served && self.kind.version == version) || self.others.iter().any(|other| other.version == version)
    }

    /// Returns what the schemas say of documents, by version.
    pub(super) fn structures(&self) -> Result<Vec<(String, Option<Schema>)>, Error> {
        let parse = |version: &str, schema: &Option<Value>| {
            let parsed = schema.as_ref().map(Schema::parse).transpose();
            let wrong = |error| Error::BadDocument(format!("schema of {}: {error}", self.kind));
            parsed.map(|schema| (version.to_owned(), schema)).map_err(wrong)
        };
        let others = self.others.iter().map(|other| parse(&other.version, &other.schema));
        std::iter::once(parse(&self.kind.version, &self.schema)).chain(others).collect()
    }

    pub(crate) fn agrees_with(&self, other: &Self) -> Result<(), Error> {
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
