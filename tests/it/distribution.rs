//! Components in the registry of the Distribution project, and with its usual clients, oras and crane.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use homeostat_component::Digest;
use homeostat_tests::{
    Distribution, HostProcess, NetworkFault, Proxy, Tokens, crane, guest, oras, renamed, repository,
};
use serde_json::{Value, json};

use crate::registry::{CONFIG, MANIFEST, PAIR, Person, greeter, until_runs, write_manifest};

/// `user` with `secret-word`, as `htpasswd -B` writes it.
const HTPASSWD: &str = "user:$2a$05$3KuzDpsUFXSsgm98Jbdo/u4Bsbh.ZJWs86RrdH8TXFwXbHf3no/wK\n";

impl Person {
    /// Runs a foreign program that has to succeed, with `said` on its standard input. Returns its output.
    fn uses(&self, program: &Path, arguments: &[&str], said: &str) -> Vec<u8> {
        let mut command = Command::new(program);
        command.args(arguments).env_clear().env("DOCKER_CONFIG", self.path("")).env("HOME", self.path(""));
        command.current_dir(self.path("")).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(said.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {told}{}", String::from_utf8_lossy(&output.stdout));
        output.stdout
    }

    fn oras(&self, arguments: &[&str]) -> Vec<u8> {
        self.uses(&oras(), &[arguments, &["--plain-http"]].concat(), "")
    }

    fn crane(&self, arguments: &[&str]) -> String {
        String::from_utf8(self.uses(&crane(), arguments, "")).unwrap().trim().to_owned()
    }

    /// Pushes a component with oras, without our client. Returns the digest of its manifest.
    fn pushes_with_oras(&self, component: &[u8], tag: &str) -> String {
        fs::write(self.path("theirs.wasm"), component).unwrap();
        let config = json!({ "created": "2026-07-01T10:00:00Z", "architecture": "wasm", "os": "wasip2" });
        fs::write(self.path("config.wasm.json"), config.to_string()).unwrap();
        let config = format!("config.wasm.json:{CONFIG}");
        self.oras(&["push", tag, "--config", &config, "theirs.wasm:application/wasm"]);
        self.crane(&["digest", tag])
    }
}

/// Starts a registry without access control. Returns the folder of its files, and the registry.
fn open() -> (tempfile::TempDir, Distribution) {
    let kept = tempfile::tempdir().unwrap();
    let registry = Distribution::start(kept.path());
    (kept, registry)
}

/// The configuration that `docs/registry.md` shows, with files in `folder` and on a free port.
fn as_documented(folder: &Path) -> String {
    let page = fs::read_to_string(repository().join("docs/registry.md")).unwrap();
    let (_, rest) = page.split_once("```yaml\nversion: 0.1\n").expect("it shows a configuration");
    let (shown, _) = rest.split_once("```").unwrap();
    let mut configuration = format!("version: 0.1\n{shown}");
    let folder = folder.display().to_string();
    for (shown, here) in [
        ("/var/lib/registry", format!("{folder}/kept")),
        ("/etc/distribution/htpasswd", format!("{folder}/htpasswd")),
        ("127.0.0.1:5000", "127.0.0.1:0".to_owned()),
    ] {
        assert!(configuration.contains(shown), "{shown}: {configuration}");
        configuration = configuration.replace(shown, &here);
    }
    configuration
}

fn digest_of(reference: &str) -> &str {
    reference.split_once('@').unwrap().1
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn a_pushed_component_is_readable_and_copyable_with_oras_and_crane() {
    let (person, (_kept, registry)) = (Person::new(), open());
    let component = fs::read(guest("greeter")).unwrap();
    let tag = registry.reference("acme/greeter:1.2");
    let pinned = person.does(&["push", &greeter(), &tag]).trim().to_owned();

    let manifest = person.oras(&["manifest", "fetch", &tag]);
    assert_eq!(Digest::of(&manifest).as_str(), digest_of(&pinned));
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!((&manifest["mediaType"], &manifest["config"]["mediaType"]), (&json!(MANIFEST), &json!(CONFIG)));
    let layers = manifest["layers"].as_array().unwrap();
    assert_eq!((layers.len(), &layers[0]["mediaType"]), (1, &json!("application/wasm")));
    let config: Value = serde_json::from_slice(&person.oras(&["manifest", "fetch-config", &tag])).unwrap();
    assert_eq!((&config["architecture"], &config["os"]), (&json!("wasm"), &json!("wasip2")));
    assert_eq!(config["layerDigests"], json!([Digest::of(&component).as_str()]));
    assert_eq!(person.crane(&["digest", &tag]), digest_of(&pinned));

    // oras pulls the component as a file.
    person.oras(&["pull", &tag, "--output", "pulled"]);
    assert_eq!(fs::read(person.path("pulled/component.wasm")).unwrap(), component);

    // crane copies it to a mirror, and the copy is the same.
    let mirror = registry.reference("mirror/greeter:1.2");
    person.crane(&["copy", &tag, &mirror]);
    let to = person.path("mirrored.wasm");
    let printed = person.does(&["pull", &mirror, "--to", &to]);
    assert!(printed.contains(digest_of(&pinned)), "{printed}");
    assert_eq!(fs::read(&to).unwrap(), component);
    // A push to the mirror finds the component there.
    assert_eq!(person.does(&["push", &greeter(), &mirror]), format!("{mirror}@{}\n", digest_of(&pinned)));
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn a_component_pushed_with_oras_runs_and_other_artifacts_are_refused() {
    let (person, (_kept, registry)) = (Person::new(), open());
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let component = fs::read(guest("greeter")).unwrap();
    let tag = registry.reference("theirs:1");
    person.pushes_with_oras(&component, &tag);
    write_manifest(folder.path(), &json!({ "oci": tag }), 1);
    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    until_runs(&host, Digest::of(&component).as_str());
    assert_eq!(host.terminate().code, Some(0));

    // An artifact with an empty configuration is refused by its media type.
    fs::write(person.path("note.txt"), "a note").unwrap();
    person.oras(&["push", &registry.reference("note:1"), "note.txt:text/plain"]);
    let refused = person.cannot(1, &["pull", &registry.reference("note:1"), "--to", &person.path("x.wasm")]);
    assert!(refused.contains("application/vnd.oci.empty.v1+json"), "{refused}");
    // An index, as images for several processors have one, is refused.
    let tags = [registry.reference("note:1"), registry.reference("many:1")];
    person.crane(&["index", "append", "-m", &tags[0], "-t", &tags[1], "--flatten=false"]);
    let refused = person.cannot(1, &["pull", &tags[1], "--to", &person.path("x.wasm")]);
    assert!(refused.contains("index"), "{refused}");
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn signatures_survive_push_copy_and_pull() {
    let (person, (_kept, registry)) = (Person::new(), open());
    person.does(&["keygen", &person.path("release")]);
    let (signed, public) = (person.path("signed.wasm"), person.path("release.pub"));
    person.does(&["sign", &greeter(), "--key", &person.path("release.key"), "--to", &signed]);
    let (ours, theirs, copy) = (registry.reference("a:1"), registry.reference("b:1"), registry.reference("c/d:1"));
    person.does(&["push", &signed, &ours]);
    person.pushes_with_oras(&fs::read(&signed).unwrap(), &theirs);
    person.crane(&["copy", &ours, &copy]);
    for reference in [&ours, &theirs, &copy] {
        let told = person.does(&["verify-signature", reference, "--key", &public]);
        assert!(told.ends_with(&format!(": signed by {public}\n")), "{told}");
    }
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn credentials_of_oras_login_allow_push_and_pull_and_wrong_ones_do_not() {
    let (person, kept) = (Person::new(), tempfile::tempdir().unwrap());
    fs::write(kept.path().join("htpasswd"), HTPASSWD).unwrap();
    let registry = Distribution::start_with(kept.path(), &as_documented(kept.path()));
    let (tag, host) = (registry.reference("acme/greeter:1"), registry.reference(""));
    let host = host.trim_end_matches('/');
    let refused = person.cannot(3, &["push", &greeter(), &tag]);
    assert!(refused.contains("docker login"), "{refused}");

    let login = ["login", host, "--username", "user", "--password-stdin", "--plain-http"];
    person.uses(&oras(), &login, "secret-word\n");
    let pinned = person.does(&["push", &greeter(), &tag]);
    person.does(&["pull", pinned.trim(), "--to", &person.path("pulled.wasm")]);
    person.forgets();
    person.does(&["pull", &tag, "--to", &person.path("pulled.wasm")]);

    let config = fs::read_to_string(person.path("config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    // `user:other-word`
    config["auths"][host]["auth"] = "dXNlcjpvdGhlci13b3Jk".into();
    fs::write(person.path("config.json"), config.to_string()).unwrap();
    person.forgets();
    for arguments in [vec!["pull", &tag], vec!["push", &greeter(), &tag]] {
        let refused = person.cannot(3, &arguments);
        assert!(refused.contains("status 401") && refused.contains("check the credentials"), "{refused}");
        assert!(!refused.contains("other-word"), "{refused}");
    }
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn a_registry_with_a_token_service_accepts_push_and_pull() {
    let (person, kept, tokens) = (Person::new(), tempfile::tempdir().unwrap(), Tokens::start(PAIR));
    let registry = Distribution::start_for(kept.path(), &tokens.auth(kept.path()));
    let tag = registry.reference("acme/greeter:1");
    let refused = person.cannot(3, &["push", &greeter(), &tag]);
    assert!(refused.contains("status 401") && tokens.scopes().is_empty(), "{refused}");
    person.logs_in(registry.reference("").trim_end_matches('/'), PAIR);
    person.does(&["push", &greeter(), &tag]);
    let scopes = tokens.scopes();
    let may_push = |scope: &String| scope.starts_with("repository:acme/greeter:") && scope.contains("push");
    assert!(scopes.iter().any(may_push), "{scopes:?}");
    person.does(&["pull", &tag, "--to", &person.path("pulled.wasm")]);
    assert_eq!(tokens.scopes(), ["repository:acme/greeter:pull"], "a pull asks for no more than pull");
    assert_eq!(fs::read(person.path("pulled.wasm")).unwrap(), fs::read(guest("greeter")).unwrap());
    let config = fs::read_to_string(person.path("config.json")).unwrap();
    // `user:other-word`
    fs::write(person.path("config.json"), config.replace(PAIR, "dXNlcjpvdGhlci13b3Jk")).unwrap();
    let refused = person.cannot(3, &["pull", &tag, "--to", &person.path("other.wasm")]);
    assert!(refused.contains("status 401") && !refused.contains("other-word"), "{refused}");
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn a_moved_tag_changes_no_running_controller_and_a_deleted_digest_is_reported() {
    let (person, (_kept, registry)) = (Person::new(), open());
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let one = fs::read(guest("greeter")).unwrap();
    let two = renamed(&one, "two");
    let digests = [&one, &two].map(|component| Digest::of(component).to_string());
    let (tag, next) = (registry.reference("greeter:stable"), registry.reference("greeter:next"));
    let first = person.pushes_with_oras(&one, &tag);
    let second = person.pushes_with_oras(&two, &next);
    write_manifest(folder.path(), &json!({ "oci": tag }), 1);
    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    until_runs(&host, &digests[0]);

    // The tag moves, the registry loses the old component, and the host restarts.
    person.crane(&["tag", &next, "stable"]);
    assert_eq!(person.crane(&["digest", &tag]), second);
    person.crane(&["delete", &registry.reference(&format!("greeter@{first}"))]);
    host.kill();
    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    host.wait_for_stderr(&format!("controller/greeter added ({}", &digests[0][..19]));
    until_runs(&host, &digests[0]);

    // A new revision of the controller resolves the tag again.
    write_manifest(folder.path(), &json!({ "oci": tag }), 2);
    until_runs(&host, &digests[1]);

    // A reference to the deleted component fails, unless it is in the cache.
    let gone = registry.reference(&format!("greeter@{first}"));
    let told = person.cannot(1, &["pull", &gone, "--to", &person.path("x.wasm")]);
    assert!(told.contains(&format!("{gone} was not found")), "{told}");
    drop(fs::remove_dir_all(scratch.path().join("data/registry")));
    write_manifest(folder.path(), &json!({ "oci": gone }), 3);
    host.wait_for_stderr("was not found");
    until_runs(&host, &digests[1]);
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn a_registry_that_dies_during_a_pull_delays_only_the_new_version() {
    let (person, (kept, registry)) = (Person::new(), open());
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let one = fs::read(guest("greeter")).unwrap();
    let two = renamed(&one, "two");
    let digests = [&one, &two].map(|component| Digest::of(component).to_string());
    let way = Proxy::to(registry.port());
    let [first, second] = [1, 2].map(|tag| format!("{}/greeter:{tag}", way.address()));
    person.pushes_with_oras(&one, &first);
    person.pushes_with_oras(&two, &second);
    write_manifest(folder.path(), &json!({ "oci": first }), 1);
    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    until_runs(&host, &digests[0]);

    // The registry dies in the middle of the component.
    way.set(NetworkFault::StallAfter(u64::try_from(two.len() / 2).unwrap()));
    write_manifest(folder.path(), &json!({ "oci": second }), 1);
    way.wait_until("an answer to stall", |traffic| traffic.broken > 0);
    drop(registry);
    host.wait_for_stderr("the request to the registry failed");
    until_runs(&host, &digests[0]);

    // Once the registry is back, the host retries and runs the new component.
    let registry = Distribution::start(kept.path());
    way.set_server(registry.port());
    way.set(NetworkFault::None);
    until_runs(&host, &digests[1]);

    // The host runs a component that it has pulled before without the registry.
    drop(registry);
    host.kill();
    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    host.wait_for_stderr(&format!("controller/greeter added ({}", &digests[1][..19]));
    until_runs(&host, &digests[1]);
    assert_eq!(host.terminate().code, Some(0));
}
