//! The OpenAPI schemas of the host's own kinds, for `kubectl explain` and editors.
//!
//! They document fields but validate nothing: [`Spec::check`](super::Spec::check) does that for controllers.

mod builders;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use super::LIMIT_BOUNDS;
use builders::{flag, list, map, number, object, open, span, text, texts};

/// Returns the schema of a `Controller`, in OpenAPI v3.
pub(crate) fn schema() -> Value {
    object(
        "A controller: its code, its permissions and its settings",
        [("spec", spec()), ("status", open("The state as the host observes it"))],
    )
}

/// Returns the schema of a `ControllerRevision`, in OpenAPI v3.
pub(crate) fn revision_schema() -> Value {
    object(
        "A revision: a definition of a controller that was installed",
        [(
            "spec",
            object(
                "The recorded definition",
                [
                    ("controller", text("The controller's name")),
                    ("number", number("The revision number, from 1")),
                    ("digest", text("The digest of the code")),
                    ("spec", spec()),
                    ("chosen", text("Hashes of the keys that labels pinned to it at its last rollout")),
                    ("component", open("The component's description: describe, imports and exports")),
                ],
            ),
        )],
    )
}

/// Returns the schema of a `WebhookDelivery`, in OpenAPI v3.
pub(crate) fn delivery_schema() -> Value {
    let key = object(
        "A key of the managed kind",
        [("namespace", text("The namespace; empty for a cluster-scoped kind")), ("name", text("The name"))],
    );
    let spec = object(
        "The keys of the request",
        [
            ("controller", text("The controller's name")),
            ("feeder", text("The name of the webhook in the manifest")),
            ("keys", list("The keys, at most 1000", key)),
        ],
    );
    object("A request that the inbox of a webhook keeps until its keys are reconciled", [("spec", spec)])
}

/// Returns the schema of a `Host`, in OpenAPI v3.
pub(crate) fn host_schema() -> Value {
    let lease = object(
        "A lease",
        [
            ("name", text("The controller, and the number of the shard if it has several")),
            ("epoch", number("The number of the term of the holder")),
            ("since", text("When the host that shows this saw the term first")),
        ],
    );
    let condition = object(
        "A condition",
        [
            ("type", text("Ready: whether the host renews a lease")),
            ("status", text("True or False")),
            ("reason", text("Active, Draining, LeaseReleased or LeaseExpired")),
            ("message", text("The reason in words")),
            ("lastTransitionTime", text("When the status changed last")),
        ],
    );
    let status = object(
        "What the host that shows this knows of it",
        [
            ("identity", text("The name of its present run, or of the last one")),
            ("isThis", flag("Whether it is the host that shows this")),
            ("state", text("Active, Draining or Gone")),
            ("version", text("The version of the program")),
            ("address", text("Where it serves the API")),
            ("processors", number("The processors that it may use")),
            ("load", text("The processor time of the keys of its leases over about the last minute, in cores")),
            ("leases", list("The leases that it holds, at most 256 of them", lease)),
            ("leaseCount", number("The number of leases that it holds")),
            ("heartbeat", text("When its last renewal was seen; written once a minute at most")),
            ("conditions", list("Ready", condition)),
        ],
    );
    object("A host, as its leases tell the host that shows this", [("status", status)])
}

fn spec() -> Value {
    let words = "Keep the keys but run none: true, false, or exceptDeletes, which still runs keys of resources that are being deleted or gone";
    object(
        "The desired definition",
        [
            (
                "component",
                object(
                    "The source of the code: a file, an artifact or a digest, or one of the first two with the digest that it must have",
                    [
                        ("file", text("A .wasm file, relative to the manifest, else to the served directory")),
                        ("digest", text("sha256: and 64 hexadecimal digits: code that this host has stored")),
                        (
                            "oci",
                            text(
                                "An artifact in a registry, as ghcr.io/acme/greeter:1.2; a tag is resolved once for each revision",
                            ),
                        ),
                    ],
                ),
            ),
            ("manages", kind("The managed kind, in place of that of the component")),
            ("watches", list("The watches of further kinds, in place of those of the component; at most 32", watch())),
            (
                "config",
                map("The configuration that the guest reads through wasi:config, also when it describes itself"),
            ),
            ("grants", grants()),
            ("limits", limits()),
            ("concurrency", number("Maximum number of concurrent reconciles, 1 to 1024")),
            (
                "backoff",
                object(
                    "The wait after failures",
                    [
                        ("base", span("The wait after the first failure")),
                        ("max", span("The maximum wait")),
                        ("maxRetries", number("Consecutive retries before the key is parked; absent: without end")),
                    ],
                ),
            ),
            ("resync", span("The period in which every key is requeued, at least 1s")),
            ("poll", span("The period of the guest's poller, at least 100ms")),
            ("duringDelay", text("The effect of an event on a waiting key: runNow or hold")),
            (
                "reuseInstances",
                flag(
                    "Keep the instance of a reconcile that succeeded for further ones, so that the guest's memory lasts",
                ),
            ),
            ("suspend", json!({ "description": words, "x-kubernetes-preserve-unknown-fields": true })),
            ("paused", flag("Ignore changes of this definition until this is false again")),
            ("revisionHistoryLimit", number("Old revisions to keep, 0 to 100; absent: 10")),
            ("rollout", rollout()),
            (
                "placement",
                json!({
                    "description": "On which of several hosts that share the store of the managed kind it runs: singleton, every-host, or sharded with a number of shards; absent: singleton",
                    "x-kubernetes-preserve-unknown-fields": true,
                }),
            ),
            ("feeders", feeders()),
        ],
    )
}

