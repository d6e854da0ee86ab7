//! Regular files, opened without waiting.
//!
//! Whoever names a file to a host may name anything that has a path. A FIFO would hold up whoever opens it until somebody writes to it, a
//! device may have no end, and reading some of them changes something. So every room that reads a file which people name opens it here, and
//! what is no regular file is an error that says what it is instead.

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// Where the system shows a process what it has open.
const DESCRIPTORS: [&str; 2] = ["/dev/fd", "/proc/self/fd"];

/// Opens a regular file for reading; a link is followed to one. A pipe that is open already, as `<(command)` of a shell names one, is read
/// like a file: whoever writes to it is there.
///
/// # Errors
/// Those of the system, and [`io::ErrorKind::InvalidInput`] for anything that is no regular file.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.union(OFlags::NOCTTY).bits();
    // Of a FIFO nothing is waited for then, and to a regular file it makes no difference.
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
/// As [`open`], and those of reading.
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

/// Returns whether a file is this user's or root's: anybody else could put into it whatever they like.
pub fn has_trusted_owner(file: &Metadata) -> bool {
    file.uid() == 0 || file.uid() == rustix::process::geteuid().as_raw()
}

fn is_descriptor(path: &Path) -> bool {
    DESCRIPTORS.iter().any(|folder| path.starts_with(folder))
}

fn refusal(kind: FileType) -> &'static str {
    match kind {
        _ if kind.is_dir() => "it is a folder, and a regular file is wanted",
        _ if kind.is_fifo() => "it is a FIFO, and a regular file is wanted",
        _ if kind.is_socket() => "it is a socket, and a regular file is wanted",
        _ => "it is a device, and a regular file is wanted",
    }
}

#[cfg(test)]
mod tests;
