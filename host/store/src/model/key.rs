//! The key of a resource, and the order of keys in a store.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Kind, Result, validate};

/// Kind, namespace and name: the subject of a reconcile. Cheap to clone; equal by content.
///
/// Stores order resources by group, kind name, namespace and name. Two keys that differ only in the version
/// are different keys of the same resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Key(Arc<Parts>);

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    /// Most keys share their kind with others: see [`Key::of_kind`].
    kind: Arc<Kind>,
    #[serde(default)]
    namespace: Box<str>,
    name: Box<str>,
}

impl Key {
    /// Creates a key without checking its parts. `namespace` is empty for cluster-scoped kinds.
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        Self::of_kind(Arc::new(kind), namespace, name)
    }

    /// Creates a key that shares its kind: a cache has thousands of keys of one kind.
    pub(crate) fn of_kind(kind: Arc<Kind>, namespace: &str, name: &str) -> Self {
        Self(Arc::new(Parts { kind, namespace: namespace.into(), name: name.into() }))
    }

    /// Returns the kind.
    pub fn kind(&self) -> &Kind {
        &self.0.kind
    }

    /// Returns the namespace; empty for cluster-scoped kinds.
    pub fn namespace(&self) -> &str {
        &self.0.namespace
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Checks the namespace and the name.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid), with the rule.
    pub fn check(&self) -> Result<()> {
        validate::key(self)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.0.kind)?;
        if !self.0.namespace.is_empty() {
            write!(f, "{}/", self.0.namespace)?;
        }
        f.write_str(&self.0.name)
    }
}

/// A key encoded as bytes, for ordered storage: group, kind name, namespace and name, most significant first.
///
/// Byte order equals the order of the parts, for any text: each part ends with `00 01`, and a zero byte
/// inside a part is written as `00 FF`. The version is omitted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Path(pub(crate) Vec<u8>);

impl Path {
    /// Returns the path of one resource.
    pub(crate) fn of(key: &Key) -> Self {
        let Kind { group, version: _, name } = key.kind();
        Self(encode(&[group, name, key.namespace(), key.name()]))
    }

    /// Returns the common prefix of the paths of a kind, or of one of its namespaces.
    pub(crate) fn prefix(kind: &Kind, namespace: Option<&str>) -> Self {
        match namespace {
            Some(namespace) => Self(encode(&[&kind.group, &kind.name, namespace])),
            None => Self(encode(&[&kind.group, &kind.name])),
        }
    }

    /// Returns the first path after all paths with this prefix.
    pub(crate) fn end(&self) -> Self {
        let mut end = self.0.clone();
        // The last byte is the 01 that ends a part.
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        Self(end)
    }
}

/// Returns the prefix of one owner's entries in the owner index; the path of the dependent follows.
pub(crate) fn owner_prefix(uid: &str) -> Vec<u8> {
    encode(&[uid])
}

/// Encodes texts so that byte order equals the order of the texts: see [`Path`].
pub(crate) fn encode(parts: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(parts.iter().map(|part| part.len() + 2).sum());
    for part in parts {
        for byte in part.bytes() {
            bytes.push(byte);
            if byte == 0 {
                bytes.push(0xFF);
            }
        }
        bytes.extend([0, 1]);
    }
    bytes
}

/// Returns the texts of [`encode`]; `None` for other bytes.
pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<String>> {
    let (mut parts, mut part) = (Vec::new(), Vec::new());
    let mut bytes = bytes.iter();
    while let Some(byte) = bytes.next() {
        match (byte, if *byte == 0 { bytes.next() } else { None }) {
            (0, Some(1)) => parts.push(String::from_utf8(std::mem::take(&mut part)).ok()?),
            (0, Some(0xFF)) => part.push(0),
            (0, _) => return None,
            (byte, _) => part.push(*byte),
        }
    }
    part.is_empty().then_some(parts)
}
