//! Regular files, opened without blocking, and folders of blobs.
//!
//! A path from a user can name anything. Opening a FIFO blocks until another process writes to it, a device
//! may be endless, and reading some devices has side effects. So every room that reads a user-supplied path
//! opens it here. A path that is not a regular file is an error that names the file type.

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

mod blob_folder;

pub use blob_folder::{BlobFolder, make_private_folder, replace_durable};

/// Folders in which the system lists the open file descriptors of a process.
const DESCRIPTORS: [&str; 2] = ["/dev/fd", "/proc/self/fd"];

/// Opens a regular file for reading; follows symbolic links. A pipe that is already open, as `<(command)` of
/// a shell names one, is read like a file: its writer exists, so opening it cannot block.
///
/// # Errors
/// Errors of the system, and [`io::ErrorKind::InvalidInput`] for anything but a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.union(OFlags::NOCTTY).bits();
    // Opening a FIFO does not block with this flag; a regular file ignores it.
    let file = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_fifo() && (is_descriptor(path) || std::fs::read_link(path).is_ok_and(|link| is_descriptor(&link))) {
        rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
        return Ok(file);
    }
    if kind.is_file() { Ok(file) } else { Err(io::Error::new(io::ErrorKind::InvalidInput, refusal(kind))) }
}

/// Reads a regular file of at most `bytes_max` bytes. Returns `None` for a longer one.
///
/// # Errors
/// As [`open`], and errors of reading.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    open(path)?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(Some(bytes).filter(|bytes| bytes.len() as u64 <= bytes_max))
}

/// Reads a regular file of at most `bytes_max` bytes of UTF-8.
///
/// # Errors
/// As [`read`], and [`io::ErrorKind::FileTooLarge`] and [`io::ErrorKind::InvalidData`].
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let bytes = read(path, bytes_max)?;
    let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {bytes_max} bytes"));
    String::from_utf8(bytes.ok_or_else(too_large)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

/// Returns whether the file belongs to the current user or to root. The owner can change the content at any
/// time, so a file of any other user is not to be trusted.
pub fn has_trusted_owner(file: &Metadata) -> bool {
    file.uid() == 0 || file.uid() == rustix::process::geteuid().as_raw()
}

fn is_descriptor(path: &Path) -> bool {
    DESCRIPTORS.iter().any(|folder| path.starts_with(folder))
}

fn refusal(kind: FileType) -> &'static str {
    match kind {
        _ if kind.is_dir() => "it is a folder, not a regular file",
        _ if kind.is_fifo() => "it is a FIFO, not a regular file",
        _ if kind.is_socket() => "it is a socket, not a regular file",
        _ => "it is a device, not a regular file",
    }
}

#[cfg(test)]
mod tests;
