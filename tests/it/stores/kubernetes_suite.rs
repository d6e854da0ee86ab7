//! The conformance suite on a real apiserver, with reads from the cache.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use async_trait::async_trait;
use homeostat_conformance::{Definition, Difference, Fixture, KindServer, Making, NAMESPACES, Setup};
use homeostat_kubernetes::{Cluster, ClusterSettings, Credentials};
use homeostat_store::cached::{self, CachedStore, Upstream};
use homeostat_store::{Kind, Options};
use homeostat_testing::{eventually, eventually_blocking};
use homeostat_tests::{Cluster as Server, shared_bare_cluster};
use serde_json::{Value, json};

mod on_a_cache {
    homeostat_conformance::suite!(
        crate::stores::kubernetes_suite::on_a_cache,
        cfg_attr(missing_go, ignore = "Go 1.26 or newer is not on PATH: https://go.dev/dl")
    );
}

/// The path of the definitions of kinds.
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Cases whose kind `Thing` is defined before they begin: a server serves a new kind two seconds later.
const AHEAD: u32 = 16;
/// The mark of a definition that no case has changed.
const FIRST_MARK: &str = "first";
/// Largest document of the server.
const DOCUMENT_BYTES_MAX: u64 = 3 << 19;

fn on_a_cache(options: Options) -> Making {
    Box::pin(with_group(options))
}

/// Makes the store of one case, with a group of its own.
async fn with_group(options: Options) -> Fixture {
    const DIFFERENCES: &[Difference] = &[
        Difference::GapsInRevisions,
        Difference::SeenLater,
        Difference::DefinedKinds,
        Difference::DeletionsWithoutRevision,
        Difference::ServerRules,
        Difference::UntypedMerges,
    ];
    static CASES: AtomicU32 = AtomicU32::new(0);
    let case = CASES.fetch_add(1, Ordering::Relaxed);
    let (server, things) = (tokio::task::block_in_place(server), things(case));
    // A store knows the kinds that the server has when it connects, and looks for others every three seconds.
    tokio::task::block_in_place(|| {
        create_ahead(server, case);
        wait_until_served(server, &things, FIRST_MARK);
    });
    let group = things.kind.group.clone();
    let files = vec![server.kubeconfig("admin")];
    let credentials = Credentials::Kubeconfig { files, context: None };
    let cluster = Arc::new(Cluster::new(ClusterSettings::new("cluster", credentials)));
    let Options { history_max, history_bytes_max, clock, .. } = options;
    let cache = cached::Options { history_max, history_bytes_max, clock, ..cached::Options::default() };
    let store = CachedStore::start(Arc::clone(&cluster) as Arc<dyn Upstream>, cache);
    let kinds = Definitions { server, cluster, things: Mutex::new(things) };
    let setup = Setup {
        group,
        differences: DIFFERENCES,
        kinds: Some(Box::new(kinds)),
        subscribes: true,
        document_bytes_max: DOCUMENT_BYTES_MAX,
        manager_prefix: "homeostat/",
        ..Setup::of(Arc::new(store))
    };
    setup.start().await
}

/// The first definition of `Thing` in the group of a case.
fn things(case: u32) -> Definition {
    let kind = Kind::new(format!("case-{case}.dev"), "v1", "Thing");
    Definition { kind, is_namespaced: true, versions: vec![("v1".to_owned(), None)] }
}

/// Defines `Thing` for a case and for some after it.
fn create_ahead(server: &Server, case: u32) {
    static CREATED: Mutex<u32> = Mutex::new(0);
    let mut created = CREATED.lock().unwrap();
    while *created <= case + AHEAD {
        let answer =
            server.request("POST", DEFINITIONS, Some(&custom_resource_definition(&things(*created), FIRST_MARK)));
        assert_eq!(answer.status, 201, "{}", answer.text);
        *created += 1;
    }
}

