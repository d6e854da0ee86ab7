//! Output patterns of other languages' toolchains, each in a minimal component.

use std::sync::{Arc, Mutex};

use homeostat_store::{Key, Kind};

use super::engine;
use crate::component::Component;
use crate::effect::{Call, Effects};
use crate::fixture::Guest;
use crate::grants::{Capability, Needs};
use crate::instances::CallSession;
use crate::layers::{DenialObserver, EmptyWorld, Granted, Observed};
use crate::limits::LimitName;
use crate::limits::Limits;
use crate::load_error::Reason;
use crate::outcome::{CallReport, Fault, Outcome};

/// Records denials.
#[derive(Default)]
struct Denials(Mutex<Vec<(Capability, String)>>);

impl DenialObserver for Denials {
    fn denied(&self, _: &Call, capability: Capability, missing: &str) {
        self.0.lock().unwrap().push((capability, missing.to_owned()));
    }
}

async fn call(component: &Component, effects: Arc<dyn Effects>) -> CallReport<Outcome> {
    let key = Key::new(Kind::new("", "v1", "Thing"), "default", "a");
    component.reconcile(&mut CallSession::new("test"), &key, &Limits::default(), effects).await
}

/// Loads a guest into an engine with a single instance.
async fn load(guest: Guest<'_>) -> Component {
    engine(1).load(guest.build()).await.unwrap()
}

/// Imports files as standard libraries do. `$open` opens `etc/hosts` below the first preopened folder, and
/// returns the case of the result and its payload.
const FILES: &str = r#"
    (import "wasi:filesystem/types@0.2.9" (instance $types
        (export "descriptor" (type $descriptor (sub resource)))
        (type $pf (flags "symlink-follow")) (export "path-flags" (type $path-flags (eq $pf)))
        (type $of (flags "create" "directory" "exclusive" "truncate")) (export "open-flags" (type $open-flags (eq $of)))
        (type $df (flags "read" "write" "file-integrity-sync" "data-integrity-sync" "requested-write-sync" "mutate-directory"))
        (export "descriptor-flags" (type $descriptor-flags (eq $df)))
        (type $ec (enum "access" "would-block" "already" "bad-descriptor" "busy" "deadlock" "quota" "exist" "file-too-large"
            "illegal-byte-sequence" "in-progress" "interrupted" "invalid" "io" "is-directory" "loop" "too-many-links" "message-size"
            "name-too-long" "no-device" "no-entry" "no-lock" "insufficient-memory" "insufficient-space" "not-directory" "not-empty"
            "not-recoverable" "unsupported" "no-tty" "no-such-device" "overflow" "not-permitted" "pipe" "read-only" "invalid-seek"
            "text-file-busy" "cross-device"))
        (export "error-code" (type $error-code (eq $ec)))
        (export "[method]descriptor.open-at" (func (param "self" (borrow $descriptor)) (param "path-flags" $path-flags)
            (param "path" string) (param "open-flags" $open-flags) (param "flags" $descriptor-flags)
            (result (result (own $descriptor) (error $error-code)))))))
    (alias export $types "descriptor" (type $descriptor))
    (import "wasi:filesystem/preopens@0.2.9" (instance $preopens
        (alias outer 1 $descriptor (type $outer)) (export "descriptor" (type $own (eq $outer)))
        (export "get-directories" (func (result (list (tuple (own $own) string)))))))
    (core module $memory (memory (export "memory") 1) (data (i32.const 16) "etc/hosts")
        (global $free (mut i32) (i32.const 1024))
        (func (export "realloc") (param i32 i32 i32 i32) (result i32) global.get $free
            (global.set $free (i32.and (i32.add (i32.add (global.get $free) (local.get 3)) (i32.const 7)) (i32.const -8)))))
    (core instance $lib (instantiate $memory))
    (core func $directories (canon lower (func $preopens "get-directories") (memory (core memory $lib "memory")) (realloc (core func $lib "realloc"))))
    (core func $open-at (canon lower (func $types "[method]descriptor.open-at") (memory (core memory $lib "memory"))))
    (core module $opens
        (import "m" "memory" (memory 1))
        (import "f" "directories" (func $directories (param i32)))
        (import "f" "open-at" (func $open-at (param i32 i32 i32 i32 i32 i32 i32)))
        (func (export "open") (param $create i32) (result i32)
            (call $directories (i32.const 256))
            (if (i32.ne (i32.load (i32.const 260)) (i32.const 1)) (then unreachable))
            (call $open-at (i32.load (i32.load (i32.const 256))) (i32.const 0) (i32.const 16) (i32.const 9) (local.get $create) (i32.const 1) (i32.const 272))
            (i32.add (i32.mul (i32.load8_u (i32.const 272)) (i32.const 256)) (i32.load8_u (i32.const 276)))))
    (core instance $files (instantiate $opens (with "m" (instance $lib))
        (with "f" (instance (export "directories" (func $directories)) (export "open-at" (func $open-at))))))"#;

