#!/bin/sh
# Runs rustc, and makes it count the edges that the host's crates reach. For RUSTC_WORKSPACE_WRAPPER: dependencies stay as
# they are, and the crates of other builds as well. Works with the stable compiler.
case "$CARGO_PKG_NAME" in
homeostat-fuzz) exec "$@" ;;
homeostat-*)
	exec "$@" -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3 \
		-Cllvm-args=-sanitizer-coverage-inline-8bit-counters
	;;
*) exec "$@" ;;
esac
