//! Reads manifests: files of one or more documents in YAML or JSON. Every problem has a file, line and
//! column.
//!
//! A mistake in one document does not affect the others. The checks here need no host: syntax, the fields of
//! every resource, and the complete schema of `kind: Controller`. An apply finds out whether the kind exists
//! and whether the store accepts the document.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::Utf8Error;

use homeostat_runtime::manifest::{API_VERSION, KIND, Manifest, OutOfBounds};
use serde::de::DeserializeOwned;
use serde_json::Value;

mod located_value;

pub(crate) use located_value::TextPosition;
use located_value::{DocumentText, LocatedValue, Node, SyntaxFault};

/// Bytes of one manifest file, at most. A larger file is refused unread.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Documents of one file, at most. Further ones are refused.
const DOCUMENTS_MAX: usize = 10_000;

/// One resource of a manifest, with its position.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    /// The whole document. `apiVersion`, `kind` and `metadata.name` are non-empty strings.
    pub(crate) value: Value,
    /// The parsed and validated controller, if it is one.
    pub(crate) controller: Option<Box<Manifest>>,
    pub(crate) file: PathBuf,
    /// The start of the document. Counted from 1, like `column`.
    pub(crate) line: u64,
    pub(crate) column: u64,
    /// The position of the value of `kind`.
    pub(crate) kind_place: TextPosition,
    /// The position of the value of `metadata.name`.
    pub(crate) name_place: TextPosition,
}

/// A problem that keeps a document from being applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) file: PathBuf,
    pub(crate) line: u64,
    pub(crate) column: u64,
    /// The problem and the expected value, without the position.
    pub(crate) message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file.display(), self.line, self.column, self.message)
    }
}

impl Problem {
    pub(crate) fn new(file: &Path, place: TextPosition, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: place.line, column: place.column, message: message.into() }
    }
}

/// The identity of a resource: group, kind, namespace and name. The version is not part of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ResourceId {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl fmt::Display for ResourceId {
    /// Formats it as kubectl does: `deployment.apps/web`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, kind, namespace: _, name } = self;
        let dot = if group.is_empty() { "" } else { "." };
        write!(f, "{}{dot}{group}/{name}", kind.to_lowercase())
    }
}

impl Document {
    /// Returns the resource's identity. A missing namespace is `default`.
    pub(crate) fn identity(&self) -> ResourceId {
        let text = |pointer: &str| self.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let namespace = text("/metadata/namespace");
        ResourceId {
            group: text("/apiVersion").rsplit_once('/').map_or("", |(group, _)| group).to_owned(),
            kind: text("/kind").to_owned(),
            namespace: if namespace.is_empty() { "default" } else { namespace }.to_owned(),
            name: text("/metadata/name").to_owned(),
        }
    }

    /// Returns a problem at the start of this document.
    pub(crate) fn problem(&self, message: impl Into<String>) -> Problem {
        self.problem_at(TextPosition { line: self.line, column: self.column }, message)
    }

    /// Returns a problem at a position in this document.
    pub(crate) fn problem_at(&self, place: TextPosition, message: impl Into<String>) -> Problem {
        Problem::new(&self.file, place, message)
    }
}

/// Reads one file. Returns the valid documents, and the problems of the others.
///
/// A name that ends with `.json` is read as JSON (one or more values), every other one as YAML.
pub(crate) fn read(path: &Path) -> (Vec<Document>, Vec<Problem>) {
    match read_bounded(path) {
        Ok(bytes) => read_bytes(path, &bytes),
        Err(message) => (Vec::new(), vec![Problem::new(path, TextPosition::START, message)]),
    }
}

fn read_bounded(path: &Path) -> Result<Vec<u8>, String> {
    let read =
        homeostat_files::read(path, FILE_BYTES_MAX).map_err(|error| format!("the file cannot be read: {error}"))?;
    read.ok_or_else(|| format!("the file is larger than {} MiB; split it", FILE_BYTES_MAX >> 20))
}

/// Reads the bytes of a file or of standard input. Problems use `file` as the name.
pub(crate) fn read_bytes(file: &Path, bytes: &[u8]) -> (Vec<Document>, Vec<Problem>) {
    let text = match utf8(file, bytes) {
        Ok(text) => text,
        Err(problem) => return (Vec::new(), vec![problem]),
    };
    let mut reader = ManifestParser { file, documents: Vec::new(), problems: Vec::new() };
    let parts = if file.extension().is_some_and(|extension| extension == "json") {
        let (parts, fault) = located_value::split_json(text);
        reader.problems.extend(fault.map(|fault| Problem::new(file, fault.place, fault.message)));
        parts
    } else {
        located_value::split(text)
    };
    for part in &parts {
        reader.part(part);
    }
    reader.problems.sort_by_key(|problem| (problem.line, problem.column));
    (reader.documents, reader.problems)
}