fn feeders() -> Value {
    let keys = "The keys to add: all, which is every stored resource of the managed kind, a list of 1 to 1000 keys, each with name and, for a namespaced kind, namespace, or templates for the keys of a message: each, namespace, name";
    let feeder = object(
        "A source of keys: a name, exactly one source, and what it adds",
        [
            ("name", text("A DNS label, unique within the controller")),
            (
                "interval",
                object(
                    "Adds the keys once per period, at fixed moments",
                    [("every", span("The period, from 1s to 365d"))],
                ),
            ),
            (
                "cron",
                object(
                    "Adds the keys at the moments of a schedule",
                    [
                        ("schedule", text("Five fields as in crontab, or a name as @hourly")),
                        ("timeZone", text("A name of the IANA time zone database, as Europe/Berlin; absent: UTC")),
                        ("missed", text("What happens to missed runs: once, which is the default, or skip")),
                        (
                            "startingDeadline",
                            span(
                                "How long after its moment a missed run may start, from 1m to 365d; absent: at any time",
                            ),
                        ),
                    ],
                ),
            ),
            (
                "webhook",
                object(
                    "Adds the keys of requests to /webhooks/CONTROLLER/FEEDER",
                    [
                        ("auth", webhook_auth()),
                        (
                            "bodyMax",
                            json!({ "description": "Maximum length of a body, from 1 to 2Mi; absent: 1Mi", "x-kubernetes-int-or-string": true }),
                        ),
                        ("dedupeHeader", text("The header with the id of a delivery, as X-GitHub-Delivery")),
                        ("inbox", flag("Whether the keys are stored before the answer; absent: false")),
                    ],
                ),
            ),
            (
                "files",
                object(
                    "Adds the keys of files that change",
                    [("path", text("Relative to the folder of --feeder-files, as orders/*.json"))],
                ),
            ),
            (
                "nats",
                object(
                    "Adds the keys of messages of a NATS server",
                    [
                        ("store", text("The name of a store in NATS")),
                        ("subject", text("A subject; with a stream, what a new consumer filters by")),
                        ("stream", text("The name of a stream")),
                        ("consumer", text("The name of a durable consumer of the stream")),
                        (
                            "ack",
                            text(
                                "When a message of a stream is acknowledged: settled, which is the default, or queued",
                            ),
                        ),
                    ],
                ),
            ),
            ("keys", json!({ "description": keys, "x-kubernetes-preserve-unknown-fields": true })),
            (
                "delay",
                object(
                    "When an added key becomes due; absent: at once",
                    [
                        ("after", span("How long after the add, from 1ms to 365d")),
                        ("hold", flag("Whether no event makes the key due earlier; absent: false")),
                    ],
                ),
            ),
            ("priority", text("The band of an added key: lowest, low, normal, high or highest; absent: normal")),
        ],
    );
    list("Sources of keys beside the watches, at most 32", feeder)
}

fn webhook_auth() -> Value {
    let secret = "The name of a secret of the host";
    object(
        "How a request proves that its sender may add keys: exactly one of both",
        [
            (
                "hmac",
                object(
                    "By the HMAC-SHA256 of the body; the defaults are those of GitHub",
                    [
                        ("secret", text(secret)),
                        ("header", text("The header; absent: X-Hub-Signature-256")),
                        ("prefix", text("The text before the HMAC; absent: sha256=")),
                        ("encoding", text("hex, which is the default, or base64")),
                    ],
                ),
            ),
            (
                "token",
                object(
                    "By the secret itself",
                    [
                        ("secret", text(secret)),
                        ("header", text("The header; absent: Authorization, with the prefix Bearer")),
                        ("prefix", text("The text before the token; absent: none, except for the default header")),
                    ],
                ),
            ),
        ],
    )
}

fn kind(words: &str) -> Value {
    object(
        words,
        [
            ("apiVersion", text("GROUP/VERSION, or VERSION of the core group")),
            ("kind", text("The name of the kind")),
            ("plural", text("The plural in lower case; with namespaced it declares the kind")),
            ("namespaced", flag("Whether its resources live in namespaces")),
        ],
    )
}

