//! A Homeostat host for the tests of an operator, as envtest starts an API server and etcd.
//!
//! Copy this file beside your tests:
//!
//! ```ignore
//! let environment = TestEnvironment::start("homeostat", &[Path::new("config/crd")])?;
//! let kubeconfig = kube::config::Kubeconfig::from_yaml(environment.kubeconfig())?;
//! let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await?;
//! let client = kube::Client::try_from(config)?;
//! ```

use std::io::{BufRead, BufReader, Error, Result};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running host. It ends when this is dropped, and forgets everything.
pub struct TestEnvironment {
    process: Child,
    kubeconfig: String,
}

impl TestEnvironment {
    /// Starts this program, as `homeostat`, with folders of manifests that are there from the start.
    ///
    /// # Errors
    /// The program does not start, or ends. It says why on standard error.
    pub fn start(program: impl AsRef<Path>, manifests: &[&Path]) -> Result<TestEnvironment> {
        let program = program.as_ref();
        let mut command = Command::new(program);
        command.args(["testenv", "--stdin"]).args(manifests).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut environment = TestEnvironment { process: command.spawn()?, kubeconfig: String::new() };
        if let Some(output) = environment.process.stdout.take() {
            BufReader::new(output).read_line(&mut environment.kubeconfig)?;
        }
        if environment.kubeconfig.is_empty() {
            let status = environment.process.wait()?;
            return Err(Error::other(format!("{} testenv has ended with {status}", program.display())));
        }
        Ok(environment)
    }

    /// Returns the kubeconfig of the host, in JSON, which is YAML, too.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }
}

impl Drop for TestEnvironment {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // A host that failed has said so.
        drop(self.process.wait());
    }
}
