use homeostat_store::STORES_MAX;

use super::*;

const HEAD: &str = "apiVersion: homeostat.dev/v1alpha1\nkind: Stores\n";

fn parse(text: &str) -> Result<StoresConfig, Vec<String>> {
    parse_with(text, Some(Path::new("/secrets")))
}

/// Parses a file whose secrets are in a folder.
fn parse_with(text: &str, secrets: Option<&Path>) -> Result<StoresConfig, Vec<String>> {
    let path = Path::new("stores.yaml");
    let document = SingleDocument::parse(path, text.as_bytes()).map_err(|problem| vec![problem.to_string()])?;
    StoresConfig::of(path, &document, secrets).map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

#[track_caller]
fn assert_problems(text: &str, expected: &[&str]) {
    let problems = parse(text).expect_err("it is refused");
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    for (problem, expected) in problems.iter().zip(expected) {
        assert!(problem.starts_with(expected), "\n     got: {problem}\nexpected: {expected}");
    }
}

fn two(routes: &str) -> String {
    format!("{HEAD}stores:\n  - name: bus\n    memory: {{}}\n  - name: cache\n    memory: {{}}\nroutes:\n{routes}")
}

#[test]
fn stores_and_routes_are_read_in_their_order() {
    let file =
        parse(&two("  - {kinds: [\"apps/Deployment\", \"v1/*\"], store: bus}\n  - {kinds: [\"*/*\"], store: cache}\n"));
    let file = file.unwrap();
    let names: Vec<&str> = file.stores.iter().map(|store| &*store.name).collect();
    assert_eq!(names, ["bus", "cache"]);
    let rules: Vec<String> =
        file.routes.rules().iter().map(|rule| format!("{} {}", rule.pattern, rule.store)).collect();
    assert_eq!(rules, ["apps/Deployment bus", "v1/* bus", "*/* cache"]);
    assert!(parse(&format!("---\n{HEAD}")).unwrap().stores.is_empty());
    assert!(parse(&two("  - {kinds: [\"v1/Namespace\", \"homeostat.dev/*\"], store: home}\n")).is_ok());
}

#[test]
fn every_mistake_is_refused_with_its_position() {
    for (text, expected) in [
        // Syntax and shape.
        (format!("{HEAD}stores: [\n"), "stores.yaml:3:9: "),
        (format!("{HEAD}store: []\n"), "stores.yaml:3:1: unknown field `store`"),
        (format!("{HEAD}stores:\n  - {{name: bus, memory: {{size: 1}}}}\n"), "stores.yaml:4:26: unknown field `size`"),
        (format!("{HEAD}stores:\n  - {{name: bus, disk: {{}}}}\n"), "stores.yaml:4:17: unknown field `disk`"),
        (format!("{HEAD}stores: bus\n"), "stores.yaml:3:9: expected a list, found the text \"bus\""),
        ("# nothing\n".to_owned(), "stores.yaml:1:1: expected one document, found 0"),
        (format!("{HEAD}---\n{HEAD}"), "stores.yaml:3:1: expected one document, found 2"),
        ("kind: Stores\n".to_owned(), "stores.yaml:1:1: missing field `apiVersion`"),
        (
            "apiVersion: v1\nkind: Stores\n".to_owned(),
            "stores.yaml:1:13: expected `homeostat.dev/v1alpha1`, found \"v1\"",
        ),
        (
            "apiVersion: homeostat.dev/v1alpha1\nkind: Deployment\n".to_owned(),
            "stores.yaml:2:7: expected `Stores`, found \"Deployment\"",
        ),
        // Stores.
        (
            format!("{HEAD}stores:\n  - {{name: home, memory: {{}}}}\n"),
            "stores.yaml:4:12: `home` is the host's own store",
        ),
        (
            format!("{HEAD}stores:\n  - {{name: A.b, memory: {{}}}}\n"),
            "stores.yaml:4:12: the name \"A.b\" must be 1 to 63",
        ),
        (format!("{HEAD}stores:\n  - name: bus\n"), "stores.yaml:4:5: store \"bus\" needs one place"),
        (
            format!("{HEAD}stores:\n  - {{name: bus, memory: {{}}}}\n  - {{name: bus, memory: {{}}}}\n"),
            "stores.yaml:5:12: there are two stores with the name \"bus\": the other one is in line 4",
        ),
        // Routes.
        (
            two("  - {kinds: [\"apps/*\"], store: bux}\n"),
            "stores.yaml:9:32: there is no store \"bux\": there are home, bus, cache",
        ),
        (two("  - {kinds: [], store: bus}\n"), "stores.yaml:9:13: expected one pattern or more"),
        (two("  - {kinds: [\"v1/Pod\", Pod], store: bus}\n"), "stores.yaml:9:24: kinds: \"Pod\" has no group"),
        (
            two("  - {kinds: [apps/v1/Deployment], store: bus}\n"),
            "stores.yaml:9:14: kinds: \"apps/v1/Deployment\" has a version",
        ),
        (
            two(
                "  - {kinds: [\"apps/*\"], store: bus}\n  - {kinds: [\"v1/Pod\", \"apps/Deployment\"], store: cache}\n",
            ),
            "stores.yaml:10:24: apps/Deployment can never match: an earlier rule sends apps/* to store bus (line 9)",
        ),
        (
            two("  - {kinds: [\"v1/Pod\"], store: bus}\n  - {kinds: [\"v1/Pod\"], store: cache}\n"),
            "stores.yaml:10:14: v1/Pod can never match: an earlier rule sends v1/Pod to store bus (line 9)",
        ),
        (
            two("  - {kinds: [\"homeostat.dev/Controller\"], store: bus}\n"),
            "stores.yaml:9:14: homeostat.dev/Controller is always in the host's own store, `home`",
        ),
        (two("  - {kinds: [\"v1/Namespace\"], store: bus}\n"), "stores.yaml:9:14: v1/Namespace lives in `home`"),
        (two("  - {kinds: [\"v1/Event\"], store: bus}\n"), "stores.yaml:9:14: v1/Event is always in"),
        (two("  - {kinds: [\"v1/Pod\"], store: bus, view: none}\n"), "stores.yaml:9:43: unknown variant `none`"),
    ] {
        assert_problems(&text, &[expected]);
    }
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let text = format!(
        "{HEAD}stores:\n  - {{name: home, memory: {{}}}}\nroutes:\n  - {{kinds: [Pod, \"a/b\"], store: bus}}\n"
    );
    assert_problems(
        &text,
        &[
            "stores.yaml:4:12: `home` is the host's own store",
            "stores.yaml:6:14: kinds: \"Pod\" has no group",
            "stores.yaml:6:34: there is no store \"bus\": there are home",
        ],
    );
}

#[test]
fn more_stores_than_the_bound_are_refused() {
    let entries =
        |count: usize| -> String { (0..count).map(|at| format!("  - {{name: s{at}, memory: {{}}}}\n")).collect() };
    assert!(parse(&format!("{HEAD}stores:\n{}", entries(STORES_MAX - 1))).is_ok());
    assert_problems(
        &format!("{HEAD}stores:\n{}", entries(STORES_MAX)),
        &["stores.yaml:4:3: a host has at most 15 stores"],
    );
}

#[test]
fn a_rule_that_hides_resources_of_the_hosts_own_store_is_refused() {
    let file =
        parse(&two("  - {kinds: [\"v1/Secret\"], store: home}\n  - {kinds: [\"apps/*\", \"v1/*\"], store: bus}\n"))
            .unwrap();
    let kind = |text: &str| Kind::parse("v1", text).unwrap();
    assert!(file.check_home(&[kind("Secret"), kind("Namespace"), Kind::new("other.dev", "v1", "Pod")]).is_ok());
    let error = file.check_home(&[kind("Secret"), kind("Pod")]).unwrap_err().to_string();
    assert!(error.contains("stores.yaml:10:24: store `home` has resources of v1/Pod"), "{error}");
}

#[test]
fn the_folder_has_the_file_unless_the_command_line_names_another() {
    let folder = tempfile::tempdir().unwrap();
    assert!(StoresConfig::find(None, folder.path(), None).unwrap().is_none());
    let other = folder.path().join("other.yaml");
    let error = StoresConfig::find(Some(&other), folder.path(), None).unwrap_err().to_string();
    assert!(error.contains("other.yaml:1:1: the file cannot be read"), "{error}");
    std::fs::write(folder.path().join(FILE), format!("{HEAD}stores: [{{name: bus, memory: {{}}}}]\n")).unwrap();
    let found = StoresConfig::find(None, folder.path(), None).unwrap().unwrap();
    assert_eq!((found.stores.len(), found.path()), (1, folder.path().join(FILE).as_path()));
    std::fs::write(&other, HEAD).unwrap();
    let found = StoresConfig::find(Some(&other), folder.path(), None).unwrap().unwrap();
    assert_eq!((found.stores.len(), found.path()), (0, other.as_path()));
}

#[cfg(feature = "nats")]
#[test]
fn the_settings_of_nats_are_read_and_mistakes_have_their_positions() {
    let store = |settings: &str| {
        format!(
            "{HEAD}stores:\n  - name: bus\n    cache: {{bytesMax: 512Mi}}\n    nats:\n      bucket: homeostat\n{settings}"
        )
    };
    let full = "      servers: [\"tls://a:4222\", \"tls://b:4222\"]\n      credentials: {file: bus.creds}\n      tls: {authority: ca.pem, first: true}\n      domain: hub\n      create: {replicas: 3, bytesMax: 10Gi, compression: true}\n      markers: 1h\n      accept: [sync-interval]\n";
    let file = parse(&store(full)).unwrap();
    let Storage::Nats(settings) = &file.stores[0].storage else { panic!("it is in NATS") };
    assert_eq!((settings.servers.len(), settings.create.as_ref().unwrap().replicas), (2, 3));
    assert_eq!((file.stores[0].cache_bytes_max, &*settings.name), (Some(512 << 20), "bus"));
    let servers = "      servers: [\"nats://a\"]\n";
    for (more, expected) in [
        ("      servers: []\n", "stores.yaml:8:16: `servers` must name at least one"),
        ("      servers: [a]\n      bukket: b\n", "stores.yaml:9:7: unknown field `bukket`"),
        (&format!("{servers}      create: {{replicas: 9}}\n"), "stores.yaml:9:26: `create.replicas` must be 1 to 5"),
        (&format!("{servers}      credentials: {{}}\n"), "stores.yaml:9:20: expected one of: `file`"),
        (&format!("{servers}      domain: a\n      apiPrefix: b\n"), "stores.yaml:10:18: `domain` and `apiPrefix`"),
        (
            &format!("{servers}      foreign:\n        - {{kind: a.dev/v1/B, bucket: b, key: \"{{name}}\"}}\n"),
            "stores.yaml:10:18: a.dev/v1/B lives in store home",
        ),
    ] {
        assert_problems(&store(more), &[expected]);
    }
    let both = format!("{HEAD}stores:\n  - {{name: bus, memory: {{}}, nats: {{servers: [a], bucket: b}}}}\n");
    assert_problems(&both, &["stores.yaml:4:5: store \"bus\" needs one place"]);
    let empty = format!("{HEAD}stores:\n  - {{name: bus, memory: {{}}, cache: {{bytesMax: 0}}}}\n");
    assert_problems(&empty, &["stores.yaml:4:47: a cache of 0 bytes"]);
}

/// A bucket with these credentials.
#[cfg(feature = "nats")]
fn with_credentials(credentials: &str) -> String {
    format!(
        "{HEAD}stores:\n  - name: bus\n    nats:\n      servers: [\"nats://a\"]\n      bucket: b\n      credentials: {credentials}\n"
    )
}

#[cfg(feature = "nats")]
#[test]
fn each_form_of_nats_credentials_is_read_with_its_secret() {
    use std::os::unix::fs::PermissionsExt;

    use homeostat_nats::settings::Credentials;

    let folder = tempfile::tempdir().unwrap();
    for name in ["bus.creds", "seed", "password", "token"] {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("content of {name}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let file = format!("{{file: {}}}", folder.path().join("bus.creds").display());
    for (written, form, user, secret) in [
        (&*file, "File", None, "content of bus.creds"),
        ("{nkey: {secret: seed}}", "Nkey", None, "content of seed"),
        ("{user: ann, password: {secret: password}}", "User", Some("ann"), "content of password"),
        ("{token: {secret: token}}", "Token", None, "content of token"),
    ] {
        let config = parse_with(&with_credentials(written), Some(folder.path())).unwrap();
        let Storage::Nats(settings) = &config.stores[0].storage else { panic!("it is in NATS") };
        let credentials = settings.credentials.as_ref().unwrap();
        let (name, source) = match credentials {
            Credentials::File(source) | Credentials::Nkey(source) | Credentials::Token(source) => (None, source),
            Credentials::User { name, password } => (Some(&**name), password),
        };
        assert_eq!((&*format!("{credentials:?}"), name, &*source().unwrap()), (form, user, secret), "{written}");
    }
    assert!(parse_with(&with_credentials(&file), None).is_ok(), "a file of credentials needs no folder of secrets");
}

#[cfg(feature = "nats")]
#[test]
fn nats_credentials_of_no_form_or_of_two_are_refused() {
    for credentials in [
        "{}",
        "{user: ann}",
        "{password: {secret: a}}",
        "{file: bus.creds, token: {secret: a}}",
        "{nkey: {secret: a}, token: {secret: a}}",
        "{user: ann, password: {secret: a}, nkey: {secret: a}}",
    ] {
        let expected = "stores.yaml:8:20: expected one of: `file`; `nkey`; `user` with `password`; `token`";
        assert_problems(&with_credentials(credentials), &[expected]);
    }
    assert_problems(&with_credentials("{nkey: {secret: ../a}}"), &["stores.yaml:8:36: \"../a\" is not a valid"]);
    let problems = parse_with(&with_credentials("{token: {secret: a}}"), None).unwrap_err();
    assert!(problems[0].starts_with("stores.yaml:8:37: secrets come from the folder of `--secrets`"), "{problems:?}");
}

#[cfg(feature = "kubernetes")]
#[test]
fn in_cluster_uses_the_account_of_the_pod_or_says_that_there_is_no_pod() {
    use homeostat_kubernetes::Credentials;

    let text = format!("{HEAD}stores:\n  - name: cluster\n    kubernetes:\n      inCluster: true\n");
    match parse(&text) {
        Err(problems) => {
            assert_eq!(problems, ["stores.yaml:6:18: this process does not run in a pod"]);
        }
        // These tests themselves run in a pod.
        Ok(config) => {
            let Storage::Kubernetes(settings) = &config.stores[0].storage else { panic!("it is in a cluster") };
            assert!(matches!(settings.credentials, Credentials::Pod { .. }), "{settings:?}");
        }
    }
}

#[cfg(feature = "kubernetes")]
#[test]
fn the_settings_of_kubernetes_are_read_and_mistakes_have_their_positions() {
    let store = |settings: &str| {
        format!(
            "{HEAD}stores:\n  - name: cluster\n    kubernetes:\n      kubeconfig: config\n{settings}routes:\n  - {{kinds: [\"v1/Namespace\"], store: cluster}}\n"
        )
    };
    let file = parse(&store(
        "      context: prod\n      namespace: team-a\n      requests: {inFlight: 8, perSecond: null, deadline: 5s}\n      leases: {namespace: homeostat}\n",
    ))
    .unwrap();
    let Storage::Kubernetes(settings) = &file.stores[0].storage else { panic!("it is in a cluster") };
    assert_eq!((settings.in_flight_max, settings.namespace.as_deref()), (8, Some("team-a")));
    assert_eq!(settings.lease_namespace.as_deref(), Some("homeostat"));
    for (more, expected) in [
        ("      inCluster: true\n", "stores.yaml:7:18: `kubeconfig` and `inCluster` exclude"),
        ("      requests: {inFlight: 0}\n", "stores.yaml:7:28: `requests.inFlight` must be above zero"),
        ("      namespace: A\n", "stores.yaml:7:18: `namespace` must be a DNS label"),
        ("      leases: {namespace: A}\n", "stores.yaml:7:27: `leases.namespace` must be a DNS label"),
        ("      leases: {name: a}\n", "stores.yaml:7:16: unknown field `name`"),
    ] {
        assert_problems(&store(more), &[expected]);
    }
}
