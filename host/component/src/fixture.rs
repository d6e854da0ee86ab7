//! Minimal guests, written by hand, for tests of behaviour that no ordinary guest shows, and engines for them.

use async_trait::async_trait;
use tokio::sync::Semaphore;

use crate::effect::{Answer, Call, Effect, Effects};
use crate::{Engine, EngineOptions};

/// A guest with optional defects. `$now` reads the monotonic clock; `$spec` and `$settled` are the addresses
/// of a valid answer of each export.
#[derive(Clone, Copy)]
pub(crate) struct Guest<'a> {
    /// Additional imports, modules and instances of the component.
    pub(crate) parts: &'a str,
    /// Additional imports of its module, and the instances that provide them.
    pub(crate) imports: &'a str,
    pub(crate) linked: &'a str,
    /// Additional functions, tables and globals of its one module.
    pub(crate) items: &'a str,
    /// The body of the function that allocates memory for the host's arguments.
    pub(crate) realloc: &'a str,
    /// The body of `describe`.
    pub(crate) describe: &'a str,
    /// The body of `reconcile`.
    pub(crate) reconcile: &'a str,
    /// The string encoding of `reconcile`.
    pub(crate) encoding: &'a str,
}

impl Default for Guest<'_> {
    fn default() -> Self {
        let realloc = "global.get $free
            (global.set $free (i32.and (i32.add (i32.add (global.get $free) (local.get 3)) (i32.const 7)) (i32.const -8)))";
        let (describe, reconcile) = ("global.get $spec", "global.get $settled");
        Self { parts: "", imports: "", linked: "", items: "", realloc, describe, reconcile, encoding: "utf8" }
    }
}

impl Guest<'_> {
    /// Returns the component.
    pub(crate) fn build(&self) -> Vec<u8> {
        component(&self.text())
    }

    /// Returns the component as text.
    pub(crate) fn text(&self) -> String {
        let Self { parts, imports, linked, items, realloc, describe, reconcile, encoding } = self;
        let text = TEMPLATE.replace("PARTS", parts).replace("IMPORTS", imports).replace("LINKED", linked);
        let text = text.replace("ITEMS", items).replace("REALLOC", realloc);
        text.replace("DESCRIBE", describe).replace("RECONCILE", reconcile).replace("ENCODING", encoding)
    }
}

/// Answers one effect for each semaphore permit.
pub(crate) struct Slow(pub(crate) Semaphore);

#[async_trait]
impl Effects for Slow {
    async fn perform(&self, _: &Call, _: Effect) -> Answer {
        self.0.acquire().await.expect("nobody closes it").forget();
        Answer::Nanoseconds(1)
    }
}

/// Returns an engine without a cache.
pub(crate) fn engine(instances_max: u32) -> Engine {
    Engine::new(EngineOptions { instances_max, ..EngineOptions::default() }).expect("the engine starts")
}

/// Builds a component from its text.
pub(crate) fn component(text: &str) -> Vec<u8> {
    wat::parse_str(text).expect("the text is well-formed")
}

/// Builds a guest whose `describe` and `reconcile` have these bodies.
pub(crate) fn guest(describe: &str, reconcile: &str) -> Vec<u8> {
    Guest { describe, reconcile, ..Guest::default() }.build()
}

/// Builds a guest with a valid description that settles.
pub(crate) fn good() -> Vec<u8> {
    guest("global.get $spec", "global.get $settled")
}

const TEMPLATE: &str = r#"(component
    PARTS
    (import "wasi:clocks/monotonic-clock@0.2.0" (instance $clock (export "now" (func (result u64)))))
    (core func $now (canon lower (func $clock "now")))

    (core module $code
        (import "clock" "now" (func $now (result i64)))
        IMPORTS
        (memory (export "memory") 1 1024)
        (global $spec i32 (i32.const 1024))
        (global $settled i32 (i32.const 2048))
        (global $free (mut i32) (i32.const 4096))
        (data (i32.const 512) "v1Thingthings")
        ;; group, version, name, plural; namespaced; everything else is absent.
        (data (i32.const 1024) "\00\00\00\00\00\00\00\00" "\00\02\00\00\02\00\00\00" "\02\02\00\00\05\00\00\00")
        (data (i32.const 1048) "\07\02\00\00\06\00\00\00" "\01")
        (func (export "realloc") (param i32 i32 i32 i32) (result i32) REALLOC)
        ITEMS
        (func (export "describe") (result i32) DESCRIBE)
        (func (export "reconcile") (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32) RECONCILE))
    (core instance $guest (instantiate $code (with "clock" (instance (export "now" (func $now)))) LINKED))

    (type $a (record (field "group" string) (field "version" string) (field "name" string)))
    (export $kind "kind" (type $a))
    (type $b (record (field "kind" $kind) (field "namespace" string) (field "name" string)))
    (export $key "key" (type $b))
    (type $c (record (field "kind" $kind) (field "plural" string) (field "namespaced" bool) (field "keys-only" bool)
        (field "schema" (option string))))
    (export $kind-declaration "kind-declaration" (type $c))
    (type $d (variant (case "owner") (case "same-name") (case "label" string) (case "annotation" string)
        (case "field" string) (case "guest")))
    (export $mapping "mapping" (type $d))
    (type $e (enum "secondary" "tertiary"))
    (export $role "role" (type $e))
    (type $m (enum "all" "but-status"))
    (export $changes "changes" (type $m))
    (type $f (record (field "name" string) (field "of" $kind-declaration) (field "mapping" $mapping)
        (field "changes" $changes) (field "role" $role)))
    (export $watch "watch" (type $f))
    (type $g (record (field "base" u64) (field "max" u64) (field "retries-max" (option u32))))
    (export $backoff "backoff" (type $g))
    (type $h (enum "run-now" "hold"))
    (export $during-delay "during-delay" (type $h))
    (type $i (record (field "manages" $kind-declaration) (field "changes" $changes) (field "watches" (list $watch))
        (field "poll-every" (option u64)) (field "resync-every" (option u64)) (field "backoff" (option $backoff))
        (field "concurrency" (option u32)) (field "during-delay" $during-delay)))
    (export $controller-spec "controller-spec" (type $i))
    (type $j (variant (case "settled") (case "again-after" u64)))
    (export $outcome "outcome" (type $j))
    (type $k (variant (case "backoff") (case "after" u64) (case "never")))
    (export $retry "retry" (type $k))
    (type $l (record (field "message" string) (field "retry" $retry)))
    (export $failure "failure" (type $l))

    (func $describe (result $controller-spec)
        (canon lift (core func $guest "describe") (memory (core memory $guest "memory"))))
    (func $reconcile (param "key" $key) (result (result $outcome (error $failure)))
        (canon lift (core func $guest "reconcile") (memory (core memory $guest "memory")) (realloc (core func $guest "realloc"))
            string-encoding=ENCODING))
    (instance $reconciler (export "describe" (func $describe)) (export "reconcile" (func $reconcile)))
    (export "homeostat:reconciler/reconciler@0.1.0" (instance $reconciler)))"#;
