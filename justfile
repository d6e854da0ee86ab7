# Shortcuts: every recipe is one plain command that works without just.

# Runs all checks of CI.
check:
    bash .ci/run

# Lints the programs that are not in the workspace. Needs Go.
outside:
    bash .ci/outside

# Runs every test. Builds the guests and fetches all tools by itself.
test:
    cargo test --workspace

# Builds, runs and swaps the guests of a folder, from its sources.
dev dir="examples/apps":
    cargo run --profile quick -- dev {{dir}}

# Runs examples/apps on a real server, which it builds: nats or kubernetes. Needs Go.
apps-on store="nats":
    cargo test --workspace --lib --bins --test it -- stores::hosts::apps_run_unchanged_on_{{store}}

# Runs examples/mixed on a real NATS server, a real Kubernetes API server and an HTTP service, which it brings up. Needs Go.
mixed:
    cargo test --workspace --lib --bins --test it -- stores::mixed::

# Compares this host with other systems, on the same work, in turn: queue, loop, tax, store, stores, density, swap, fleet, languages or api. See docs/performance.md.
peers name *options:
    cargo run --release -p homeostat-peers -- {{name}} {{options}}

# Counts the effects of crashes, power losses, failing disks and damaged files on the store: kill, power-loss, disk or damage. See docs/reliability.md.
campaign name *options:
    cargo run --release -p homeostat-campaign -- {{name}} {{options}}

# Kills, freezes, cuts off and drains hosts of real fleets, and their servers, and counts. See docs/fleet.md. Needs Go.
hand-over rounds="200":
    HAND_OVER_ROUNDS={{rounds}} cargo test --workspace --lib --bins --test it -- --nocapture fleet::hand_over::

# Gives randomly changed inputs to a parser of the host: document, write, selector, token, json-patch, merge, apply, jsonpath, schema, definition, pattern, name, file, fsck,
# component, compiled, manifest, request or artifact. See docs/reliability.md.
fuzz target *options:
    cargo run --release -p homeostat-fuzz -- {{target}} {{options}}

# The same, guided by coverage: inputs that reach new code become the sources of others. The crates of the host are built for it, the others are not.
fuzz-guided target *options:
    RUSTC_WORKSPACE_WRAPPER=tests/fuzz/rustc-coverage.sh cargo run --release -p homeostat-fuzz -- {{target}} {{options}}

# Records which functions hosts run, for their order in a release. Needs qemu-user, openssl and curl, and kubectl, nats-server, etcd and kube-apiserver in the folder `tools`. See docs/decisions/build.md.
orderfile tools="target/tools":
    TOOLS={{tools}} host/orderfile/record.sh

# Builds and opens the documentation of every crate.
docs:
    cargo doc --workspace --no-deps --open
