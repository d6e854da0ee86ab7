//! The resident memory of this process.

/// Returns the resident memory in bytes; `None` if the system does not report it.
pub(super) fn bytes() -> Option<u64> {
    parse(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// Parses a line like `VmRSS:     1234 kB`; a kB has 1024 bytes.
fn parse(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    #[test]
    fn resident_memory_is_read_from_its_line_of_the_status_file() {
        assert_eq!(super::parse("Name:\thomeostat\nVmHWM:\t   9000 kB\nVmRSS:\t   1234 kB\n"), Some(1234 * 1024));
        assert_eq!(super::parse("Name:\thomeostat\n"), None);
    }
}