/// Returns the text of a file, without its byte order mark.
fn utf8<'a>(file: &Path, bytes: &'a [u8]) -> Result<&'a str, Problem> {
    let problem =
        |error: Utf8Error| Problem::new(file, not_utf8(bytes, error.valid_up_to()), "the file is not UTF-8 text");
    let text = std::str::from_utf8(bytes).map_err(problem)?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

fn not_utf8(bytes: &[u8], valid_bytes: usize) -> TextPosition {
    let before = String::from_utf8_lossy(&bytes[..valid_bytes]);
    let last_line = before.rsplit('\n').next().unwrap_or_default();
    TextPosition { line: before.matches('\n').count() as u64 + 1, column: last_line.chars().count() as u64 + 1 }
}

/// A file of one document, which is no resource, with the positions of its fields.
pub(crate) struct SingleDocument<T> {
    pub(crate) value: T,
    file: PathBuf,
    root: LocatedValue,
}

impl<T: DeserializeOwned> SingleDocument<T> {
    /// Reads a file.
    ///
    /// # Errors
    /// The first problem: the file cannot be read, has no document or several, or the document is no `T`.
    pub(crate) fn read(path: &Path) -> Result<Self, Problem> {
        let bytes = read_bounded(path).map_err(|message| Problem::new(path, TextPosition::START, message))?;
        Self::parse(path, &bytes)
    }

    /// Parses the bytes of `file`.
    ///
    /// # Errors
    /// As [`SingleDocument::read`].
    pub(crate) fn parse(file: &Path, bytes: &[u8]) -> Result<Self, Problem> {
        let parts = located_value::split(utf8(file, bytes)?);
        let problem = |fault: SyntaxFault| Problem::new(file, fault.place, fault.message);
        let [part] = &parts[..] else {
            let place =
                parts.get(1).map_or(TextPosition::START, |second| TextPosition::at_line(second.lines_before + 1));
            return Err(Problem::new(file, place, format!("expected one document, found {}", parts.len())));
        };
        let root = located_value::parse(part).map_err(problem)?;
        let value = located_value::parse_as(part, &root).map_err(problem)?;
        Ok(Self { value, file: file.to_owned(), root })
    }
}

impl<T> SingleDocument<T> {
    /// Returns the position of the value at a dotted path, as `stores.0.name`, or of its innermost existing parent.
    pub(crate) fn place(&self, path: &str) -> TextPosition {
        self.root.find(path)
    }

    /// Returns a problem at the value of a dotted path.
    pub(crate) fn problem(&self, path: &str, message: impl Into<String>) -> Problem {
        Problem::new(&self.file, self.place(path), message)
    }
}

struct ManifestParser<'a> {
    file: &'a Path,
    documents: Vec<Document>,
    problems: Vec<Problem>,
}

impl ManifestParser<'_> {
    fn part(&mut self, part: &DocumentText<'_>) {
        match located_value::parse(part) {
            Ok(LocatedValue { node: Node::Null, .. }) => {}
            Ok(root) => match list_items(&root) {
                Some(items) => {
                    items.iter().for_each(|item| self.document(item, located_value::item(part, item).as_ref()))
                }
                None => self.document(&root, Some(part)),
            },
            Err(SyntaxFault { place, message }) => self.problem(place, message),
        }
    }

    fn problem(&mut self, place: TextPosition, message: impl Into<String>) {
        self.problems.push(Problem::new(self.file, place, message));
    }

    /// Adds one resource. `part` is its text, if that contains nothing else.
    fn document(&mut self, root: &LocatedValue, part: Option<&DocumentText<'_>>) {
        if self.documents.len() >= DOCUMENTS_MAX {
            if self.documents.len() == DOCUMENTS_MAX
                && !self.problems.iter().any(|problem| problem.message.starts_with("more than"))
            {
                self.problem(root.place, format!("more than {DOCUMENTS_MAX} documents in one file; split it"));
            }
            return;
        }
        let header = match Header::check(root) {
            Ok(header) => header,
            Err(faults) => return faults.into_iter().for_each(|fault| self.problem(fault.place, fault.message)),
        };
        match header.controller(root, part) {
            Ok(controller) => self.documents.push(Document {
                value: root.to_value(),
                controller,
                file: self.file.to_owned(),
                line: root.place.line,
                column: root.place.column,
                kind_place: header.kind_place,
                name_place: header.name_place,
            }),
            Err(faults) => faults.into_iter().for_each(|fault| self.problem(fault.place, fault.message)),
        }
    }
}

/// Returns the items if the document is a list of resources, as `kubectl get -o yaml` prints it.
fn list_items(root: &LocatedValue) -> Option<&[LocatedValue]> {
    let text = |key| root.entry(key).and_then(|entry| entry.value.text());
    match &root.entry("items")?.value.node {
        Node::List(items) if text("kind")?.ends_with("List") && text("apiVersion").is_some() => Some(items),
        _ => None,
    }
}

