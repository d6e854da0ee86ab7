//! Clients of Kubernetes in Python and JavaScript with their default settings, against a host without a cluster. The same
//! programs also run against a real server, which shows that they demand nothing else of the host than of a cluster.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use homeostat_tests::{Cluster, ClusterOptions, HostProcess, node_packages, python, repository};
use tempfile::TempDir;

/// A server for a program.
struct Server {
    kubeconfig: PathBuf,
    /// The folder of the program's files.
    scratch: TempDir,
    host: Option<HostProcess>,
}

impl Server {
    fn host() -> Self {
        let scratch = TempDir::new().unwrap();
        let host = HostProcess::start_on_port("http", scratch.path(), &scratch.path().join("host"), &[], &[]);
        Self { kubeconfig: host.kubeconfig(scratch.path()), scratch, host: Some(host) }
    }

    fn of(cluster: &Cluster) -> Self {
        Self { kubeconfig: cluster.kubeconfig("admin"), scratch: TempDir::new().unwrap(), host: None }
    }

    /// Runs a program, which says `done` at its end.
    fn run(&self, program: &Path, source: &str, more: &[&Path]) {
        let mut command = Command::new(program);
        command.arg(repository().join("tests/tools").join(source)).arg(&self.kubeconfig).args(more);
        // Python writes no bytecode beside its sources.
        command.env("HOME", self.scratch.path()).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env_remove("KUBECONFIG").current_dir(self.scratch.path()).stdin(Stdio::null());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let log = self.host.as_ref().map(HostProcess::stderr).unwrap_or_default();
        assert!(output.status.success() && output.stdout == b"done\n", "{source}: {said}\n{log}");
    }

    fn everyday_python(&self) {
        self.run(&python(), "python/everyday.py", &[]);
    }

    fn kopf(&self) {
        self.run(&python(), "python/kopf_operator.py", &[&self.scratch.path().join("kopf.log")]);
    }

    fn everyday_javascript(&self) {
        self.run(Path::new("node"), "javascript/client.mjs", &[&node_packages()]);
    }
}

#[test]
#[cfg_attr(missing_python, ignore = "Python 3.10 or newer with venv is not on PATH: https://www.python.org/downloads")]
fn the_python_client_with_its_defaults_uses_a_host_like_a_cluster() {
    Server::host().everyday_python();
}

#[test]
#[cfg_attr(missing_python, ignore = "Python 3.10 or newer with venv is not on PATH: https://www.python.org/downloads")]
fn a_kopf_operator_with_its_defaults_does_its_job_in_a_namespace() {
    Server::host().kopf();
}

#[test]
#[cfg_attr(missing_node, ignore = "Node 20 or newer with npm is not on PATH: https://nodejs.org")]
fn client_node_with_its_defaults_uses_a_host_like_a_cluster() {
    Server::host().everyday_javascript();
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
#[cfg_attr(missing_node, ignore = "Node 20 or newer with npm is not on PATH: https://nodejs.org")]
#[cfg_attr(missing_python, ignore = "Python 3.10 or newer with venv is not on PATH: https://www.python.org/downloads")]
fn programs_in_other_languages_use_a_real_server_in_the_same_way() {
    let cluster = Cluster::start(ClusterOptions::without_accounts());
    let server = Server::of(&cluster);
    server.everyday_python();
    server.kopf();
    server.everyday_javascript();
}