fn watch() -> Value {
    object(
        "A watch of a further kind",
        [
            ("name", text("The name of the watch, 1 to 63 bytes")),
            ("of", kind("The watched kind")),
            (
                "mapping",
                json!({
                    "description": "How a change becomes keys: owner, sameName, guest, {label: NAME}, {annotation: NAME} or {field: POINTER}",
                    "x-kubernetes-preserve-unknown-fields": true,
                }),
            ),
            ("changes", text("Which changes count: all, which is the default, or butStatus")),
            ("role", text("tertiary, which the controller only reads and which is the default, or secondary")),
        ],
    )
}

fn rollout() -> Value {
    let gate = object(
        "The limits of the canary in each step, relative to the stable version in the same time; beyond them it is rolled back",
        [
            ("errors", text("The canary's additional share of failed reconciles, as 1%, which is the default")),
            ("traps", number("Reconciles that may trap in a step, 0 to 1000000; absent: 0")),
            ("limits", number("Reconciles that may hit a limit in a step, 0 to 1000000; absent: 0")),
            (
                "duration",
                text("Duration of reconciles relative to the stable version, from 1x to 1000x; absent: 1.25x"),
            ),
            (
                "writes",
                text(
                    "Writes per reconcile of a key that ran before, relative to the stable version, from 1x to 1000x; absent: 2x",
                ),
            ),
            (
                "hotLoops",
                text(
                    "Consecutive reconciles of a key that cause the next one, relative to the stable version, from 1x to 1000x; absent: 10x",
                ),
            ),
            ("for", span("Minimum duration of a step, from 100ms to 7d; absent: 1m")),
            (
                "reconciles",
                number(
                    "Minimum number of reconciles in a step, unless four times its duration has passed, 1 to 1000000; absent: 20",
                ),
            ),
        ],
    );
    let differences = "Maximum number of reconciles that differ: a number, a share as 1%, or any; absent: 0";
    let shadow = object(
        "The shadow phase before the canary gets keys: none of its effects is applied",
        [
            ("for", span("Minimum duration, from 100ms to 7d; absent: 1m")),
            (
                "reconciles",
                number(
                    "Minimum number of compared reconciles, unless four times the duration has passed, 1 to 1000000; absent: 100",
                ),
            ),
            ("differences", json!({ "description": differences, "x-kubernetes-int-or-string": true })),
        ],
    );
    object(
        "How a new definition is rolled out",
        [
            (
                "strategy",
                text(
                    "immediate: all keys at once, which is the default; canary: a share of the keys first; shadow: no keys, replaying the answers of the stable version, and then all keys or shares",
                ),
            ),
            ("share", text("The canary's share of the keys, as 10%: a single step; excludes steps")),
            ("steps", texts("The canary's shares of the keys, step by step; absent: 10% and 50%")),
            (
                "selector",
                object(
                    "The keys that the canary gets in a step before every share",
                    [("matchLabels", map("Labels of their resources when the step begins"))],
                ),
            ),
            ("gate", gate),
            ("shadow", shadow),
        ],
    )
}

fn grants() -> Value {
    let resource = object(
        "Permission for some verbs on resources of some kinds",
        [
            ("kinds", texts("GROUP/KIND, or KIND of the core group, each part a pattern; * means every kind")),
            (
                "verbs",
                texts("get, list, watch, create, update, update-status, patch, apply, delete, enqueue, or * for all"),
            ),
            ("namespaces", texts("Patterns of namespaces; absent: all")),
            ("names", texts("Patterns of names; absent: all")),
        ],
    );
    let http = object(
        "Permission to send some HTTP requests",
        [
            ("urls", texts("Patterns of whole addresses, as https://api.example.com/v1/*")),
            ("methods", texts("absent: GET and HEAD; * means all")),
            ("addresses", texts("Ranges beside the public ones: loopback, private, link-local, metadata")),
            ("headers", open("Headers that the host adds, each with a value, and that the guest never sees")),
        ],
    );
    let component = object(
        "The source of the code: exactly one of these",
        [
            ("file", text("A .wasm file")),
            ("digest", text("The digest of the code")),
            ("oci", text("A pattern of artifacts, as ghcr.io/acme/*")),
        ],
    );
    let controller = object(
        "Permission to create controllers, each with no more grants than this one",
        [
            ("names", texts("Patterns of names, as composed-*")),
            ("components", list("The code that they may run; one that matches is enough", component)),
            ("max", number("How many of them may exist at once, 1 to 1000")),
        ],
    );
    object(
        "The permissions of the guest; everything else is denied",
        [
            ("resources", list("One that covers a call is enough", resource)),
            ("http", list("One that covers a request is enough", http)),
            ("controllers", list("The controllers that it may create", controller)),
        ],
    )
}

fn limits() -> Value {
    let field = |bounds: &super::LimitBounds| {
        let name = bounds.field.rsplit('.').next().unwrap_or_default();
        let words = format!("From {} to {}", super::written(bounds.least), super::written(bounds.most));
        (name.to_owned(), json!({ "description": words, "x-kubernetes-int-or-string": true }))
    };
    let properties: Map<String, Value> = LIMIT_BOUNDS.iter().map(field).collect();
    json!({ "description": "The limits of one reconcile, and those of the controller's queue", "type": "object", "properties": properties })
}