fn opens(reconcile: &str) -> Guest<'_> {
    let imports = "(import \"files\" \"open\" (func $open (param i32) (result i32)))";
    Guest { parts: FILES, imports, linked: "(with \"files\" (instance $files))", reconcile, ..Guest::default() }
}

/// The error case, and the codes of `no-entry` and `read-only`.
const NO_ENTRY: u32 = 256 + 20;
const READ_ONLY: u32 = 256 + 33;

#[tokio::test]
async fn a_guest_that_opens_a_file_gets_an_error_and_its_path_is_reported() {
    let reconcile = format!(
        "(if (i32.ne (call $open (i32.const 0)) (i32.const {NO_ENTRY})) (then unreachable))
         (if (i32.ne (call $open (i32.const 1)) (i32.const {READ_ONLY})) (then unreachable)) global.get $settled"
    );
    let component = load(opens(&reconcile)).await;
    let (needs, denials) = (Arc::new(Needs::default()), Arc::new(Denials::default()));
    let granted = Granted::new(Arc::default(), EmptyWorld);
    let report = call(&component, Arc::new(Observed::new(needs.clone(), denials.clone(), granted))).await;
    assert_eq!(report.result, Ok(Outcome::Settled));
    let told = denials.0.lock().unwrap();
    assert_eq!((told.len(), told[0].0), (2, Capability::Files), "{told:?}");
    for part in ["no file \"/etc/hosts\"", "wasi:config/store", "--stub-wasi"] {
        assert!(told[0].1.contains(part), "{part} in {}", told[0].1);
    }
    assert_eq!(needs.snapshot().absent, ["file \"/etc/hosts\""]);
}

#[tokio::test]
async fn a_description_that_opens_a_file_goes_on_without_it() {
    let describe =
        format!("(if (i32.ne (call $open (i32.const 0)) (i32.const {NO_ENTRY})) (then unreachable)) global.get $spec");
    let component = load(Guest { describe: &describe, ..opens("global.get $settled") }).await;
    assert_eq!(component.describe().manages.plural, "things");
}

#[tokio::test]
async fn a_failed_describe_names_the_refused_file() {
    let guest = Guest { describe: "(drop (call $open (i32.const 0))) unreachable", ..opens("global.get $settled") };
    let refused = engine(1).load(guest.build()).await.unwrap_err();
    let text = refused.to_string();
    assert!(matches!(refused.reasons.as_slice(), [Reason::Describe { .. }]), "{text}");
    assert!(text.contains("before that it used wasi:filesystem"), "{text}");
}

