//! The binary during a canary or a shadow: its messages, and its recovery after `kill -9`.

use homeostat_fixtures::demo;
use homeostat_testing::eventually_blocking;
use homeostat_tests::{HostProcess, guest};
use serde_json::{Value, json};

use super::folder::write;

/// A folder with the controller `versioned`, which can play any version, and with resources for it.
struct VersionedFolder {
    folder: tempfile::TempDir,
    scratch: tempfile::TempDir,
}

impl VersionedFolder {
    fn new(keys: u32) -> Self {
        let versioned = Self { folder: tempfile::tempdir().unwrap(), scratch: tempfile::tempdir().unwrap() };
        std::fs::copy(guest("guest-versioned"), versioned.folder.path().join("versioned.wasm")).unwrap();
        let kind = "apiVersion: demo.homeostat.dev/v1\nkind: Versioned\n";
        let resource = |number| format!("{kind}metadata: {{name: k{number}, namespace: default}}\nspec: {{}}\n");
        write(versioned.folder.path(), "keys.yaml", &(0..keys).map(resource).collect::<Vec<_>>().join("---\n"));
        versioned
    }

    /// Writes the manifest of a version. Each step of its rollout takes `lasts`.
    fn save(&self, version: &str, bad: &str, lasts: &str) {
        let gate = format!("{{for: {lasts}, reconciles: 1, duration: 1000x}}");
        let text = format!(
            "apiVersion: homeostat.dev/v1alpha1\nkind: Controller\nmetadata: {{name: versioned}}\nspec:\n  component: {{file: versioned.wasm}}\n  \
             config: {{version: \"{version}\", bad: \"{bad}\"}}\n  grants:\n    resources:\n    - {{kinds: [\"*\"], verbs: [\"*\"], namespaces: [\"*\"]}}\n  \
             rollout: {{strategy: canary, steps: [30%, 60%], gate: {gate}}}\n"
        );
        write(self.folder.path(), "versioned.yaml", &text);
    }

    fn run(&self) -> HostProcess {
        HostProcess::start("run", self.folder.path(), self.scratch.path(), &[])
    }

    /// Waits until `status.rollout` is as wanted, and returns the status.
    fn until(host: &HostProcess, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        eventually_blocking(&format!("the rollout: {what}"), || {
            let output = host.ask(&["get", "controller", "versioned", "-o", "json"]);
            let status = serde_json::from_str::<Value>(&output.stdout).ok()?["status"].clone();
            wanted(&status["rollout"]).then_some(status)
        })
    }

    fn history(host: &HostProcess) -> Vec<String> {
        let output = host.ask(&["rollout", "history", "versioned"]);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        output.stdout.lines().skip(1).map(|line| line.split("   ").next().unwrap().trim().to_owned()).collect()
    }
}

/// A host that is killed during a canary finds one current revision, and continues the canary.
#[test]
fn a_canary_continues_after_kill_9_and_a_bad_edit_is_rolled_back() {
    let versioned = VersionedFolder::new(20);
    versioned.save("one", "", "1h");
    let mut host = versioned.run();
    host.wait_for_stderr("controller/versioned added");
    versioned.save("two", "", "1h");
    host.wait_for_stderr("controller/versioned rollout: revision 2 has 30% of the keys, revision 1 the others");
    host.kill();
    host = versioned.run();
    let status = VersionedFolder::until(&host, "to continue", |rollout| rollout["phase"] == "canary");
    assert_eq!(
        (&status["revision"], &status["rollout"]["to"], &status["rollout"]["share"]),
        (&json!(1), &json!(2), &json!("30%"))
    );
    assert_eq!(VersionedFolder::history(&host), ["1 *", "2 ?"]);
    versioned.save("two", "", "100ms");
    host.wait_for_stderr("controller/versioned rollout: revision 2 has all keys, it replaces revision 1");
    let status = host.ask(&["rollout", "status", "versioned"]);
    assert_eq!(
        (status.code, status.stdout.as_str()),
        (Some(0), "controller \"versioned\" successfully rolled out: revision 2 runs\n")
    );
    assert_eq!(VersionedFolder::history(&host), ["1", "2 *"]);

    // The kill happens at each step, or wherever the rollout has got in the meantime.
    for (number, wanted) in [(3, "listing"), (4, "30%"), (5, "60%"), (6, "100%")] {
        versioned.save(&number.to_string(), "", "200ms");
        VersionedFolder::until(&host, wanted, |rollout| {
            rollout["to"] == number
                && (wanted == "listing" || rollout["share"] == wanted || rollout["phase"] == "complete")
        });
        host.kill();
        host = versioned.run();
        let status = VersionedFolder::until(&host, "to be complete", |rollout| {
            rollout["to"] == number && rollout["phase"] == "complete"
        });
        assert_eq!(status["revision"], number);
        let history = VersionedFolder::history(&host);
        assert_eq!(history.len(), number as usize, "{history:?}");
        assert_eq!(history.iter().filter(|line| line.ends_with('*')).collect::<Vec<_>>(), [&format!("{number} *")]);
    }

    versioned.save("bad", "trap", "1h");
    host.wait_for_stderr("controller/versioned rolled back: revision 7 was rolled back to revision 6: ");
    let status = host.ask(&["rollout", "status", "versioned"]);
    assert_eq!(status.code, Some(3), "{}", status.stderr);
    assert!(
        status.stderr.contains("revision 7 was rolled back to revision 6") && status.stderr.contains("trapped"),
        "{}",
        status.stderr
    );
    host.kill();
    host = versioned.run();
    let status = VersionedFolder::until(&host, "to stay rolled back", |rollout| rollout["phase"] == "rolledBack");
    assert_eq!(status["revision"], 6);
    assert_eq!(VersionedFolder::history(&host)[5..], ["6 *", "7 -"]);
    let undone = host.ask(&["rollout", "undo", "versioned"]);
    assert_eq!(undone.stdout, "controller.homeostat.dev/versioned rolled back to revision 6\n", "{}", undone.stderr);
    assert_eq!(host.ask(&["rollout", "status", "versioned"]).code, Some(0));
}

