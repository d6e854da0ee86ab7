//! Components from a registry and signatures: the commands against a registry on loopback.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use homeostat_component::Digest;
use homeostat_testing::eventually_built;
use homeostat_tests::{Access, HostProcess, Output, RegistryFault, TestRegistry, guest, renamed, repository, run_with};
use serde_json::{Value, json};

/// `user:secret-word`.
pub(crate) const PAIR: &str = "dXNlcjpzZWNyZXQtd29yZA==";
pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const CONFIG: &str = "application/vnd.wasm.config.v0+json";

/// A user of the binary, with a home folder.
pub(crate) struct Person(tempfile::TempDir);

impl Person {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let (cache, bin) = (self.path("cache"), self.path("bin"));
        let path = format!("{bin}:/usr/bin:/bin");
        let environment = [
            ("XDG_CACHE_HOME", cache.as_str()),
            ("DOCKER_CONFIG", &self.path("")),
            ("RUST_LOG", "trace"),
            ("PATH", &path),
        ];
        run_with(arguments, &environment)
    }

    /// Runs a command that has to succeed, and returns its output.
    pub(crate) fn does(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.code, Some(0), "{arguments:?}: {}", output.stderr);
        output.stdout
    }

    /// Runs a command that has to fail with this exit code, and returns the last line of its error.
    pub(crate) fn cannot(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.code, Some(code), "{arguments:?}: {}", output.stderr);
        output.stderr.lines().last().unwrap_or_default().to_owned()
    }

    /// Writes credentials as `docker login` does.
    pub(crate) fn logs_in(&self, host: &str, auth: &str) {
        fs::write(self.path("config.json"), json!({ "auths": { host: { "auth": auth } } }).to_string()).unwrap();
    }

    /// Deletes the cache of pulled components.
    pub(crate) fn forgets(&self) {
        drop(fs::remove_dir_all(self.path("cache/homeostat/registry")));
    }
}

pub(crate) fn greeter() -> String {
    guest("greeter").display().to_string()
}

#[test]
fn a_pushed_component_is_pulled_by_tag_by_digest_and_from_the_cache() {
    let (person, registry) = (Person::new(), TestRegistry::start(Access::Open));
    let tag = registry.reference("acme/greeter:1");
    let pinned = person.does(&["push", &greeter(), &tag]).trim().to_owned();
    assert!(pinned.starts_with(&format!("{tag}@sha256:")), "{pinned}");
    assert_eq!(person.does(&["push", &greeter(), &tag]).trim(), pinned, "a second push makes the same artifact");
    let to = person.path("pulled.wasm");
    let printed = person.does(&["pull", &tag, "--to", &to]);
    let component = fs::read(guest("greeter")).unwrap();
    assert_eq!(fs::read(&to).unwrap(), component);
    assert_eq!(printed, format!("{pinned}\n{}  {to}\n", Digest::of(&component)));
    let (_, manifest) = pinned.split_once('@').unwrap();
    assert_ne!(manifest, Digest::of(&component).as_str(), "the digest of a manifest is not that of a component");
    let by_digest = registry.reference(&format!("acme/greeter@{manifest}"));
    registry.take_requests();
    fs::remove_file(&to).unwrap();
    person.does(&["pull", &by_digest, "--to", &to]);
    assert_eq!(registry.take_requests().len(), 0, "the component comes from the cache");
    person.forgets();
    person.does(&["pull", &by_digest, "--to", &to]);
    assert_eq!(fs::read(&to).unwrap(), component);
    let inspected: Value = serde_json::from_str(&person.does(&["inspect", &tag, "-o", "json"])).unwrap();
    assert_eq!((&inspected["file"], &inspected["digest"]), (&json!(pinned), &json!(Digest::of(&component).as_str())));
    assert!(inspected["producers"]["processed-by"].is_object(), "{inspected}");
    assert_eq!(inspected["signatures"], json!([]));
    let none = person.cannot(1, &["pull", &registry.reference("acme/none:1")]);
    assert!(none.contains("acme/none:1 was not found"), "{none}");
    drop(registry);
    person.does(&["pull", &by_digest, "--to", &to]);
    let gone = person.cannot(69, &["pull", &tag, "--to", &to]);
    assert!(gone.contains(&tag), "{gone}");
    let unnamed = person.run(&["pull", "greeter"]);
    assert_eq!(unnamed.code, Some(2), "{}", unnamed.stderr);
}

