//! Several people with rights of their own on one host: rules of tokens, and stored roles and bindings.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use homeostat_testing::eventually_blocking;
use homeostat_tests::{HostProcess, ask_plain_with, kubectl};
use serde_json::{Value, json};
use tempfile::TempDir;

const ROOT: &str = "the-token-of-the-owner";
const CAROL: &str = "the-token-of-carol-in-a";
const DAVE: &str = "the-token-of-dave-of-devs";

const TOKENS: &str = "\
- {name: root, token: the-token-of-the-owner, access: write}
- name: carol
  token: the-token-of-carol-in-a
  rules:
  - {apiGroups: [''], resources: [configmaps], verbs: [get, list, watch, create], namespaces: [a]}
  - {apiGroups: [rbac.authorization.k8s.io], resources: [roles, rolebindings], verbs: [get, list, create, update, patch], namespaces: [a]}
  - {nonResourceURLs: [/metrics], verbs: [get]}
- {name: dave, token: the-token-of-dave-of-devs, groups: [devs]}
";

/// A host with three tokens and the namespaces `a` and `b`.
struct Shared {
    host: HostProcess,
    port: u16,
    _folders: [TempDir; 2],
}

impl Shared {
    fn start() -> Self {
        Self::on("http")
    }

    /// Starts the host on a port with or without TLS.
    fn on(scheme: &str) -> Self {
        let (folder, scratch) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let file = |name: &str, text: &str| {
            let path = scratch.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            path.display().to_string()
        };
        let (tokens, root) = (file("tokens.yaml", TOKENS), file("root.token", ROOT));
        let authority = scratch.path().join("data/tls.crt").display().to_string();
        let mut client = vec!["--token-file", &*root];
        if scheme == "https" {
            client.extend(["--certificate-authority", &authority]);
        }
        let host = HostProcess::start_on_port(scheme, folder.path(), scratch.path(), &["--tokens", &tokens], &client);
        let port = host.server().rsplit_once(':').unwrap().1.parse().unwrap();
        let shared = Self { host, port, _folders: [folder, scratch] };
        if scheme == "https" {
            return shared;
        }
        for name in ["a", "b"] {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            assert_eq!(shared.code(ROOT, "POST", "/api/v1/namespaces", Some(&namespace)), 201);
        }
        shared
    }

    fn ask(&self, token: &str, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let answer = ask_plain_with(self.port, token, method, path, body).unwrap();
        (answer.status, serde_json::from_str(&answer.text).unwrap_or_default())
    }

    fn code(&self, token: &str, method: &str, path: &str, body: Option<&Value>) -> u16 {
        self.ask(token, method, path, body).0
    }
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

fn role(name: &str, verbs: &[&str]) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}],
    })
}

fn binding(name: &str, kind: &str, role: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "devs"}],
    })
}

const MAPS_A: &str = "/api/v1/namespaces/a/configmaps";
const MAPS_B: &str = "/api/v1/namespaces/b/configmaps";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/a/roles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/a/rolebindings";

#[test]
fn a_token_with_rules_may_do_what_they_allow_and_nothing_else() {
    let shared = Shared::start();
    assert_eq!(shared.code(CAROL, "POST", MAPS_A, Some(&config_map("x"))), 201);
    assert_eq!(shared.code(CAROL, "GET", &format!("{MAPS_A}/x"), None), 200);
    assert_eq!(shared.code(CAROL, "GET", "/metrics", None), 200);
    for path in ["/api", "/apis", "/version", "/openapi/v3", "/readyz"] {
        assert_eq!(shared.code(CAROL, "GET", path, None), 200, "{path}");
    }
    for (method, path) in [
        ("DELETE", &*format!("{MAPS_A}/x")),
        ("GET", MAPS_B),
        ("POST", MAPS_B),
        ("GET", "/api/v1/configmaps"),
        ("GET", "/api/v1/namespaces/a/secrets"),
        ("GET", "/apis/homeostat.dev/v1alpha1/controllers"),
        ("GET", "/homeostat/v1/logs"),
        ("GET", "/homeostat/v1/backup"),
        ("POST", "/homeostat/v1/drain"),
    ] {
        let (code, body) = shared.ask(CAROL, method, path, None);
        assert_eq!((code, &body["reason"]), (403, &json!("Forbidden")), "{method} {path}");
    }
    let (_, refused) = shared.ask(CAROL, "GET", MAPS_B, None);
    let words = "configmaps is forbidden: User \"carol\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"b\"";
    assert_eq!(refused["message"], words);
}

