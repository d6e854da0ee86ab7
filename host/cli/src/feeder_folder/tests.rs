use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;

use super::*;

fn everything() -> NameFilter {
    Arc::new(|_| true)
}

async fn opened(root: &Path, path: &str) -> Result<Box<dyn FolderWatch>, String> {
    AllowedFolder(root.to_owned()).open(path).await
}

#[tokio::test]
async fn a_folder_outside_of_the_allowed_one_cannot_be_opened() {
    let scratch = tempfile::tempdir().unwrap();
    let (root, other) = (scratch.path().join("root"), scratch.path().join("other"));
    fs::create_dir_all(root.join("in")).unwrap();
    fs::create_dir(&other).unwrap();
    symlink(&other, root.join("out")).unwrap();
    symlink(root.join("in"), root.join("also-in")).unwrap();
    fs::write(root.join("file"), "").unwrap();
    for path in ["out", "../other", "missing", "file", "/etc"] {
        assert!(opened(&root, path).await.is_err(), "{path}");
    }
    for path in ["", "in", "also-in"] {
        assert!(opened(&root, path).await.is_ok(), "{path}");
    }
}

#[tokio::test]
async fn a_list_has_regular_files_and_a_stamp_that_changes_with_each() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("a.json"), "one").unwrap();
    fs::write(root.path().join("b.txt"), "one").unwrap();
    fs::create_dir(root.path().join("c.json")).unwrap();
    symlink("/etc/passwd", root.path().join("d.json")).unwrap();
    let mut watch = opened(root.path(), "").await.unwrap();
    let accepts: NameFilter = Arc::new(|name| name.ends_with(".json"));
    let first = watch.list(accepts.clone(), 10).await.unwrap();
    assert_eq!(first.keys().collect::<Vec<_>>(), ["a.json"]);
    assert_eq!(watch.list(accepts.clone(), 10).await.unwrap(), first);
    fs::write(root.path().join("new"), "two").unwrap();
    fs::rename(root.path().join("new"), root.path().join("a.json")).unwrap();
    assert_ne!(watch.list(accepts, 10).await.unwrap(), first, "it has the same size");
}

#[tokio::test]
async fn a_list_beyond_its_bound_is_refused() {
    let root = tempfile::tempdir().unwrap();
    (0..3).for_each(|number| fs::write(root.path().join(number.to_string()), "").unwrap());
    let mut watch = opened(root.path(), "").await.unwrap();
    assert_eq!(watch.list(everything(), 3).await.unwrap().len(), 3);
    assert!(watch.list(everything(), 2).await.unwrap_err().contains("more than 2"));
}