#[test]
fn a_pull_with_other_bytes_is_refused_and_writes_no_file() {
    let (person, registry) = (Person::new(), TestRegistry::start(Access::Open));
    let (tag, to) = (registry.reference("a:1"), person.path("pulled.wasm"));
    person.does(&["push", &greeter(), &tag]);
    for (amiss, code, told) in [
        (RegistryFault::OtherBytes, 1, "has the digest"),
        (RegistryFault::Longer, 3, "more than"),
        (RegistryFault::CutOff, 69, "the request to the registry failed"),
        (RegistryFault::OtherManifest, 1, "the manifest of"),
        (RegistryFault::Broken, 69, "status 500"),
        (RegistryFault::FarAway, 3, "plain HTTP"),
        (RegistryFault::Circle, 1, "redirects"),
    ] {
        person.forgets();
        registry.set_fault(Some(amiss));
        let refused = person.cannot(code, &["pull", &tag, "--to", &to]);
        assert!(refused.contains(told), "{amiss:?}: {refused}");
        assert!(!Path::new(&to).exists(), "{amiss:?}");
    }
    registry.set_fault(None);
    person.does(&["pull", &tag, "--to", &to]);
    assert!(Path::new(&to).exists());
}

#[test]
fn credentials_go_to_the_registry_and_to_no_other_server() {
    for access in [Access::Basic(PAIR), Access::Bearer(PAIR)] {
        let (person, registry) = (Person::new(), TestRegistry::start(access));
        let host = registry.reference("");
        let host = host.trim_end_matches('/');
        let (tag, to) = (registry.reference("a:1"), person.path("pulled.wasm"));
        let refused = person.cannot(3, &["push", &greeter(), &tag]);
        assert!(refused.contains("docker login"), "{access:?}: {refused}");
        person.logs_in(host, PAIR);
        person.does(&["push", &greeter(), &tag]);
        registry.take_requests();
        registry.set_fault(Some(RegistryFault::Elsewhere));
        let pulled = person.run(&["pull", &tag, "--to", &to]);
        assert_eq!(pulled.code, Some(0), "{access:?}: {}", pulled.stderr);
        for secret in ["secret-word", PAIR, "token-of-the-registry"] {
            assert!(!pulled.stderr.contains(secret) && !pulled.stdout.contains(secret), "{secret}: {}", pulled.stderr);
        }
        let asked = registry.take_requests();
        let (elsewhere, here): (Vec<_>, Vec<_>) = asked.iter().partition(|one| one.path.starts_with("/elsewhere"));
        assert!(elsewhere.len() == 2 && elsewhere.iter().all(|one| one.authorization.is_none()), "{asked:?}");
        assert!(here.iter().any(|one| one.authorization.is_some()), "{asked:?}");
        person.logs_in(host, "dXNlcjpvdGhlcg==");
        person.cannot(3, &["pull", &tag, "--to", &to]);
    }
}

#[test]
fn credentials_come_from_credential_helpers_too() {
    let (person, registry) = (Person::new(), TestRegistry::start(Access::Basic(PAIR)));
    fs::create_dir(person.path("bin")).unwrap();
    let helper = person.path("bin/docker-credential-test");
    let script = format!(
        "#!/bin/sh\nread -r server\n[ \"$1 $server\" = \"get {}\" ] && echo '{{\"Username\":\"user\",\"Secret\":\"secret-word\"}}'\n",
        registry.reference("").trim_end_matches('/')
    );
    fs::write(&helper, script).unwrap();
    fs::set_permissions(&helper, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(person.path("config.json"), r#"{"credsStore":"test"}"#).unwrap();
    person.does(&["push", &greeter(), &registry.reference("a:1")]);
}

#[test]
fn artifacts_of_wkg_are_accepted_and_other_layouts_are_refused_by_name() {
    let (person, registry) = (Person::new(), TestRegistry::start(Access::Open));
    let (component, to) = (fs::read(guest("greeter")).unwrap(), person.path("pulled.wasm"));
    // The configuration that `wkg oci push` writes.
    let config = json!({
        "created": "2026-07-01T10:00:00Z", "author": "somebody", "architecture": "wasm", "os": "wasip2",
        "layerDigests": [Digest::of(&component).as_str()],
        "component": { "exports": [], "imports": [], "target": null },
    });
    let layer = registry.blob("application/wasm", &component);
    let manifest = |config: Value| {
        json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer],
            "annotations": { "org.opencontainers.image.title": "greeter" },
        })
    };
    registry.put("a", "wkg", MANIFEST, &manifest(registry.blob(CONFIG, config.to_string().as_bytes())));
    person.does(&["pull", &registry.reference("a:wkg"), "--to", &to]);
    assert_eq!(fs::read(&to).unwrap(), component);
    let module = json!({ "architecture": "wasm", "os": "wasip1" }).to_string();
    let index = "application/vnd.oci.image.index.v1+json";
    registry.put("a", "module", MANIFEST, &manifest(registry.blob(CONFIG, module.as_bytes())));
    registry.put("a", "image", MANIFEST, &manifest(registry.blob("application/vnd.oci.image.config.v1+json", b"{}")));
    registry.put("a", "index", index, &json!({ "schemaVersion": 2, "mediaType": index, "manifests": [] }));
    for (tag, told) in [("module", "wasm/wasip1"), ("image", "image.config"), ("index", "image.index")] {
        let refused = person.cannot(1, &["pull", &registry.reference(&format!("a:{tag}")), "--to", &to]);
        assert!(refused.contains(told), "{tag}: {refused}");
    }
}

