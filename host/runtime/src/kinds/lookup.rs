//! Questions to the registry of kinds. What is declared here counts before what a server defines.

use homeostat_store::Kind;

use super::{KindInfo, Kinds, id_of};
use crate::host_kinds;

impl Kinds {
    /// Returns every kind in every served version, by group and name, with the storage version first.
    pub fn list(&self) -> Vec<KindInfo> {
        self.each(|kinds| kinds.flat_map(KindInfo::served).collect())
    }

    /// Returns the kind of this group and name in its storage version; the version in `kind` is ignored.
    pub fn of(&self, kind: &Kind) -> Option<KindInfo> {
        let id = id_of(kind);
        let by_type = self.by_type.read();
        by_type.get(&id).cloned().or_else(|| self.of_servers.read().get(&id).cloned())
    }

    /// Returns exactly this kind, if this version is served.
    pub fn served(&self, kind: &Kind) -> Option<KindInfo> {
        let info = self.of(kind)?;
        info.served().find(|info| info.kind == *kind)
    }

    /// Returns exactly this kind, if controllers can name it in this version: the storage version, or any version of
    /// a kind that only a server defines.
    pub fn stored(&self, kind: &Kind) -> Option<KindInfo> {
        let info = self.by_type.read().get(&id_of(kind)).cloned();
        match info {
            Some(info) => Some(info).filter(|info| info.kind == *kind),
            None => self.served(kind),
        }
    }

    /// Returns whether controllers can name the kind in this version, as [`Kinds::stored`].
    pub fn stores(&self, kind: &Kind) -> bool {
        let id = id_of(kind);
        let by_type = self.by_type.read();
        by_type.get(&id).map_or_else(
            || self.of_servers.read().get(&id).is_some_and(|info| info.is_served_in(&kind.version)),
            |info| info.kind.version == kind.version,
        )
    }

    /// Finds a kind by plural, singular, short name or name, with or without `.group`. The host's own kinds come first.
    pub fn find(&self, name: &str) -> Option<KindInfo> {
        self.each(|kinds| {
            let named: Vec<&KindInfo> = kinds.filter(|info| info.is_called(name)).collect();
            // Kubernetes has a `ControllerRevision`, too.
            let own = named.iter().find(|info| info.kind.group == host_kinds::GROUP);
            own.or(named.first()).map(|info| (*info).clone())
        })
    }

    /// Finds a kind by its URL path.
    pub fn by_plural(&self, group: &str, version: &str, plural: &str) -> Option<KindInfo> {
        let meant = |info: &&KindInfo| info.kind.group == group && info.plural == plural && info.is_served_in(version);
        self.each(|mut kinds| kinds.find(meant)?.served().find(|info| info.kind.version == version))
    }

    /// Returns whether some built-in kind of Kubernetes is in this group and version.
    pub fn has_built_in_version(&self, group: &str, version: &str) -> bool {
        let is_meant = |info: &KindInfo| info.kind.group == group && info.is_served_in(version);
        self.each(|mut kinds| kinds.any(|info| info.built_in().is_some() && is_meant(info)))
    }

    /// Returns whether some built-in kind of Kubernetes is in this group.
    pub fn has_built_in_group(&self, group: &str) -> bool {
        self.each(|mut kinds| kinds.any(|info| info.built_in().is_some() && info.kind.group == group))
    }

    /// Returns at most three kinds with names similar to `name`.
    pub fn similar(&self, name: &str) -> Vec<String> {
        let wanted = name.to_lowercase();
        let near = |info: &KindInfo| {
            let distance = [&info.singular, &info.plural].into_iter().map(|known| distance(&wanted, known)).min();
            (distance.unwrap_or(usize::MAX), info.kind.to_string())
        };
        let mut names: Vec<(usize, String)> =
            self.each(|kinds| kinds.map(near).filter(|(distance, _)| *distance <= 2.max(wanted.len() / 3)).collect());
        names.sort();
        names.into_iter().take(3).map(|(_, name)| name).collect()
    }

    /// Calls a function with the declared kinds, then with those that only a server defines.
    fn each<T>(&self, ask: impl FnOnce(Box<dyn Iterator<Item = &KindInfo> + '_>) -> T) -> T {
        let by_type = self.by_type.read();
        let of_servers = self.of_servers.read();
        let others = of_servers.iter().filter(|(id, _)| !by_type.contains_key(*id)).map(|(_, info)| info);
        ask(Box::new(by_type.values().chain(others)))
    }
}

/// Returns the edit distance: letters to change, add or drop.
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
