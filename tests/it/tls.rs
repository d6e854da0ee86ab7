//! A host with TLS and tokens, with the `kubectl` of a current release, with `homeostat`, and as `homeostat
//! run` starts it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use homeostat_api::{Certificate, Handle, Options, serve};
use homeostat_component::KindDeclaration;
use homeostat_fixtures::{Fault, FaultyStore, On, demo, demo_key, memory_store};
use homeostat_runtime::KindInfo;
use homeostat_testing::{BOUND, eventually, soon};
use homeostat_tests::{Output, TestHost, homeostat, informer, kubectl, run};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};

const READER: &str = "a-token-that-only-reads";
const WRITER: &str = "a-token-that-also-writes";

/// A host with TLS and two tokens, and the files of its clients.
struct TlsHost {
    test: TestHost,
    served: Handle,
    folder: TempDir,
}

impl TlsHost {
    /// As [`TlsHost::start`], after a build of kubectl, which takes a while the first time.
    async fn with_kubectl() -> Self {
        tokio::task::spawn_blocking(kubectl).await.unwrap();
        Self::start().await
    }

    async fn start() -> Self {
        let (test, folder, address) = (TestHost::start().await, TempDir::new().unwrap(), "https://127.0.0.1:0");
        declare_notes(&test);
        let certificate = Certificate::load_or_generate(folder.path(), &address.parse().unwrap()).unwrap().certificate;
        let tokens = format!(
            "- {{name: rita, token: {READER}, access: read}}\n- {{name: walt, token: {WRITER}, access: write}}\n"
        );
        let tokens = private(&folder, "tokens.yaml", &tokens);
        let options = Options {
            address: address.into(),
            certificate: Some(certificate),
            tokens: Some(tokens),
            ..Options::default()
        };
        let served = serve(options, test.host.clone()).await.unwrap();
        Self { test, served, folder }
    }

    fn certificate(&self) -> String {
        self.folder.path().join("tls.crt").display().to_string()
    }

    fn kubectl(&self, token: &str, arguments: &[&str]) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(kubectl());
        command.arg("--server").arg(self.served.address().to_string()).args(arguments);
        command.args(["--certificate-authority", &self.certificate()]);
        if !token.is_empty() {
            command.args(["--token", token]);
        }
        let home = self.folder.path();
        command.env_clear().env("HOME", home).env("PATH", "/usr/bin:/bin").current_dir(home);
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// Runs kubectl, and returns whether it succeeded, and its output.
    async fn ask(&self, token: &str, arguments: &[&str]) -> (bool, String) {
        let output = tokio::time::timeout(BOUND, self.kubectl(token, arguments).output()).await;
        let output = output.unwrap_or_else(|_| panic!("kubectl {arguments:?} does not end")).unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout) + &text(&output.stderr))
    }

    /// Runs `homeostat` as a client, with or without the host's certificate as an authority.
    async fn own(&self, token: &str, trusts: bool, arguments: &[&str]) -> Output {
        let mut all: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        all.extend(["--server".into(), self.served.address().to_string()]);
        if trusts {
            all.extend(["--certificate-authority".into(), self.certificate()]);
        }
        if !token.is_empty() {
            let path = private(&self.folder, "token", token);
            all.extend(["--token-file".into(), path.display().to_string()]);
        }
        let all = move || run(&all.iter().map(String::as_str).collect::<Vec<_>>());
        tokio::task::spawn_blocking(all).await.unwrap()
    }
}

fn declare_notes(test: &TestHost) {
    let kind = demo_key("Note", "a").kind().clone();
    let declaration =
        KindDeclaration { kind, plural: "notes".into(), namespaced: true, keys_only: false, schema: None };
    test.host.kinds().declare(KindInfo::declared(&declaration, "test")).unwrap();
}