/// Returns the server of all cases. It has no controllers: the collector of a case is the only one.
fn server() -> &'static Server {
    static WITH_NAMESPACES: OnceLock<&'static Server> = OnceLock::new();
    WITH_NAMESPACES.get_or_init(|| {
        let server = shared_bare_cluster();
        for name in NAMESPACES {
            let document = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            assert_eq!(server.request("POST", "/api/v1/namespaces", Some(&document)).status, 201, "{name}");
        }
        server
    })
}

/// Defines the kinds of a case on the server.
struct Definitions {
    server: &'static Server,
    cluster: Arc<Cluster>,
    /// The definition of `Thing` that holds now.
    things: Mutex<Definition>,
}

#[async_trait]
impl KindServer for Definitions {
    async fn define(&self, definition: &Definition) {
        if *self.things.lock().unwrap() == *definition {
            return;
        }
        tokio::task::block_in_place(|| define(self.server, definition));
        if definition.kind.name == "Thing" {
            *self.things.lock().unwrap() = definition.clone();
        }
        let Definition { kind, versions, .. } = definition;
        let is_known = || async {
            for (name, _) in versions {
                self.cluster.revision(&Kind::new(kind.group.as_str(), name, &kind.name)).await.ok()?;
            }
            let catalog = Arc::clone(&self.cluster.catalog().borrow());
            let served = catalog.find(kind)?;
            versions.iter().all(|(name, _)| served.versions.contains(name)).then_some(())
        };
        eventually("the store knows the kind", is_known).await;
    }
}

/// Defines a custom kind, or gives it another definition, and waits until that holds.
fn define(server: &Server, definition: &Definition) {
    static MARKS: AtomicU32 = AtomicU32::new(0);
    let mark = format!("mark-{}", MARKS.fetch_add(1, Ordering::Relaxed));
    let document = custom_resource_definition(definition, &mark);
    let mut answer = server.request("POST", DEFINITIONS, Some(&document));
    if answer.status == 409 {
        let path = format!("{DEFINITIONS}/{}", document["metadata"]["name"].as_str().unwrap());
        answer = server.request("PATCH", &path, Some(&document));
    }
    assert!(matches!(answer.status, 200 | 201), "{}", answer.text);
    wait_until_served(server, definition, &mark);
}

fn plural(kind: &Kind) -> String {
    format!("{}s", kind.name.to_lowercase())
}

fn custom_resource_definition(Definition { kind, is_namespaced, versions }: &Definition, mark: &str) -> Value {
    let plural = plural(kind);
    let version = |(name, schema): &(String, Option<Value>)| {
        json!({"name": name, "served": true, "storage": *name == kind.version, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": marked(schema.as_ref(), mark)}})
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{}", kind.group)},
        "spec": {
            "group": kind.group, "scope": if *is_namespaced { "Namespaced" } else { "Cluster" },
            "names": {"kind": kind.name, "plural": plural, "singular": kind.name.to_lowercase()},
            "versions": versions.iter().map(version).collect::<Vec<_>>(),
        },
    })
}

/// Waits until a server has taken a definition over: then it accepts the mark of this one.
fn wait_until_served(server: &Server, Definition { kind, is_namespaced, versions }: &Definition, mark: &str) {
    let mut probe = json!({"apiVersion": kind.api_version(), "kind": kind.name, "metadata": {"name": "probe"}});
    probe["mark"] = json!(mark);
    let (plural, namespace) = (plural(kind), if *is_namespaced { "namespaces/default/" } else { "" });
    for (version, _) in versions {
        probe["apiVersion"] = json!(format!("{}/{version}", kind.group));
        let path = format!("/apis/{}/{version}/{namespace}{plural}?dryRun=All", kind.group);
        let holds = || {
            let answer = server.request("POST", &path, Some(&probe));
            let is_known = answer.status == 201 || answer.status == 422 && !answer.text.contains("\"field\":\"mark\"");
            is_known.then_some(())
        };
        eventually_blocking("the definition holds", holds);
    }
}

/// Returns a schema with a field that has one value only.
fn marked(schema: Option<&Value>, mark: &str) -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut schema = schema.cloned().unwrap_or(open);
    schema["properties"]["mark"] = json!({"type": "string", "enum": [mark]});
    schema
}
