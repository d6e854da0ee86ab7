//! The name of one resource, and the order in which stores file it.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Kind, Result, validate};

/// Kind, namespace and name: the one thing a reconcile is about. Cheap to clone; equal by content.
///
/// Stores file a resource under group, kind name, namespace and name: two keys that differ in the version alone are different keys that
/// mean the same resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Key(Arc<Parts>);

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    kind: Kind,
    #[serde(default)]
    namespace: String,
    name: String,
}

impl Key {
    /// Puts a key together without checking its parts. `namespace` is empty for kinds that live outside of namespaces.
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        Self(Arc::new(Parts { kind, namespace: namespace.to_owned(), name: name.to_owned() }))
    }

    /// Returns the kind.
    pub fn kind(&self) -> &Kind {
        &self.0.kind
    }

    /// Returns the namespace; empty for kinds that live outside of namespaces.
    pub fn namespace(&self) -> &str {
        &self.0.namespace
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Checks that a resource can have this namespace and this name.
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

/// A key as the bytes under which stores file it: group, kind name, namespace and name, in that order of significance.
///
/// Byte order is the order of the parts, for any text in them: each part ends with `00 01`, and a zero byte inside of a part is written
/// `00 FF`. The version is left out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Path(pub(crate) Vec<u8>);

impl Path {
    /// Returns the path of one resource.
    pub(crate) fn of(key: &Key) -> Self {
        let Kind { group, version: _, name } = key.kind();
        Self(encode(&[group, name, key.namespace(), key.name()]))
    }

    /// Returns what the paths of all resources of a kind begin with; of one namespace, where one is given.
    pub(crate) fn prefix(kind: &Kind, namespace: Option<&str>) -> Self {
        match namespace {
            Some(namespace) => Self(encode(&[&kind.group, &kind.name, namespace])),
            None => Self(encode(&[&kind.group, &kind.name])),
        }
    }

    /// Returns the first path behind all that begin with this one.
    pub(crate) fn end(&self) -> Self {
        let mut end = self.0.clone();
        // The last byte is the 01 that ends a part.
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        Self(end)
    }
}

/// Returns what the entries of the owner index for one owner begin with; the path of the dependent follows.
pub(crate) fn owner_prefix(uid: &str) -> Vec<u8> {
    encode(&[uid])
}

fn encode(parts: &[&str]) -> Vec<u8> {
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