/// The cached blob has the right digest, and the manifest states another size.
#[test]
fn a_manifest_with_a_wrong_size_is_refused_even_if_its_blob_is_cached() {
    let (person, registry) = (Person::new(), TestRegistry::start(Access::Open));
    let (component, to) = (fs::read(guest("greeter")).unwrap(), person.path("pulled.wasm"));
    let config = json!({ "architecture": "wasm", "os": "wasip2", "layerDigests": [Digest::of(&component).as_str()] });
    let layer = registry.blob("application/wasm", &component);
    let mut manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "config": registry.blob(CONFIG, config.to_string().as_bytes()),
        "layers": [layer],
    });
    registry.put("a", "right", MANIFEST, &manifest);
    person.does(&["pull", &registry.reference("a:right"), "--to", &to]);
    for wrong in [component.len() + 1, component.len() - 1] {
        manifest["layers"][0]["size"] = wrong.into();
        registry.put("a", "wrong", MANIFEST, &manifest);
        let refused = person.cannot(1, &["pull", &registry.reference("a:wrong"), "--to", &to]);
        assert!(refused.contains(&format!("its manifest says {wrong}")), "{refused}");
    }
}

#[test]
fn verify_signature_names_exactly_the_trusted_signers() {
    let person = Person::new();
    let (key, public) = (person.path("release.key"), person.path("release.pub"));
    let made = person.does(&["keygen", &person.path("release")]);
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    person.cannot(1, &["keygen", &person.path("release")]);
    fs::write(person.path("half.pub"), "somebody else's").unwrap();
    person.cannot(1, &["keygen", &person.path("half")]);
    assert!(!Path::new(&person.path("half.key")).exists(), "the failed keygen wrote a secret key");
    person.does(&["keygen", &person.path("other")]);
    let signed = person.path("signed.wasm");
    let unsigned = person.cannot(3, &["verify-signature", &greeter(), "--key", &public]);
    assert!(unsigned.contains("not signed"), "{unsigned}");
    person.does(&["sign", &greeter(), "--key", &key, "--to", &signed]);
    let told = person.does(&["verify-signature", &signed, "--key", &public, "--key", &person.path("other.pub")]);
    assert_eq!(told, format!("{signed}: signed by {public}\n"));
    let untrusted = person.cannot(3, &["verify-signature", &signed, "--key", &person.path("other.pub")]);
    assert!(untrusted.contains("no trusted key"), "{untrusted}");
    let inspected: Value = serde_json::from_str(&person.does(&["inspect", &signed, "-o", "json"])).unwrap();
    let id = inspected["signatures"][0].as_str().unwrap();
    assert!(made.contains(id), "{made} {id}");

    // The signature survives push and pull.
    let registry = TestRegistry::start(Access::Open);
    let tag = registry.reference("a:1");
    person.does(&["push", &signed, &tag]);
    let policy = person.path("policy.yaml");
    fs::write(&policy, "require: true\nkeys: [{name: release, file: release.pub}]\n").unwrap();
    let told = person.does(&["verify-signature", &tag, "--policy", &policy]);
    assert!(told.ends_with(": signed by release\n"), "{told}");

    let changed = renamed(&fs::read(&signed).unwrap(), "changed");
    fs::write(&signed, changed).unwrap();
    let altered = person.cannot(3, &["verify-signature", &signed, "--policy", &policy]);
    assert!(altered.contains("changed after it was signed"), "{altered}");
    for (arguments, told) in [
        (["sign", &greeter(), "--key", &public], "it is a public key"),
        (["verify-signature", &signed, "--key", &key], "it is a secret key"),
        (["sign", &greeter(), "--key", &person.path("none.key")], "none.key"),
        (["verify-signature", &signed, "--key", &person.path("none.pub")], "none.pub cannot be read"),
    ] {
        let refused = person.cannot(1, &arguments);
        assert!(refused.contains(told), "{arguments:?}: {refused}");
    }
    let half = person.path("half.wasm");
    let whole = fs::read(greeter()).unwrap();
    fs::write(&half, &whole[..whole.len() / 2]).unwrap();
    for arguments in [&["sign", &half, "--key", &key][..], &["push", &half, &tag]] {
        let refused = person.cannot(1, arguments);
        assert!(refused.contains("half.wasm") && refused.contains("not a component"), "{arguments:?}: {refused}");
    }
    assert_eq!(fs::read(&half).unwrap(), whole[..whole.len() / 2], "a failed signature changed the file");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let open = person.cannot(1, &["sign", &greeter(), "--key", &key, "--to", &signed]);
    assert!(open.contains("chmod 600"), "{open}");
}

