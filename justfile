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

# What the host does in a second. Beside other systems it will stand here, by name.
peers name="bench":
    cargo run --release -- {{name}} tests/guests/noop

# The documentation of every crate.
docs:
    cargo doc --workspace --no-deps --open