fn private(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    path
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn kubectl_reads_writes_and_watches_in_tls_with_a_token() {
    let host = TlsHost::with_kubectl().await;
    let note = demo("Note", "a", json!({"text": "one"})).to_string();
    fs::write(host.folder.path().join("note.json"), note).unwrap();
    let applied = host.ask(WRITER, &["apply", "-f", "note.json"]).await;
    assert_eq!(applied, (true, "note.demo.homeostat.dev/a created\n".into()));
    assert!(host.ask(READER, &["get", "notes"]).await.1.contains("a "));

    let watch = host.kubectl(READER, &["get", "notes", "-w", "-o", "jsonpath={.spec.text}{\"\\n\"}"]);
    let mut watch = { watch }.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut line = async || soon(lines.next_line()).await.unwrap().unwrap();
    assert_eq!(line().await, "one");
    host.test.apply(demo("Note", "a", json!({"text": "two"}))).await;
    assert_eq!(line().await, "two");
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_shared_informer_watches_in_tls_with_a_token() {
    let host = TlsHost::start().await;
    tokio::task::spawn_blocking(informer).await.unwrap();
    host.test.apply(demo("Note", "a", json!({}))).await;
    let mut command = tokio::process::Command::new(informer());
    command.args(["--server", &host.served.address().to_string(), "--resource", "demo.homeostat.dev/v1/notes"]);
    command.args(["--token", READER, "--certificate-authority", &host.certificate()]);
    let mut process = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let mut until = async |part: &str| {
        let found =
            async { while !lines.next_line().await.unwrap().expect("the informer keeps running").contains(part) {} };
        soon(found).await;
    };
    until("\"event\":\"synced\"").await;
    host.test.apply(demo("Note", "b", json!({}))).await;
    until("\"event\":\"add\",\"name\":\"b\"").await;
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn kubectl_gets_the_reason_of_a_refusal() {
    let host = TlsHost::with_kubectl().await;
    host.test.apply(demo("Note", "a", json!({}))).await;
    let (done, said) = host.ask("a-token-of-nobody", &["get", "notes"]).await;
    assert!(!done && said.contains("You must be logged in to the server"), "{said}");
    // Without a token kubectl asks for a user name.
    let (done, said) = host.ask("", &["get", "notes"]).await;
    assert!(!done && said.contains("Please enter Username"), "{said}");
    let (done, said) = host.ask(READER, &["delete", "note", "a"]).await;
    let refused = "Error from server (Forbidden): notes.demo.homeostat.dev \"a\" is forbidden: User \"rita\" cannot delete resource \"notes\" in \
                   API group \"demo.homeostat.dev\" in the namespace \"default\": the token is read-only\n";
    assert_eq!((done, said.as_str()), (false, refused));
    assert!(host.test.get(&demo_key("Note", "a")).await.is_some());
}

#[tokio::test]
async fn homeostat_speaks_tls_and_names_the_missing_option() {
    let host = TlsHost::start().await;
    host.test.apply(demo("Note", "a", json!({}))).await;
    let found = host.own(READER, true, &["get", "notes", "-o", "name"]).await;
    assert_eq!((found.code, found.stdout.as_str()), (Some(0), "note.demo.homeostat.dev/a\n"), "{}", found.stderr);
    let unknown = host.own("", true, &["get", "notes"]).await;
    assert!(unknown.code == Some(3) && unknown.stderr.contains("--token-file"), "{}", unknown.stderr);
    let refused = host.own(READER, true, &["delete", "note", "a"]).await;
    assert!(refused.code == Some(3) && refused.stderr.contains("is forbidden"), "{}", refused.stderr);
    let untrusted = host.own(READER, false, &["get", "notes"]).await;
    assert!(untrusted.code == Some(1) && untrusted.stderr.contains("--certificate-authority"), "{}", untrusted.stderr);
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_printed_kubeconfig_suffices_for_kubectl() {
    let host = TlsHost::with_kubectl().await;
    let printed = host.own(READER, true, &["kubeconfig"]).await;
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    let path = private(&host.folder, "kubeconfig", &printed.stdout);
    let mut command = Command::new(kubectl());
    command.arg("--kubeconfig").arg(path).args(["get", "notes"]);
    command.env_clear().env("HOME", host.folder.path()).env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.success(), said.as_str()), (true, "No resources found in default namespace.\n"));
}

#[tokio::test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
async fn a_token_removed_from_the_file_is_refused_without_a_restart() {
    let host = TlsHost::with_kubectl().await;
    assert!(host.ask(READER, &["get", "notes"]).await.0);
    private(&host.folder, "tokens.yaml", &format!("- {{name: walt, token: {WRITER}, access: write}}\n"));
    eventually("the token to be forgotten", async || {
        let (done, _) = host.ask(READER, &["get", "--raw", "/version"]).await;
        (!done).then_some(())
    })
    .await;
    assert!(host.ask(WRITER, &["get", "notes"]).await.0);
}

#[tokio::test]
async fn a_client_gets_an_error_when_a_response_takes_too_long() {
    let store = FaultyStore::over(memory_store());
    let test = TestHost::over(store.clone()).await;
    declare_notes(&test);
    let options = Options { answer_ms_max: 200, ..Options::default() };
    let served = serve(options, test.host.clone()).await.unwrap();
    store.fault(On::List, "Note", Fault::Wait);
    let server = served.address().to_string();
    let asked = move || run(&["get", "notes", "--server", &server]);
    let refused = tokio::task::spawn_blocking(asked).await.unwrap();
    assert!(refused.code == Some(69) && refused.stderr.contains("within 0.2 s"), "{}", refused.stderr);
}

/// A child process that is killed on drop.
struct ChildGuard(Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        // The process may have ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn run_creates_a_certificate_prints_its_digest_and_serves_with_it() {
    let folder = TempDir::new().unwrap();
    let tokens = private(&folder, "tokens", &format!("- {{name: rita, token: {READER}, access: read}}\n"));
    let token = private(&folder, "token", READER);
    let mut command = Command::new(homeostat());
    command.arg("run").arg(folder.path()).args(["--listen", "https://127.0.0.1:0", "--tokens"]).arg(tokens);
    let child = command.env("NO_COLOR", "1").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = ChildGuard(child.unwrap());
    let stderr = std::io::BufReader::new(child.0.stderr.take().unwrap());
    let mut said = String::new();
    for line in std::io::BufRead::lines(stderr) {
        said.push_str(&(line.unwrap() + "\n"));
        if said.contains(" on https://") {
            break;
        }
    }
    assert!(said.contains("created a self-signed certificate") && said.contains("SHA-256 is "), "{said}");
    let address = said.trim_end().rsplit(' ').next().unwrap();
    let certificate = folder.path().join(".homeostat/tls.crt").display().to_string();
    let more = ["--server", address, "--certificate-authority", &certificate, "--token-file"];
    let found = run(&[&["get", "controllers", "-o", "name"], &more[..], &[token.to_str().unwrap()]].concat());
    assert_eq!(found.code, Some(0), "{}", found.stderr);
}

#[test]
fn run_does_not_serve_the_network_without_tls_and_tokens() {
    let folder = TempDir::new().unwrap();
    let tokens = private(&folder, "tokens", "[]\n");
    let (dir, file) = (folder.path().to_str().unwrap(), tokens.to_str().unwrap());
    for (arguments, says) in [
        (&["--listen", "0.0.0.0:0"][..], "use https://0.0.0.0:0 with `--tokens FILE`"),
        (&["--listen", "0.0.0.0:0", "--tokens", file], "use https://0.0.0.0:0 with `--tokens FILE`"),
        (&["--listen", "https://0.0.0.0:0"], "set `--tokens FILE`"),
    ] {
        let refused = run(&[&["run", dir, "--store", "memory"], arguments].concat());
        assert!(refused.code == Some(1) && refused.stderr.contains(says), "{arguments:?}: {}", refused.stderr);
    }
    fs::set_permissions(&tokens, Permissions::from_mode(0o644)).unwrap();
    let refused = run(&["run", dir, "--store", "memory", "--listen", "127.0.0.1:0", "--tokens", file]);
    assert!(refused.code == Some(1) && refused.stderr.contains("chmod 600"), "{}", refused.stderr);
}
