# A convenience: every recipe is one plain command that works without just.

# What CI runs.
check:
    bash .ci/run

# Every test. Builds the guests and fetches what it needs by itself.
test:
    cargo test --workspace

# Builds, runs and swaps the guests of a folder, from its sources.
dev dir="examples/apps":
    cargo run --release -- dev {{dir}}

# This host beside others, on the same work, in turn: queue, loop, tax, store, density or swap. See docs/performance.md.
peers name *options:
    cargo run --release -p homeostat-peers -- {{name}} {{options}}

# What a crash, a power loss, a failing disk or a damaged file does to the store: kill, power-loss, disk or damage. See docs/reliability.md.
campaign name *options:
    cargo run --release -p homeostat-campaign -- {{name}} {{options}}

# What foreign bytes do to a reader of the host: document, write, selector, token, json-patch, merge, apply, jsonpath, schema, definition, pattern, name, file, fsck,
# component, compiled, manifest, request or artifact. See docs/reliability.md.
fuzz target *options:
    cargo run --release -p homeostat-fuzz -- {{target}} {{options}}

# The documentation of every crate.
docs:
    cargo doc --workspace --no-deps --open