impl LocatedValue {
    fn text(&self) -> Option<&str> {
        match &self.node {
            Node::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// The required fields of every resource.
struct Header<'a> {
    api_version: &'a str,
    kind: &'a str,
    api_version_place: TextPosition,
    kind_place: TextPosition,
    name_place: TextPosition,
}

impl<'a> Header<'a> {
    /// Finds the fields, or returns every fault in them.
    fn check(root: &'a LocatedValue) -> Result<Self, Vec<SyntaxFault>> {
        if !matches!(root.node, Node::Mapping(_)) {
            let message =
                format!("expected a mapping with `apiVersion`, `kind` and `metadata`, found {}", root.describe());
            return Err(vec![SyntaxFault { place: root.place, message }]);
        }
        let api_version = required(root, root.place, "apiVersion", "apiVersion", "apps/v1");
        let kind = required(root, root.place, "kind", "kind", "Deployment");
        let name = match root.entry("metadata") {
            Some(entry) if matches!(entry.value.node, Node::Mapping(_)) => {
                required(&entry.value, entry.key_place, "name", "metadata.name", "web").and_then(|name| {
                    if entry.value.entry("namespace").is_some() {
                        required(&entry.value, entry.key_place, "namespace", "metadata.namespace", "default")?;
                    }
                    Ok(name)
                })
            }
            Some(entry) => Err(SyntaxFault {
                place: entry.value.place,
                message: format!("`metadata` must be a mapping with a `name`, found {}", entry.value.describe()),
            }),
            None => Err(missing(root.place, "metadata.name", "web")),
        };
        match (api_version, kind, name) {
            (Ok((api_version, api_version_place)), Ok((kind, kind_place)), Ok((_, name_place))) => {
                Ok(Self { api_version, kind, api_version_place, kind_place, name_place })
            }
            (api_version, kind, name) => {
                Err([api_version.err(), kind.err(), name.err()].into_iter().flatten().collect())
            }
        }
    }

    /// Parses the document if it is a controller. `part` is its text, if that contains nothing else.
    fn controller(
        &self,
        root: &LocatedValue,
        part: Option<&DocumentText<'_>>,
    ) -> Result<Option<Box<Manifest>>, Vec<SyntaxFault>> {
        let group = API_VERSION.split('/').next();
        if self.kind != KIND || self.api_version.split('/').next() != group {
            return Ok(None);
        }
        if self.api_version != API_VERSION {
            let message = format!("this host reads controllers of `{API_VERSION}`, not of `{}`", self.api_version);
            return Err(vec![SyntaxFault { place: self.api_version_place, message }]);
        }
        let manifest: Manifest = match part {
            Some(part) => located_value::parse_as(part, root).map_err(|fault| vec![fault])?,
            None => serde_json::from_value(root.to_value())
                .map_err(|error| vec![SyntaxFault { place: root.place, message: error.to_string() }])?,
        };
        let fault =
            |problem: OutOfBounds| SyntaxFault { place: root.find(problem.field), message: problem.to_string() };
        match manifest.spec.check() {
            Ok(_) => Ok(Some(Box::new(manifest))),
            Err(problems) => Err(problems.into_iter().map(fault).collect()),
        }
    }
}

/// Returns the string in a required field, and its position.
fn required<'a>(
    parent: &'a LocatedValue,
    parent_place: TextPosition,
    key: &str,
    path: &str,
    example: &str,
) -> Result<(&'a str, TextPosition), SyntaxFault> {
    let Some(entry) = parent.entry(key) else {
        return Err(missing(parent_place, path, example));
    };
    match &entry.value.node {
        Node::Text(text) if !text.is_empty() => Ok((text, entry.value.place)),
        Node::Text(_) | Node::Null => {
            Err(SyntaxFault { place: entry.key_place, message: format!("`{path}` must not be empty") })
        }
        Node::Number(_) | Node::Bool(_) => {
            let message = format!("`{path}` must be text, found {}; put it in quotes", entry.value.describe());
            Err(SyntaxFault { place: entry.value.place, message })
        }
        _ => Err(SyntaxFault {
            place: entry.value.place,
            message: format!("`{path}` must be text, found {}", entry.value.describe()),
        }),
    }
}

fn missing(place: TextPosition, path: &str, example: &str) -> SyntaxFault {
    SyntaxFault { place, message: format!("`{path}` is missing; every document needs one, as `{path}: {example}`") }
}

/// Removes documents with the identity of an earlier one. The first one stays.
pub(crate) fn take_duplicates(documents: &mut Vec<Document>) -> Vec<Problem> {
    let mut first: HashMap<ResourceId, (PathBuf, TextPosition)> = HashMap::new();
    let mut problems = Vec::new();
    documents.retain(|document| {
        let mut identity = document.identity();
        if document.controller.is_some() {
            // Controllers are cluster-scoped.
            identity.namespace.clear();
        }
        let Some((file, place)) = first.get(&identity) else {
            first.insert(identity, (document.file.clone(), document.name_place));
            return true;
        };
        let first = format!("{}:{}:{}", file.display(), place.line, place.column);
        problems.push(
            document
                .problem_at(document.name_place, format!("{identity} is defined twice; the one at {first} is used")),
        );
        false
    });
    problems
}

#[cfg(test)]
mod tests;