/// Returns the manifest of the guest `shadowed` with this face, and with these lines of `spec.rollout`.
fn shadowed(face: &str, rollout: &str) -> String {
    format!(
        "apiVersion: homeostat.dev/v1alpha1\nkind: Controller\nmetadata: {{name: shadowed}}\nspec:\n  component: {{file: shadowed.wasm}}\n  \
         config: {{face: \"{face}\"}}\n  grants:\n    resources: [{{kinds: [\"*\"], verbs: [\"*\"], namespaces: [\"*\"]}}]\n    \
         http: [{{urls: [\"https://example.com/*\"]}}]\n{rollout}"
    )
}

/// A shadow with other writes is rolled back with the difference as the reason. One with the same writes is
/// promoted.
#[test]
fn a_shadow_is_reported_in_the_terminal_before_its_promotion() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::copy(guest("guest-shadowed"), folder.path().join("shadowed.wasm")).unwrap();
    write(folder.path(), "shadowed.yaml", &shadowed("", ""));
    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    host.until("controller", "shadowed", "/status/state", &json!("ready"));
    write(folder.path(), "t0.yaml", &demo("Shadowed", "t0", json!({ "size": 1 })).to_string());
    eventually_blocking("the part to be there", || (host.ask(&["get", "parts", "t0"]).code == Some(0)).then_some(()));

    write(folder.path(), "shadowed.yaml", &shadowed("field", "  rollout: {strategy: shadow, shadow: {for: 1h}}\n"));
    host.wait_for_stderr("controller/shadowed rollout: revision 2 is a shadow of revision 1");
    host.wait_for_stderr("controller/shadowed rolled back: revision 2 was rolled back to revision 1: ");
    host.until("controller", "shadowed", "/status/rollout/phase", &json!("rolledBack"));
    let status = host.ask(&["rollout", "status", "shadowed"]);
    assert!(status.code == Some(3) && status.stderr.contains("spec.size: 2 instead of 1"), "{}", status.stderr);
    let told = host.ask(&["rollout", "diff", "shadowed", "--shadow"]);
    assert!(told.stdout.contains("Part default/t0: apply\n  - spec.size: 1\n  + spec.size: 2"), "{}", told.stdout);
    assert_eq!(host.json(&["get", "parts", "t0"])["spec"]["size"], 1, "no write of the shadow was applied");

    let shadow = "  rollout: {strategy: shadow, shadow: {for: 100ms, reconciles: 1}}\n";
    write(folder.path(), "shadowed.yaml", &shadowed("look", shadow));
    host.until("controller", "shadowed", "/status/rollout/phase", &json!("complete"));
    assert_eq!(host.ask(&["rollout", "status", "shadowed"]).code, Some(0));
    let status = host.json(&["get", "controller", "shadowed"]);
    assert_eq!(status.pointer("/status/rollout/shadow/differing"), Some(&json!(0)), "{status}");
    let told = host.ask(&["rollout", "diff", "shadowed", "--from", "1"]);
    assert!(told.stdout.contains("config.face: look") && !told.stdout.contains("code."), "{}", told.stdout);
}

/// A host that is killed during a shadow finds the stable revision current, and restarts the shadow.
#[test]
fn a_shadow_restarts_after_kill_9() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::copy(guest("guest-shadowed"), folder.path().join("shadowed.wasm")).unwrap();
    write(folder.path(), "shadowed.yaml", &shadowed("", ""));
    write(folder.path(), "t0.yaml", &demo("Shadowed", "t0", json!({ "size": 1 })).to_string());
    let mut host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    eventually_blocking("the part to be there", || (host.ask(&["get", "parts", "t0"]).code == Some(0)).then_some(()));
    let shadow = |lasts: &str| format!("  rollout: {{strategy: shadow, shadow: {{for: {lasts}, reconciles: 1}}}}\n");
    let history = |host: &HostProcess| {
        let told = host.ask(&["rollout", "history", "shadowed"]).stdout;
        told.lines().skip(1).map(|line| line.split("   ").next().unwrap().trim().to_owned()).collect::<Vec<_>>()
    };
    write(folder.path(), "shadowed.yaml", &shadowed("look", &shadow("1h")));
    for _ in 0..2 {
        host.until("controller", "shadowed", "/status/rollout/phase", &json!("shadow"));
        assert_eq!(history(&host), ["1 *", "2 ?"]);
        assert_eq!(host.json(&["get", "controller", "shadowed"])["status"]["revision"], 1);
        host.kill();
        host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    }
    write(folder.path(), "shadowed.yaml", &shadowed("look", &shadow("100ms")));
    host.until("controller", "shadowed", "/status/rollout/phase", &json!("complete"));
    assert_eq!(host.json(&["get", "controller", "shadowed"])["status"]["revision"], 2);
    assert_eq!(history(&host), ["1", "2 *"]);
}
