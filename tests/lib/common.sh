# What the test scripts share: messages, the log, steps that tell what takes long, bounded waiting.
# Sourced by every script in tests/, never run. Must never write to standard output, which belongs
# to the commands that the scripts run.
# shellcheck shell=bash

# shellcheck disable=SC2034  # for those who source this
ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
# SBXCTL_TEST_MACHINE=NAME in the environment: machines of one's own, for a second checkout beside the first.
MACHINE_SUFFIX=${SBXCTL_TEST_MACHINE:+-$SBXCTL_TEST_MACHINE}
STATE=/run/sbxctl-test$MACHINE_SUFFIX
LOGS=/var/log/sbxctl-test$MACHINE_SUFFIX
QUIET=${QUIET:-}

step_name=
step_log=
step_timer=

say() { printf '%s\n' "$*" >&2; }

fail() {
    say "$(basename -- "$0"): $*"
    exit 1
}

# The file's header comment is its help.
show_help() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"; }

usage_error() {
    say "$(basename -- "$0"): $*"
    say "Try: $0 --help"
    exit 64
}

require_root() { [ "$(id -u)" -eq 0 ] || fail "run this as root"; }

# One script at a time may change the host or a machine; the others wait here. File descriptor 9
# holds the lock: a background process that outlives the script must close it.
take_lock() {
    mkdir -p "$STATE" "$LOGS"
    exec 9>"$STATE/lock"
    flock --nonblock 9 || {
        say "waiting for another script of tests/ to end ..."
        flock 9
    }
}

drop_lock() { exec 9>&-; }

# step DESCRIPTION COMMAND...: run it with its output in the log. The description is shown at once,
# or with QUIET only after a second. When the command fails, so does the script, with the log's end.
step() {
    step_name=$1
    step_log=$LOGS/$(basename -- "$0").log
    shift
    printf '\n== %s\n' "$step_name" >>"$step_log"
    announce "$step_name ..."
    "$@" >>"$step_log" 2>&1 </dev/null
    hush
    step_name=
}

announce() {
    if [ -z "$QUIET" ]; then
        say "$1"
        return
    fi
    (sleep 1 >/dev/null 2>&1 9>&-; say "$1") 9>&- &
    step_timer=$!
}

hush() {
    [ -n "$step_timer" ] || return 0
    kill "$step_timer" 2>/dev/null || true
    wait "$step_timer" 2>/dev/null || true
    step_timer=
}

# Runs whenever a script ends; says which step broke, if one did.
report_broken_step() {
    hush
    [ -n "$step_name" ] || return 0
    say "$(basename -- "$0"): failed: $step_name. The end of $step_log:"
    tac "$step_log" | awk '/^== / { over = 1 } !over && NR <= 25 { print "    " $0 }' | tac >&2
}
trap report_broken_step EXIT

# wait_until SECONDS COMMAND...: poll until it succeeds; fails when the time is over.
wait_until() {
    local deadline=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$deadline" ] || return 1
        sleep 0.1
    done
}

# listed FILE...: the entries of package lists, without comments.
listed() { sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$@"; }

# hash_of: a short name for what comes on standard input.
hash_of() { sha256sum | cut -c 1-12; }
