use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use homeostat_component::layers::Secrets;

use super::{BYTES_MAX, SecretFolder};

fn write(folder: &Path, name: &str, bytes: &[u8], mode: u32) {
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

async fn get(folder: &Path, name: &str) -> Result<Vec<u8>, String> {
    SecretFolder(folder.to_owned()).get(name).await.map(|secret| secret.to_vec())
}

#[tokio::test]
async fn a_secret_is_the_current_content_of_its_file_without_the_last_newline() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "token", b"Bearer one\n", 0o600);
    assert_eq!(get(folder.path(), "token").await.unwrap(), b"Bearer one");
    write(folder.path(), "token", b"Bearer two\r\n", 0o400);
    assert_eq!(get(folder.path(), "token").await.unwrap(), b"Bearer two");
}

#[tokio::test]
async fn a_secret_that_others_can_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "token", b"hunter2", 0o640);
    let why = get(folder.path(), "token").await.unwrap_err();
    assert!(why.contains("chmod 600") && !why.contains("hunter2"), "{why}");
}

#[tokio::test]
async fn a_secret_that_no_header_can_carry_is_refused_and_not_printed() {
    let folder = tempfile::tempdir().unwrap();
    for bytes in [&b""[..], b"\n", b"a\nhunter2", b"a\0hunter2", &vec![b'h'; BYTES_MAX + 1]] {
        write(folder.path(), "token", bytes, 0o600);
        let why = get(folder.path(), "token").await.unwrap_err();
        assert!(!why.contains("hunter2") && !why.contains("hhh"), "{why}");
    }
}

#[tokio::test]
async fn a_secret_name_stays_in_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("secrets")).unwrap();
    write(folder.path(), "token", b"hunter2", 0o600);
    for name in ["../token", "/etc/passwd", "..", ".", "", "a/b", ".hidden"] {
        assert!(get(&folder.path().join("secrets"), name).await.is_err(), "{name:?}");
    }
    assert!(get(&folder.path().join("secrets"), "token").await.unwrap_err().contains("secrets/token"));
}
