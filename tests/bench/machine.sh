# The test machine, made ready for a benchmark. Sourced after tests/lib/common.sh by tests/bench/run and tests/bench/packages.
# shellcheck shell=bash

BENCH_CONFIG=/etc/sbxctl/sbxctl.conf.d/80-bench.conf
BENCH_PROGRAMS=/run/sbxctl-bench
# What else is removed from the machine afterwards.
BENCH_LEFT=()

machine() { "$ROOT/tests/machine/exec" --release trixie -- "$@"; }

# Brings it up, with an image that has the machine's own Python: Docker runs the same program.
bench_begin() {
    "$ROOT/tests/machine/up" --release trixie --quiet </dev/null
    machine bash -euo pipefail -c '
        docker image inspect sbxctl-bench >/dev/null 2>&1 ||
            tar -C / --one-file-system --exclude=usr/share/doc -c bin etc lib lib64 sbin usr |
            docker import - sbxctl-bench >/dev/null' </dev/null
    trap 'bench_end </dev/null; report_broken_step' EXIT
}

# bench_copy FILE...: programs of this directory, for the machine's Python.
bench_copy() {
    tar -C "$ROOT/tests/bench" -c "$@" |
        machine bash -euc 'mkdir -p "$1"; tar -C "$1" -x --no-same-owner' bash "$BENCH_PROGRAMS"
}

# bench_configure [LINE]...: on top of what the product comes with, and of results that nobody tidies up meanwhile. The helper reads it
# when it starts next.
bench_configure() {
    printf '%s\n' '[Language python]' Image=sbxctl-bench '[Results]' MaxRuns=100000 MaxBytes=1T MaxFiles=10000000 "$@" |
        machine bash -euc 'cat >"$1"; systemctl -q stop sbxctl-helper.service' bash "$BENCH_CONFIG" 2>/dev/null
}

bench_end() {
    machine bash -c 'runuser -u alice -- sbxctl rm --all >/dev/null; rm -rf "$@"; systemctl -q stop sbxctl-helper.service' bash "$BENCH_CONFIG" \
        "$BENCH_PROGRAMS" "${BENCH_LEFT[@]}" 2>/dev/null
}