#[test]
fn stored_roles_and_bindings_take_effect_and_end() {
    let shared = Shared::start();
    let list = || shared.code(DAVE, "GET", MAPS_A, None);
    assert_eq!(list(), 403);
    assert_eq!(shared.code(ROOT, "POST", ROLES, Some(&role("reader", &["list"]))), 201);
    assert_eq!(shared.code(ROOT, "POST", BINDINGS, Some(&binding("devs", "Role", "reader"))), 201);
    eventually_blocking("the binding has an effect", || (list() == 200).then_some(()));
    assert_eq!(shared.code(DAVE, "GET", MAPS_B, None), 403);
    assert_eq!(shared.code(DAVE, "POST", MAPS_A, Some(&config_map("y"))), 403);
    // A cluster role that every cluster has, in one namespace.
    assert_eq!(shared.code(ROOT, "POST", BINDINGS, Some(&binding("editors", "ClusterRole", "edit"))), 201);
    let create = || shared.code(DAVE, "POST", &format!("{MAPS_A}?dryRun=All"), Some(&config_map("y")));
    eventually_blocking("the second binding has an effect", || (create() == 201).then_some(()));
    for name in ["devs", "editors"] {
        assert_eq!(shared.code(ROOT, "DELETE", &format!("{BINDINGS}/{name}"), None), 200);
    }
    eventually_blocking("the bindings have no effect", || (list() == 403).then_some(()));
}

#[test]
fn nobody_gives_away_rights_that_they_do_not_have() {
    let shared = Shared::start();
    let refused = shared.ask(CAROL, "POST", ROLES, Some(&role("writer", &["get", "delete"])));
    let words = "roles.rbac.authorization.k8s.io \"writer\" is forbidden: user \"carol\" (groups=[\"system:authenticated\"]) \
        is attempting to grant RBAC permissions not currently held:\n\
        {APIGroups:[\"\"], Resources:[\"configmaps\"], Verbs:[\"delete\"]}";
    assert_eq!((refused.0, refused.1["message"].as_str()), (403, Some(words)));
    assert_eq!(shared.code(CAROL, "POST", ROLES, Some(&role("reader", &["get", "list"]))), 201);
    assert_eq!(shared.code(CAROL, "POST", BINDINGS, Some(&binding("more", "ClusterRole", "edit"))), 403);
    let bound = || shared.code(CAROL, "POST", BINDINGS, Some(&binding("devs", "Role", "reader")));
    eventually_blocking("the role is known, and can be bound", || (bound() == 201).then_some(()));
    eventually_blocking("the binding has an effect", || (shared.code(DAVE, "GET", MAPS_A, None) == 200).then_some(()));
    let widened = role("reader", &["get", "list", "delete"]);
    assert_eq!(shared.code(CAROL, "PUT", &format!("{ROLES}/reader"), Some(&widened)), 403);
    assert_eq!(shared.code(CAROL, "PATCH", &format!("{ROLES}/reader"), Some(&json!({"rules": widened["rules"]}))), 403);
}

/// Runs kubectl with a token, and returns what it says.
fn ask_kubectl(server: &str, token: &str, words: &[&str]) -> String {
    let mut command = Command::new(kubectl());
    command.args(["--insecure-skip-tls-verify", "--server", server, "--token", token]).args(words);
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    text.concat().trim().to_owned()
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn kubectl_tells_what_a_token_may_do() {
    // kubectl sends no token without TLS.
    let shared = Shared::on("https");
    let can = |token: &str, words: &[&str]| ask_kubectl(shared.host.server(), token, &[&["auth"], words].concat());
    assert_eq!(can(CAROL, &["can-i", "list", "configmaps", "-n", "a"]), "yes");
    assert!(can(CAROL, &["can-i", "list", "configmaps", "-n", "b"]).starts_with("no"));
    assert!(can(CAROL, &["can-i", "--list", "-n", "a"]).contains("configmaps"));
    assert!(can(DAVE, &["whoami"]).contains("[devs system:authenticated]"));
    assert_eq!(can(ROOT, &["can-i", "*", "*"]), "yes");
    assert!(can(DAVE, &["can-i", "*", "*"]).starts_with("no"));
}

#[test]
#[cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")]
fn a_service_account_has_the_rights_that_are_bound_to_it() {
    let shared = Shared::on("https");
    let ask = |token: &str, words: &[&str]| ask_kubectl(shared.host.server(), token, words);
    assert_eq!(ask(ROOT, &["create", "serviceaccount", "robot"]), "serviceaccount/robot created");
    let token = ask(ROOT, &["create", "token", "robot"]);
    assert!(ask(&token, &["auth", "whoami"]).contains("system:serviceaccount:default:robot"));
    assert!(ask(&token, &["get", "pods"]).contains("cannot list resource \"pods\""));
    ask(ROOT, &["create", "rolebinding", "robot", "--clusterrole=view", "--serviceaccount=default:robot"]);
    eventually_blocking("the binding has an effect", || ask(&token, &["get", "pods"]).starts_with("No").then_some(()));
    assert!(ask(&token, &["get", "secrets"]).contains("Forbidden"));
    // Only those who may do everything act as the account, or give out its tokens.
    for refused in [&["get", "pods", "--as=system:serviceaccount:default:robot"][..], &["create", "token", "robot"]] {
        assert!(ask(DAVE, refused).contains("orbidden"), "{refused:?}");
    }
    assert!(ask(ROOT, &["get", "pods", "--as=system:serviceaccount:default:robot"]).starts_with("No"));
    assert!(ask(ROOT, &["get", "secrets", "--as=system:serviceaccount:default:robot"]).contains("Forbidden"));
    ask(ROOT, &["delete", "serviceaccount", "robot"]);
    assert!(ask(&token, &["get", "pods"]).contains("Unauthorized"));
}
