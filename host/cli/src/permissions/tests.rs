use tempfile::TempDir;

use super::*;

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().permissions().mode() & 0o777
}

/// Creates a data folder with the permissions of older hosts: everything is open to everybody.
fn open_to_all() -> TempDir {
    let folder = TempDir::new().unwrap();
    let data = folder.path();
    fs::create_dir(data.join(COMPONENTS)).unwrap();
    fs::create_dir(data.join(COMPONENTS).join("below")).unwrap();
    for name in ["store.redb", "store.redb.1.new", "tls.crt", "components/a.wasm", "components/below/b"] {
        fs::write(data.join(name), "").unwrap();
        fs::set_permissions(data.join(name), Permissions::from_mode(0o666)).unwrap();
    }
    for name in ["components/below", "components", ""] {
        fs::set_permissions(data.join(name), Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

#[test]
fn access_of_other_users_is_removed() {
    let folder = open_to_all();
    let data = folder.path();
    assert_eq!(restrict(data).unwrap(), Some(Repair { first: data.to_owned(), count: 8 }));
    for (name, wanted) in [
        ("", FOLDER),
        ("components", FOLDER),
        ("components/below", FOLDER),
        ("store.redb", FILE_MODE),
        ("store.redb.1.new", FILE_MODE),
        ("tls.crt", FILE_MODE),
        ("components/a.wasm", FILE_MODE),
        ("components/below/b", FILE_MODE),
    ] {
        assert_eq!(mode(&data.join(name)), wanted, "{name}");
    }
    assert_eq!(restrict(data).unwrap(), None, "nothing is left to mend");
}

#[test]
fn other_files_and_their_folder_keep_their_mode() {
    let folder = open_to_all();
    let data = folder.path();
    let elsewhere = TempDir::new().unwrap();
    let target = elsewhere.path().join("target");
    for path in [&data.join("notes"), &target] {
        fs::write(path, "").unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
    }
    std::os::unix::fs::symlink(&target, data.join(COMPONENTS).join("link")).unwrap();
    assert_eq!(restrict(data).unwrap().unwrap().count, 7);
    assert_eq!((mode(data), mode(&data.join("notes")), mode(&target)), (0o755, 0o644, 0o644));
    assert_eq!(mode(&data.join("store.redb")), FILE_MODE);
}

#[test]
fn the_default_data_folder_is_restricted_despite_other_files() {
    let folder = open_to_all();
    let data = folder.path().join(".homeostat");
    fs::create_dir(&data).unwrap();
    fs::write(data.join(".DS_Store"), "").unwrap();
    fs::set_permissions(&data, Permissions::from_mode(0o755)).unwrap();
    assert_eq!(restrict(&data).unwrap(), Some(Repair { first: data.clone(), count: 1 }));
    assert_eq!(mode(&data), FOLDER);
}
