//! How many files and sockets the host may have open.

/// Raises the bound as far as the system lets a process without privileges: each distinct component that was compiled, each watch and each
/// client has a descriptor, and the usual 1024 are few.
///
/// What the system refuses is left as it is: the host works with fewer, too.
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
    fn a_host_may_have_as_many_files_open_as_the_system_lets_it() {
        let before = getrlimit(Resource::Nofile);
        let few = before.maximum.map_or(512, |maximum| maximum.min(512));
        setrlimit(Resource::Nofile, Rlimit { current: Some(few), maximum: before.maximum }).unwrap();
        super::raise_limit();
        assert_eq!(getrlimit(Resource::Nofile).current, before.maximum);
    }
}
