//! Warnings about files of volumes that hide each other.

use serde_json::Value;

use crate::rules::report::{items, text};

/// Files of one volume that are compared with each other.
const FILES_MAX: usize = 256;
/// Warnings of the volumes of a pod. A response has fewer.
const WARNINGS_MAX: usize = 256;

/// A file of a volume.
struct VolumeFile {
    path: String,
    /// The origin of the file; empty where the volume names it.
    source: String,
}

impl VolumeFile {
    fn new(path: &Value, source: &str) -> Self {
        Self { path: text(path).trim_end_matches('/').to_owned(), source: source.to_owned() }
    }

    /// Returns whether one of two files is the other one, or below it.
    fn overlaps(&self, other: &Self) -> bool {
        let is_below = |one: &Self, other: &Self| {
            one.path.strip_prefix(&other.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        !self.path.is_empty() && !other.path.is_empty() && (is_below(self, other) || is_below(other, self))
    }

    fn shown(&self) -> String {
        let Self { path, source } = self;
        if source.is_empty() { format!("{path:?}") } else { format!("{path:?} ({source})") }
    }
}

/// Returns the warnings of the volumes of a pod.
pub(super) fn of_volumes(volumes: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for volume in items(volumes) {
        let name = text(&volume["name"]);
        let sources = [
            (&volume["configMap"], format!("ConfigMap {:?}", text(&volume["configMap"]["name"]))),
            (&volume["secret"], format!("Secret {:?}", text(&volume["secret"]["secretName"]))),
            (&volume["downwardAPI"], "DownwardAPI".to_owned()),
        ];
        for (source, shown) in sources {
            found.extend(overlaps(files(&source["items"], ""), name, &shown));
        }
        found.extend(of_projected(&volume["projected"], name));
        if found.len() >= WARNINGS_MAX {
            break;
        }
    }
    found
}

/// Returns the warnings of a volume of several sources.
fn of_projected(volume: &Value, name: &str) -> Vec<String> {
    let (mut found, mut all) = (Vec::new(), Vec::new());
    for source in items(&volume["sources"]) {
        if source.as_object().is_none_or(serde_json::Map::is_empty) && found.len() < WARNINGS_MAX {
            found.push(format!("volume {name:?} (Projected) has no sources provided"));
        }
        all.extend(files_of(source));
    }
    found.extend(overlaps(all, name, "Projected"));
    found
}

/// Returns the files of one source of a projected volume.
fn files_of(source: &Value) -> Vec<VolumeFile> {
    let named = |kind: &str, name: &Value| format!("{kind} {:?}", text(name));
    let (map, secret) = (&source["configMap"], &source["secret"]);
    if map["items"].is_array() {
        return files(&map["items"], &named("ConfigMap", &map["name"]));
    }
    if secret["items"].is_array() {
        return files(&secret["items"], &named("Secret", &secret["name"]));
    }
    if source["downwardAPI"]["items"].is_array() {
        return files(&source["downwardAPI"]["items"], "DownwardAPI");
    }
    if source["serviceAccountToken"].is_object() {
        return vec![VolumeFile::new(&source["serviceAccountToken"]["path"], "ServiceAccountToken")];
    }
    Vec::new()
}

/// Returns the files that a list of keys makes.
fn files(keys: &Value, source: &str) -> Vec<VolumeFile> {
    items(keys).iter().map(|key| VolumeFile::new(&key["path"], source)).collect()
}

/// Returns a warning for each file of a volume that one before it hides.
fn overlaps(files: Vec<VolumeFile>, volume: &str, source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut known: Vec<VolumeFile> = Vec::new();
    for file in files.into_iter().take(FILES_MAX) {
        for other in known.iter().filter(|other| other.overlaps(&file)) {
            let (file, other) = (file.shown(), other.shown());
            found.push(format!("volume {volume:?} ({source}): overlapping paths: {file} with {other}"));
        }
        known.push(file);
        if found.len() >= WARNINGS_MAX {
            break;
        }
    }
    found
}
