use rustix::fs::{CWD, Mode};

use super::*;

#[test]
fn an_irregular_file_is_refused_at_once_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    rustix::fs::mkfifoat(CWD, &fifo, Mode::RUSR | Mode::WUSR).unwrap();
    let (socket, link) = (folder.path().join("socket"), folder.path().join("link"));
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    std::os::unix::fs::symlink(&fifo, &link).unwrap();
    for (path, says) in
        [(fifo.as_path(), "FIFO"), (&link, "FIFO"), (folder.path(), "folder"), (Path::new("/dev/zero"), "device")]
    {
        let error = read(path, 10).unwrap_err();
        assert!(error.to_string().contains(says), "{}: {error}", path.display());
    }
    assert!(open(&socket).is_err());
}

#[test]
fn a_pipe_that_is_open_already_is_read_to_its_end() {
    use std::io::Write;
    use std::os::fd::AsRawFd;

    let (reader, mut writer) = io::pipe().unwrap();
    writer.write_all(b"token").unwrap();
    drop(writer);
    let path = format!("/dev/fd/{}", reader.as_raw_fd());
    assert_eq!(read_text(Path::new(&path), 10).unwrap(), "token");
}

#[test]
fn a_regular_file_is_read_within_its_bound_also_through_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("file"), folder.path().join("link"));
    std::fs::write(&file, "four").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    assert_eq!(read(&link, 4).unwrap().as_deref(), Some(b"four".as_slice()));
    assert_eq!(read(&file, 3).unwrap(), None);
    assert_eq!(read_text(&file, 4).unwrap(), "four");
    assert_eq!(read_text(&file, 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    assert!(has_trusted_owner(&file.metadata().unwrap()));
}
