//! Keys of resources as subjects, and back.
//!
//! The value of a resource has the subject `$KV.BUCKET.PREFIX.r.GROUP.KIND.NAMESPACE.NAME`, so that wildcards
//! select a kind. `m.` has what the store keeps about itself. Each part is one token: letters, digits, `_`
//! and `-` stand for themselves, and every other byte is written as `=XX`. An empty part is `=`. So each key
//! has one subject, each subject at most one key, and programs that read buckets can read them all.

#[cfg(test)]
mod tests;

use homeostat_fleet::LeaseName;
use homeostat_store::{Error, Key, Kind, Result};

/// Longest subject, in bytes. Servers read a command line of up to 4,096 bytes, which has the reply subject
/// and the lengths as well.
const SUBJECT_BYTES_MAX: usize = 3 << 10;
/// The longest dot and number of a lane, in bytes.
const LANE_BYTES_MAX: usize = 21;

/// The subjects of one store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subjects {
    /// `$KV.BUCKET.PREFIX.`, with the dot.
    root: String,
}

/// The resource that a subject is about; its version is not part of the subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SubjectParts {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Subjects {
    /// Takes the settings of the same names, which are checked.
    pub(crate) fn new(bucket: &str, prefix: &str) -> Self {
        let dot = if prefix.is_empty() { "" } else { "." };
        Self { root: format!("$KV.{bucket}.{prefix}{dot}") }
    }

    /// Returns the subject of a resource.
    ///
    /// # Errors
    /// `Invalid` for a key whose subject would be too long for a server.
    pub(crate) fn resource(&self, key: &Key) -> Result<String> {
        let mut subject = self.of_kind(key.kind());
        for part in [key.namespace(), key.name()] {
            subject.push('.');
            push_token(&mut subject, part);
        }
        if subject.len() > SUBJECT_BYTES_MAX {
            let reason = format!("is too long for a subject of NATS, which has {SUBJECT_BYTES_MAX} bytes at most");
            return Err(Error::invalid("metadata.name", reason));
        }
        Ok(subject)
    }

    /// Returns the filter of all resources of a kind.
    pub(crate) fn kind(&self, kind: &Kind) -> String {
        self.of_kind(kind) + ".>"
    }

    /// Returns the subject of the store's own entry.
    pub(crate) fn store(&self) -> String {
        format!("{}m.store", self.root)
    }

    /// Returns the subject of the entry that says that a kind was written.
    pub(crate) fn written_kind(&self, kind: &Kind) -> String {
        let mut subject = format!("{}m.kind.", self.root);
        push_token(&mut subject, &kind.group);
        for part in [&kind.name, &kind.version] {
            subject.push('.');
            push_token(&mut subject, part);
        }
        subject
    }

    /// Returns the filter of the entries of [`Subjects::written_kind`].
    pub(crate) fn written_kinds(&self) -> String {
        format!("{}m.kind.>", self.root)
    }

    /// Returns the subject of the record of a lease.
    ///
    /// # Errors
    /// `Invalid` for a controller without a name, or whose subject would be too long for a server.
    pub(crate) fn lease(&self, lease: &LeaseName) -> Result<String> {
        self.of_lease("lease", lease)
    }

    /// Returns the filter of the records of all leases.
    pub(crate) fn leases(&self) -> String {
        format!("{}m.lease.>", self.root)
    }

    /// Returns the lease of a subject; `None` for every subject that [`Subjects::lease`] does not write.
    pub(crate) fn lease_of(&self, subject: &str) -> Option<LeaseName> {
        let (controller, shard) = subject.strip_prefix(&self.root)?.strip_prefix("m.lease.")?.split_once('.')?;
        let (shard, shards) = shard.split_once("-of-")?;
        let lease = LeaseName::new(&part_of(controller)?, shard.parse().ok()?, shards.parse().ok()?)?;
        self.lease(&lease).is_ok_and(|own| own == subject).then_some(lease)
    }

    /// Returns the subject of one lane of the fence of a lease.
    ///
    /// # Errors
    /// As [`Subjects::lease`].
    pub(crate) fn fence(&self, lease: &LeaseName, lane: u64) -> Result<String> {
        Ok(format!("{}.{lane}", self.of_lease("fence", lease)?))
    }

    /// Returns the subject of the message that carries the check of a fence.
    ///
    /// # Errors
    /// As [`Subjects::lease`].
    pub(crate) fn check(&self, lease: &LeaseName) -> Result<String> {
        self.of_lease("check", lease)
    }

    fn of_lease(&self, entry: &str, lease: &LeaseName) -> Result<String> {
        if lease.controller().is_empty() {
            return Err(Error::invalid("metadata.name", "must not be empty"));
        }
        let mut subject = format!("{}m.{entry}.", self.root);
        push_token(&mut subject, lease.controller());
        subject.push_str(&format!(".{}-of-{}", lease.shard(), lease.count()));
        // A lane has less than this.
        if subject.len() + LANE_BYTES_MAX > SUBJECT_BYTES_MAX {
            return Err(Error::invalid("metadata.name", "is too long for the lease of a controller"));
        }
        Ok(subject)
    }

    /// Returns the resource that a subject is about; `None` for every subject that [`Subjects::resource`]
    /// does not write.
    pub(crate) fn address(&self, subject: &str) -> Option<SubjectParts> {
        let mut tokens = subject.strip_prefix(&self.root)?.strip_prefix("r.")?.split('.').map(part_of);
        let mut next = || tokens.next().flatten();
        let address = SubjectParts { group: next()?, kind: next()?, namespace: next()?, name: next()? };
        tokens.next().is_none().then_some(address)
    }

    /// Returns the kind of an entry of [`Subjects::written_kind`].
    pub(crate) fn kind_of(&self, subject: &str) -> Option<Kind> {
        let mut tokens = subject.strip_prefix(&self.root)?.strip_prefix("m.kind.")?.split('.').map(part_of);
        let mut next = || tokens.next().flatten();
        let (group, name, version) = (next()?, next()?, next()?);
        tokens.next().is_none().then(|| Kind::new(group, version, name))
    }

    fn of_kind(&self, kind: &Kind) -> String {
        let mut subject = String::with_capacity(self.root.len() + 96);
        subject.push_str(&self.root);
        subject.push_str("r.");
        push_token(&mut subject, &kind.group);
        subject.push('.');
        push_token(&mut subject, &kind.name);
        subject
    }
}