/// Writes the manifest of the greeter with this `component`.
pub(crate) fn write_manifest(folder: &Path, component: &Value, concurrency: u32) {
    let text = fs::read_to_string(repository().join("examples/greeter/greeter.yaml")).unwrap();
    let own = "component: {file: greeter.wasm}";
    assert!(text.contains(own), "{text}");
    let manifest = text.replace(own, &format!("component: {component}\n  concurrency: {concurrency}"));
    fs::write(folder.join("greeter.yaml"), manifest).unwrap();
}

/// Waits until the greeter runs the component with this digest.
pub(crate) fn until_runs(host: &HostProcess, digest: &str) {
    eventually_built(&format!("the controller to run {digest}"), || {
        let output = host.ask(&["get", "controller", "greeter", "-o", "json"]);
        let document: Value = serde_json::from_str(&output.stdout).ok()?;
        (document["status"]["digest"] == digest).then_some(())
    });
}

#[test]
fn a_controller_keeps_the_digest_that_its_tag_had_when_it_was_applied() {
    let (person, registry) = (Person::new(), TestRegistry::start(Access::Open));
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let component = fs::read(guest("greeter")).unwrap();
    let [one, two] = ["one", "two"].map(|tag| renamed(&component, tag));
    let digests = [&one, &two].map(|component| Digest::of(component).to_string());
    let tag = registry.reference("acme/greeter:1");
    let push = |component: &[u8]| {
        fs::write(person.path("push.wasm"), component).unwrap();
        person.does(&["push", &person.path("push.wasm"), &tag]).trim().to_owned()
    };
    push(&one);
    write_manifest(folder.path(), &json!({ "oci": tag }), 1);
    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    until_runs(&host, &digests[0]);
    let revision = host.json(&["get", "controllerrevision", "greeter-1"]);
    assert_eq!(revision["spec"]["spec"]["component"], json!({ "oci": tag, "digest": digests[0] }));

    // The tag moves and the host restarts. The revision has the digest that the tag had.
    let pinned = push(&two);
    host.kill();
    registry.take_requests();
    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    // The status may still be that of the previous host, so the test waits for the message of this one.
    host.wait_for_stderr("controller/greeter added");
    assert!(host.stderr().contains(&format!("controller/greeter added ({}", &digests[0][..19])), "{}", host.stderr());
    until_runs(&host, &digests[0]);
    assert_eq!(registry.take_requests().len(), 0, "the component comes from the cache");

    // A new revision resolves the tag again.
    write_manifest(folder.path(), &json!({ "oci": tag }), 2);
    until_runs(&host, &digests[1]);

    // A missing component is reported, and the running version keeps running.
    write_manifest(folder.path(), &json!({ "oci": registry.reference("acme/none:1") }), 2);
    host.wait_for_stderr("acme/none:1 was not found");
    until_runs(&host, &digests[1]);
    write_manifest(folder.path(), &json!({ "oci": tag, "digest": digests[0] }), 3);
    until_runs(&host, &digests[0]);

    // A component that was pulled before by its digest needs no registry.
    drop(registry);
    write_manifest(folder.path(), &json!({ "oci": pinned }), 4);
    until_runs(&host, &digests[1]);
    assert_eq!(host.terminate().code, Some(0));
}

