//! The resources of a kind whose documents this host cannot read. The cache leaves them out, and says so. Pure.

use std::collections::BTreeMap;

use crate::model::Path;
use crate::{Error, Key};

/// Resources that are kept here by name. Beyond them, reads of resources that the cache lacks ask the server.
pub(crate) const UNREADABLE_MAX: usize = 1024;
/// Longest reason, in bytes.
const REASON_BYTES_MAX: usize = 512;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct UnreadableDocuments {
    reasons: BTreeMap<Path, (Key, String)>,
    /// Whether there may be others, which are not kept.
    has_more: bool,
}

impl UnreadableDocuments {
    /// Adds a resource, with the reason for a person.
    pub(crate) fn insert(&mut self, key: &Key, reason: &str) {
        let path = Path::of(key);
        let is_known = self.reasons.contains_key(&path);
        if !is_known && self.reasons.len() >= UNREADABLE_MAX {
            self.has_more = true;
            return;
        }
        if !is_known {
            tracing::warn!(%key, reason = ?reason, "a resource is left out: its document cannot be read");
        }
        let reason = reason[..reason.floor_char_boundary(REASON_BYTES_MAX)].to_owned();
        self.reasons.insert(path, (key.clone(), reason));
    }

    /// Removes a resource, which can be read or is gone.
    pub(crate) fn remove(&mut self, path: &Path) {
        self.reasons.remove(path);
    }

    /// Returns the error of reads and writes of a resource, if it is one of these.
    pub(crate) fn error(&self, path: &Path) -> Option<Error> {
        self.reasons.get(path).map(|(key, reason)| Error::unreadable(key, reason))
    }

    /// Returns whether a resource that the cache lacks may be one of these.
    pub(crate) fn has_more(&self) -> bool {
        self.has_more
    }

    pub(crate) fn len(&self) -> usize {
        self.reasons.len()
    }

    /// Returns what a person should know; `None` if every document can be read.
    pub(crate) fn describe(&self) -> Option<String> {
        let (key, reason) = self.reasons.values().next()?;
        let others = match self.reasons.len() - 1 {
            0 => String::new(),
            _ if self.has_more => format!("; the same holds for {UNREADABLE_MAX} or more others of the kind"),
            1 => "; the same holds for 1 other of the kind".to_owned(),
            others => format!("; the same holds for {others} others of the kind"),
        };
        Some(format!("{key} is left out, its document cannot be read ({reason}){others}"))
    }
}

#[cfg(test)]
mod tests {
    use super::{UNREADABLE_MAX, UnreadableDocuments};
    use crate::fixture::widget_key;
    use crate::model::Path;

    #[test]
    fn unreadable_documents_are_kept_up_to_a_bound() {
        let key = |at: usize| widget_key(&format!("w{at:05}"));
        let mut documents = UnreadableDocuments::default();
        assert_eq!(documents.describe(), None);
        for at in 0..UNREADABLE_MAX {
            documents.insert(&key(at), &"x".repeat(100_000));
        }
        assert!(!documents.has_more());
        documents.insert(&key(UNREADABLE_MAX), "no");
        assert_eq!((documents.len(), documents.has_more()), (UNREADABLE_MAX, true));
        assert_eq!(documents.error(&Path::of(&key(UNREADABLE_MAX))), None);
        let error = documents.error(&Path::of(&key(3))).expect("it is kept").to_string();
        assert!(
            error.contains("demo.dev/v1/Widget default/w00003 cannot be read: xxx") && error.len() < 1000,
            "{error}"
        );
        documents.remove(&Path::of(&key(3)));
        assert_eq!(documents.error(&Path::of(&key(3))), None);
        assert!(documents.describe().is_some_and(|text| text.ends_with("1024 or more others of the kind")));
    }
}