impl SubjectParts {
    /// Returns the key, in the given version of its kind.
    pub(crate) fn key(&self, version: &str) -> Key {
        Key::new(Kind::new(self.group.as_str(), version, self.kind.as_str()), &self.namespace, &self.name)
    }

    /// Returns whether a key is about the same resource.
    pub(crate) fn is_of(&self, key: &Key) -> bool {
        let Self { group, kind, namespace, name } = self;
        (group, kind) == (&key.kind().group, &key.kind().name) && namespace == key.namespace() && name == key.name()
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn push_token(subject: &mut String, part: &str) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    if part.is_empty() {
        subject.push('=');
    }
    for byte in part.bytes() {
        if is_plain(byte) {
            subject.push(char::from(byte));
        } else {
            subject.push('=');
            subject.push(char::from(DIGITS[usize::from(byte >> 4)]));
            subject.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
}

/// Returns the part that a token stands for; `None` for a token that [`push_token`] does not write.
fn part_of(token: &str) -> Option<String> {
    if token == "=" {
        return Some(String::new());
    }
    let mut part = Vec::with_capacity(token.len());
    let mut bytes = token.bytes();
    while let Some(byte) = bytes.next() {
        let byte = match byte {
            b'=' => digit(bytes.next()?)? << 4 | digit(bytes.next()?)?,
            plain => plain,
        };
        part.push(byte);
    }
    let part = String::from_utf8(part).ok().filter(|part| !part.is_empty())?;
    let mut again = String::with_capacity(token.len());
    push_token(&mut again, &part);
    (again == token).then_some(part)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}