/// Imports sockets as standard libraries do. `$connect` connects to 10.0.0.1:80 and returns the case of the
/// result and its payload.
const SOCKETS: &str = r#"
    (import "wasi:sockets/network@0.2.9" (instance $network
        (export "network" (type $n (sub resource)))
        (type $ec (enum "unknown" "access-denied" "not-supported" "invalid-argument" "out-of-memory" "timeout" "concurrency-conflict"
            "not-in-progress" "would-block" "invalid-state" "new-socket-limit" "address-not-bindable" "address-in-use" "remote-unreachable"
            "connection-refused" "connection-reset" "connection-aborted" "datagram-too-large" "name-unresolvable"
            "temporary-resolver-failure" "permanent-resolver-failure"))
        (export "error-code" (type $error-code (eq $ec)))
        (type $fa (enum "ipv4" "ipv6")) (export "ip-address-family" (type $family (eq $fa)))
        (type $four (tuple u8 u8 u8 u8)) (export "ipv4-address" (type $v4 (eq $four)))
        (type $eight (tuple u16 u16 u16 u16 u16 u16 u16 u16)) (export "ipv6-address" (type $v6 (eq $eight)))
        (type $s4 (record (field "port" u16) (field "address" $v4))) (export "ipv4-socket-address" (type $sock4 (eq $s4)))
        (type $s6 (record (field "port" u16) (field "flow-info" u32) (field "address" $v6) (field "scope-id" u32)))
        (export "ipv6-socket-address" (type $sock6 (eq $s6)))
        (type $sa (variant (case "ipv4" $sock4) (case "ipv6" $sock6))) (export "ip-socket-address" (type $address (eq $sa)))))
    (alias export $network "network" (type $n))
    (alias export $network "error-code" (type $ec))
    (alias export $network "ip-address-family" (type $fa))
    (alias export $network "ip-socket-address" (type $sa))
    (import "wasi:sockets/instance-network@0.2.9" (instance $instance-network
        (alias outer 1 $n (type $outer)) (export "network" (type $own (eq $outer)))
        (export "instance-network" (func (result (own $own))))))
    (import "wasi:sockets/tcp@0.2.9" (instance $tcp
        (alias outer 1 $n (type $on)) (alias outer 1 $ec (type $oe)) (alias outer 1 $sa (type $oa))
        (export "network" (type $net (eq $on))) (export "error-code" (type $code (eq $oe)))
        (export "ip-socket-address" (type $address (eq $oa)))
        (export "tcp-socket" (type $socket (sub resource)))
        (export "[method]tcp-socket.start-connect" (func (param "self" (borrow $socket)) (param "network" (borrow $net))
            (param "remote-address" $address) (result (result (error $code)))))))
    (alias export $tcp "tcp-socket" (type $socket))
    (import "wasi:sockets/tcp-create-socket@0.2.9" (instance $create
        (alias outer 1 $ec (type $oe)) (alias outer 1 $fa (type $of)) (alias outer 1 $socket (type $os))
        (export "error-code" (type $code (eq $oe))) (export "ip-address-family" (type $family (eq $of)))
        (export "tcp-socket" (type $tcp (eq $os)))
        (export "create-tcp-socket" (func (param "address-family" $family) (result (result (own $tcp) (error $code)))))))
    (core module $memory (memory (export "memory") 1))
    (core instance $lib (instantiate $memory))
    (core func $network (canon lower (func $instance-network "instance-network")))
    (core func $new (canon lower (func $create "create-tcp-socket") (memory (core memory $lib "memory"))))
    (core func $start (canon lower (func $tcp "[method]tcp-socket.start-connect") (memory (core memory $lib "memory"))))
    (core module $connects
        (import "m" "memory" (memory 1))
        (import "f" "network" (func $network (result i32)))
        (import "f" "new" (func $new (param i32 i32)))
        (import "f" "start" (func $start (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
        (func (export "connect") (result i32)
            (call $new (i32.const 0) (i32.const 256))
            (call $start (i32.load (i32.const 260)) (call $network)
                (i32.const 0) (i32.const 80) (i32.const 10) (i32.const 0) (i32.const 0) (i32.const 1)
                (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 272))
            (i32.add (i32.mul (i32.load8_u (i32.const 272)) (i32.const 256)) (i32.load8_u (i32.const 273)))))
    (core instance $sockets (instantiate $connects (with "m" (instance $lib))
        (with "f" (instance (export "network" (func $network)) (export "new" (func $new)) (export "start" (func $start))))))"#;

#[tokio::test]
async fn a_connection_is_denied_and_its_address_is_reported() {
    let reconcile = "(if (i32.ne (call $connect) (i32.const 257)) (then unreachable)) global.get $settled";
    let imports = "(import \"sockets\" \"connect\" (func $connect (result i32)))";
    let linked = "(with \"sockets\" (instance $sockets))";
    let component = load(Guest { parts: SOCKETS, imports, linked, reconcile, ..Guest::default() }).await;
    let (needs, denials) = (Arc::new(Needs::default()), Arc::new(Denials::default()));
    let granted = Granted::new(Arc::default(), EmptyWorld);
    let report = call(&component, Arc::new(Observed::new(needs.clone(), denials.clone(), granted))).await;
    assert_eq!(report.result, Ok(Outcome::Settled));
    let told = denials.0.lock().unwrap();
    assert_eq!((told.len(), told[0].0), (1, Capability::Sockets), "{told:?}");
    for part in ["no address \"tcp 10.0.0.1:80\"", "wasi:http/outgoing-handler"] {
        assert!(told[0].1.contains(part), "{part} in {}", told[0].1);
    }
    assert_eq!(needs.snapshot().absent, ["address \"tcp 10.0.0.1:80\""]);
}

/// The import of [`composed`]'s guest: the length of a text, which another component counts.
const COUNTED: &str = r#"
    (import "length" (func $length (param "text" string) (result u32)))
    (core module $memory (memory (export "memory") 1) (data (i32.const 8) "twelve bytes"))
    (core instance $lib (instantiate $memory))
    (core func $count (canon lower (func $length) (memory (core memory $lib "memory"))))
    (core instance $counts (export "count" (func $count)))"#;

/// Composes a guest with another component. The guest passes it a text, which is copied from memory to
/// memory.
fn composed(guest: Guest<'_>) -> Vec<u8> {
    // An instance exported by another component must have its functions beside their types.
    let functions = r#"(export "describe" (func $describe)) (export "reconcile" (func $reconcile)))"#;
    let guest = guest.text().replacen("(component", "(component $guest", 1);
    let guest = format!("{}{functions}", guest.split("(instance $reconciler").next().unwrap());
    let text = format!(
        r#"(component
            (import "wasi:clocks/monotonic-clock@0.2.0" (instance $clock (export "now" (func (result u64)))))
            (component $counter
                (core module $m (memory (export "memory") 1)
                    (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 64)
                    (func (export "length") (param i32 i32) (result i32) local.get 1))
                (core instance $i (instantiate $m))
                (func (export "length") (param "text" string) (result u32)
                    (canon lift (core func $i "length") (memory (core memory $i "memory")) (realloc (core func $i "realloc")))))
            {guest}
            (instance $counts (instantiate $counter))
            (instance $guests (instantiate $guest
                (with "wasi:clocks/monotonic-clock@0.2.0" (instance $clock)) (with "length" (func $counts "length"))))
            (export "homeostat:reconciler/reconciler@0.1.0" (instance $guests)))"#
    );
    wat::parse_str(text).unwrap()
}

#[tokio::test]
async fn a_component_of_components_with_several_memories_runs() {
    let guest = Guest {
        parts: COUNTED,
        imports: "(import \"counts\" \"count\" (func $count (param i32 i32) (result i32)))",
        linked: "(with \"counts\" (instance $counts))",
        items: "(memory $second 1)",
        reconcile: "(i32.store $second (i32.const 0) (call $count (i32.const 8) (i32.const 12)))
            (if (i32.ne (i32.load $second (i32.const 0)) (i32.const 12)) (then unreachable)) global.get $settled",
        ..Guest::default()
    };
    let component = engine(2).load(composed(guest)).await.unwrap();
    assert!(!component.info().pooled, "it has more memories than a slot of the pool");
    let report = call(&component, Arc::new(EmptyWorld)).await;
    assert_eq!(report.result, Ok(Outcome::Settled));
    assert_eq!(report.cost.memory_bytes_max, 4 << 16, "all memories count");
}

#[tokio::test]
async fn a_component_with_too_many_memories_is_stopped_under_the_name_of_the_limit() {
    let component = load(Guest { items: "(memory $second 1)", ..Guest::default() }).await;
    let key = Key::new(Kind::new("", "v1", "Thing"), "default", "a");
    let limits = Limits { memories_max: 1, ..Limits::default() };
    let report = component.reconcile(&mut CallSession::new("test"), &key, &limits, Arc::new(EmptyWorld)).await;
    let Err(Fault::Limit { limit, message }) = report.result else { panic!("{:?}", report.result) };
    assert_eq!(limit, LimitName::Memories);
    assert!(message.contains("more than 1 memories"), "{message}");
}