#[test]
fn a_policy_refuses_unsigned_code_and_the_running_version_keeps_running() {
    let (person, registry) = (Person::new(), TestRegistry::start(Access::Open));
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    person.does(&["keygen", &person.path("release")]);
    let policy = person.path("policy.yaml");
    fs::write(&policy, "require: true\nkeys: [{name: release, file: release.pub}]\n").unwrap();
    let signed = folder.path().join("greeter.wasm");
    person.does(&["sign", &greeter(), "--key", &person.path("release.key"), "--to", signed.to_str().unwrap()]);
    let digest = Digest::of(&fs::read(&signed).unwrap()).to_string();
    write_manifest(folder.path(), &json!({ "file": "greeter.wasm" }), 1);
    let host = HostProcess::start("run", folder.path(), scratch.path(), &["--signatures", &policy]);
    until_runs(&host, &digest);
    // The policy applies to files and to registries.
    let original = fs::read(&signed).unwrap();
    fs::write(&signed, renamed(&original, "changed")).unwrap();
    host.wait_for_stderr("the component was changed after it was signed");
    let tag = registry.reference("a:1");
    person.does(&["push", &greeter(), &tag]);
    write_manifest(folder.path(), &json!({ "oci": tag }), 1);
    host.wait_for_stderr("the signature policy refuses it: the component is not signed");
    until_runs(&host, &digest);
    assert_eq!(host.terminate().code, Some(0));

    fs::write(&policy, "require: true\nkeys: []\n").unwrap();
    let refused = HostProcess::spawn("run", folder.path(), scratch.path(), &["--signatures", &policy]).wait_for_exit();
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("policy.yaml"), "{}", refused.stderr);
}

/// The host cached the unsigned component before it had a policy. Now it refuses it under any name and
/// source.
#[test]
fn a_policy_refuses_unsigned_code_from_the_cache() {
    let person = Person::new();
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    person.does(&["keygen", &person.path("release")]);
    let policy = person.path("policy.yaml");
    fs::write(&policy, "require: true\nkeys: [{name: release, file: release.pub}]\n").unwrap();
    let file = folder.path().join("greeter.wasm");
    fs::copy(guest("greeter"), &file).unwrap();
    let unsigned = Digest::of(&fs::read(&file).unwrap()).to_string();
    write_manifest(folder.path(), &json!({ "file": "greeter.wasm" }), 1);
    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    until_runs(&host, &unsigned);
    person.does(&["sign", &greeter(), "--key", &person.path("release.key"), "--to", file.to_str().unwrap()]);
    let signed = Digest::of(&fs::read(&file).unwrap()).to_string();
    until_runs(&host, &signed);
    host.kill();

    let refusal = "the signature policy refuses it: the component is not signed";
    let host = HostProcess::start("run", folder.path(), scratch.path(), &["--signatures", &policy]);
    until_runs(&host, &signed);
    // An undo, a restart, another controller and other sources name the unsigned component.
    assert_eq!(host.ask(&["rollout", "undo", "greeter"]).code, Some(0));
    let status = host.ask(&["rollout", "status", "greeter"]);
    assert!(status.code == Some(3) && status.stderr.contains(refusal), "{} {}", status.stdout, status.stderr);
    until_runs(&host, &signed);
    host.kill();
    let host = HostProcess::start("run", folder.path(), scratch.path(), &["--signatures", &policy]);
    let answers = |name: &str| host.json(&["get", "controller", name])["status"]["digest"].clone();
    let status = host.ask(&["rollout", "status", "greeter"]);
    assert!(status.code == Some(3) && status.stderr.contains(refusal), "{} {}", status.stdout, status.stderr);
    // Only a running controller can be ready.
    host.until("controller", "greeter", "/status/state", &json!("ready"));
    assert_eq!(answers("greeter"), json!(signed), "the signed version keeps running");
    let elsewhere = tempfile::tempdir().unwrap();
    for (source, name) in
        [("file: greeter.wasm, ", "by-file"), ("oci: \"registry.example/a:1\", ", "by-registry"), ("", "by-digest")]
    {
        let manifest = format!(
            "apiVersion: homeostat.dev/v1alpha1\nkind: Controller\nmetadata: {{name: {name}}}\nspec:\n  component: {{{source}digest: \"{unsigned}\"}}\n"
        );
        fs::write(elsewhere.path().join("other.yaml"), manifest).unwrap();
        let applied = host.ask(&["apply", "-f", elsewhere.path().join("other.yaml").to_str().unwrap()]);
        assert_eq!(applied.code, Some(0), "{}", applied.stderr);
        let status = host.ask(&["rollout", "status", name]);
        assert!(
            status.code == Some(3) && status.stderr.contains(refusal),
            "{name}: {} {}",
            status.stdout,
            status.stderr
        );
        assert_eq!(answers(name), Value::Null, "{name}");
    }
    assert_eq!(host.terminate().code, Some(0));
}
