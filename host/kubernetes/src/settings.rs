//! The settings of a Kubernetes store. The code that opens it reads the files and the environment that name them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use homeostat_store::{Error, Result};

/// Longest prefix of managers: half of the bytes that the server accepts for the prefix and the name.
const PREFIX_BYTES_MAX: usize = 64;

/// The settings of a Kubernetes store.
#[derive(Debug, Clone)]
pub struct ClusterSettings {
    /// The name of the store, for logs and messages; empty for a store that stands alone.
    pub name: Arc<str>,
    /// Who the host is to the server, and where the server is.
    pub credentials: Credentials,
    /// Reads and watches only this namespace; `None` for all. Resources of other namespaces can still be named
    /// one by one. With it, a Role suffices where a ClusterRole is needed otherwise.
    pub namespace: Option<String>,
    /// Tells the hosts of a controller apart in events, as the name of the machine: default `homeostat`.
    pub instance: String,
    /// Put before the name of each manager: default `homeostat/`. The server accepts 128 bytes together.
    pub manager_prefix: String,
    /// Requests that are sent and not answered, without watches: 1 or more, default 64.
    pub in_flight_max: usize,
    /// Requests per second; `None`, the default, leaves that to the server, which answers 429 to a client that
    /// sends too many.
    pub per_second_max: Option<u32>,
    /// Longest wait for an answer, with every retry: default 10 s.
    pub deadline: Duration,
    /// Longest wait for a page of a list: default 60 s.
    pub deadline_list: Duration,
    /// Longest silence of a watch before it is opened again: default 90 s. The server sends a bookmark about
    /// each minute.
    pub silence_max: Duration,
    /// Longest time of one write, with all its requests and waits; `None`, the default, bounds each request by
    /// `deadline` alone. A host that works under leases needs one: the time for which a write can be on its way
    /// (`in_flight_max` of the times of its leases).
    pub write_deadline: Option<Duration>,
    /// The namespace of the leases of controllers; `None` for `namespace`, else for that of the context. All hosts
    /// that share controllers need the same one.
    pub lease_namespace: Option<String>,
    /// How often the kinds of the server are read again: default 60 s, spread by a fifth to both sides.
    pub catalog_interval: Duration,
    /// Least time between two writes of one event, whose repetitions are counted meanwhile: default 30 s.
    pub event_interval: Duration,
}

impl ClusterSettings {
    /// Returns the default settings.
    pub fn new(name: impl Into<Arc<str>>, credentials: Credentials) -> Self {
        Self {
            name: name.into(),
            credentials,
            namespace: None,
            instance: "homeostat".to_owned(),
            manager_prefix: "homeostat/".to_owned(),
            in_flight_max: 64,
            per_second_max: None,
            deadline: Duration::from_secs(10),
            deadline_list: Duration::from_secs(60),
            silence_max: Duration::from_secs(90),
            write_deadline: None,
            lease_namespace: None,
            catalog_interval: Duration::from_secs(60),
            event_interval: Duration::from_secs(30),
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// `Invalid` with the path of the setting as the file of stores has it, as `requests.inFlight`.
    pub fn check(&self) -> Result<()> {
        if let Credentials::Kubeconfig { files, .. } = &self.credentials
            && files.is_empty()
        {
            return Err(Error::invalid("kubeconfig", "names no file"));
        }
        for (path, namespace) in [("namespace", &self.namespace), ("leases.namespace", &self.lease_namespace)] {
            if namespace.as_ref().is_some_and(|namespace| !is_label(namespace)) {
                return Err(Error::invalid(path, "must be a DNS label"));
            }
        }
        let is_printable = self.manager_prefix.chars().all(|sign| !sign.is_control());
        if !is_printable || self.manager_prefix.len() > PREFIX_BYTES_MAX {
            let reason = format!("must have at most {PREFIX_BYTES_MAX} bytes of printable text");
            return Err(Error::invalid("fieldManagerPrefix", reason));
        }
        let is_zero = [
            ("requests.inFlight", self.in_flight_max == 0),
            ("requests.perSecond", self.per_second_max == Some(0)),
            ("requests.deadline", self.deadline.is_zero()),
        ];
        match is_zero.into_iter().find(|(_, is_zero)| *is_zero) {
            Some((path, _)) => Err(Error::invalid(path, "must be above zero")),
            None => Ok(()),
        }
    }
}

/// Returns whether a text is a DNS label.
pub(crate) fn is_label(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let has_ends = !text.starts_with('-') && !text.ends_with('-');
    (1..=63).contains(&text.len()) && has_ends && text.bytes().all(is_inner)
}

/// Who the host is to a server, and where the server is.
#[derive(Debug, Clone)]
pub enum Credentials {
    /// The files of kubectl, merged as kubectl merges them. They are read again when the server refuses the
    /// credentials, and every few minutes.
    Kubeconfig {
        /// The files, one or more.
        files: Vec<PathBuf>,
        /// The name of the context; `None` for the current one.
        context: Option<String>,
    },
    /// The service account of a pod. Its token is read again each minute.
    Pod {
        /// The URL of the server, as `https://10.96.0.1:443`.
        server: String,
        /// The folder with `token` and `ca.crt`, usually `/var/run/secrets/kubernetes.io/serviceaccount`.
        folder: PathBuf,
    },
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use homeostat_store::Error;

    use super::{ClusterSettings, Credentials};

    #[test]
    fn a_wrong_setting_is_named_as_in_the_file() {
        let files = vec!["/kubeconfig".into()];
        let good = || ClusterSettings::new("cluster", Credentials::Kubeconfig { files: files.clone(), context: None });
        assert_eq!(good().check(), Ok(()));
        let none = Credentials::Kubeconfig { files: Vec::new(), context: None };
        let wrong = [
            ("kubeconfig", ClusterSettings { credentials: none, ..good() }),
            ("namespace", ClusterSettings { namespace: Some("a/b".to_owned()), ..good() }),
            ("leases.namespace", ClusterSettings { lease_namespace: Some("A".to_owned()), ..good() }),
            ("fieldManagerPrefix", ClusterSettings { manager_prefix: "x".repeat(65), ..good() }),
            ("fieldManagerPrefix", ClusterSettings { manager_prefix: "\n".to_owned(), ..good() }),
            ("requests.inFlight", ClusterSettings { in_flight_max: 0, ..good() }),
            ("requests.perSecond", ClusterSettings { per_second_max: Some(0), ..good() }),
            ("requests.deadline", ClusterSettings { deadline: Duration::ZERO, ..good() }),
        ];
        for (expected, settings) in wrong {
            assert!(matches!(settings.check(), Err(Error::Invalid { path, .. }) if path == expected), "{expected}");
        }
    }
}
