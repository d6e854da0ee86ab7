//! Stored kinds and resources outlive the code that declared them.

use std::path::Path;

use homeostat_testing::eventually_blocking;
use homeostat_tests::{HostProcess, guest, repository};

use crate::metrics::scrape::{Answer, get};

const GREETING: &str = "/apis/demo.homeostat.dev/v1/namespaces/default/greetings/world";
const GREETINGS: &str = "/apis/demo.homeostat.dev/v1/namespaces/default/greetings";

fn asked(scratch: &Path, path: &str) -> Answer {
    get(scratch, path, "application/json")
}

#[test]
fn a_stored_resource_is_readable_after_a_restart_even_without_its_code() {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let component = folder.path().join("greeter.wasm");
    std::fs::copy(guest("greeter"), &component).unwrap();
    std::fs::copy(repository().join("examples/greeter/greeter.yaml"), folder.path().join("greeter.yaml")).unwrap();
    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    eventually_blocking("the greeting to be stored", || (asked(scratch.path(), GREETING).code == 200).then_some(()));
    eventually_blocking("the host to be ready", || (asked(scratch.path(), "/readyz").code == 200).then_some(()));
    host.kill();

    // With its code, and before the compilation ends: from the first response on.
    let data = scratch.path().join("data");
    std::fs::remove_dir_all(data.join("compiled")).unwrap();
    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    assert_eq!(asked(scratch.path(), GREETING).code, 200);
    let list = asked(scratch.path(), GREETINGS);
    assert!(list.code == 200 && list.body.contains("\"world\""), "{}", list.body);
    host.kill();

    // Without its code.
    std::fs::remove_file(&component).unwrap();
    std::fs::remove_dir_all(data.join("components")).unwrap();
    let host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    assert_eq!(asked(scratch.path(), GREETING).code, 200);
    let unready = eventually_blocking("readyz to name the controller", || {
        Some(asked(scratch.path(), "/readyz")).filter(|ready| ready.body.contains("[-]controller/greeter failed"))
    });
    assert_eq!(unready.code, 503);
    assert!(unready.body.contains("it ran before and cannot be loaded"), "{}", unready.body);
    // The controller that cannot be loaded may have declared the unknown kind.
    let unknown = asked(scratch.path(), "/apis/demo.homeostat.dev/v1/namespaces/default/farewells");
    assert_eq!(unknown.code, 503, "{}", unknown.body);
    assert!(unknown.body.contains("retryAfterSeconds"), "{}", unknown.body);
    host.kill();

    std::fs::copy(guest("greeter"), &component).unwrap();
    let _host = HostProcess::start("run", folder.path(), scratch.path(), &[]);
    eventually_blocking("the host to be ready again", || (asked(scratch.path(), "/readyz").code == 200).then_some(()));
    let unknown = asked(scratch.path(), "/apis/demo.homeostat.dev/v1/namespaces/default/farewells");
    assert_eq!(unknown.code, 404, "a ready host knows all kinds");
}
