//! The limit on open files and sockets.

/// Raises the soft limit on open files to the hard limit. Each compiled component, watch and client needs a
/// descriptor, and the usual 1024 are too few.
///
/// If the system refuses, the limit stays: the host works with fewer descriptors as well.
pub(crate) fn raise_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        if current != maximum
            && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
        {
            tracing::warn!(%error, ?current, "the limit on open files cannot be raised");
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    #[test]
    fn the_soft_limit_on_open_files_is_raised_to_the_hard_limit() {
        let before = getrlimit(Resource::Nofile);
        let few = before.maximum.map_or(512, |maximum| maximum.min(512));
        setrlimit(Resource::Nofile, Rlimit { current: Some(few), maximum: before.maximum }).unwrap();
        super::raise_limit();
        assert_eq!(getrlimit(Resource::Nofile).current, before.maximum);
    }
}
