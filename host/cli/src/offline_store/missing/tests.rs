use std::path::PathBuf;

use super::*;

#[test]
fn each_missing_component_is_listed_once_with_its_revisions_and_sources() {
    let digests = [Digest::of(b"one"), Digest::of(b"two")];
    let of = |revisions: &[&str], sources: &[&str]| ComponentUse {
        revisions: revisions.iter().map(|&name| name.to_owned()).collect(),
        sources: sources.iter().map(|&source| source.to_owned()).collect(),
    };
    let missing = BTreeMap::from([
        (digests[0].clone(), of(&["a-1", "b-3"], &["a.wasm", "ghcr.io/acme/a:1"])),
        (digests[1].clone(), of(&["c-1"], &["no known source"])),
    ]);
    let told = text(&missing, &PathBuf::from("data/components"));
    assert!(told.contains("name 2 components"), "{told}");
    assert!(told.contains(&format!("{} (a-1, b-3): from a.wasm; or from ghcr.io/acme/a:1\n", digests[0])), "{told}");
    assert!(told.contains(&format!("{} (c-1): from no known source\n", digests[1])), "{told}");
    let many = (0..30_u8).map(|number| (Digest::of(&[number]), of(&["x-1"], &["x.wasm"]))).collect();
    assert!(text(&many, &PathBuf::from("c")).contains("  and 10 more\n"));
}
