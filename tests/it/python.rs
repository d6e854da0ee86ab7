//! The Python client of Kubernetes against a host without a cluster.

use std::process::Stdio;

use homeostat_api::{Options, serve};
use homeostat_testing::soon;
use homeostat_tests::{python, repository};
use tokio::process::Command;

use crate::apps::apps;

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(missing_python, ignore = "Python 3.10 or newer with venv is not on PATH: https://www.python.org/downloads")]
async fn a_python_program_uses_the_host_like_a_cluster() {
    let test = apps().await;
    let options = Options { address: "http://127.0.0.1:0".into(), ..Options::default() };
    let served = serve(options, test.host.clone()).await.unwrap();
    // The first installation takes a while.
    let python = tokio::task::spawn_blocking(python).await.unwrap();
    let mut command = Command::new(python);
    command.arg(repository().join("tests/tools/python/client.py")).arg(served.address().to_string());
    command.env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null()).kill_on_drop(true);
    let output = soon(command.output()).await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && output.stdout == b"done\n", "{said}");
}
