# The disposable Debian system that the product is tested in: a container with systemd as PID 1,
# polkitd, journald and its own dockerd. Sourced by the scripts in tests/machine and by tests/try.
# Must never touch a container, image or volume that is not named here.
# shellcheck shell=bash

IMAGE_NAME=sbxctl-test-machine
IMAGE_DIR=$ROOT/tests/machine/image
RELEASES=(trixie bookworm)

check_release() {
    [[ " ${RELEASES[*]} " == *" $1 "* ]] || usage_error "unknown release '$1'; known: ${RELEASES[*]}"
}

container_of() { echo "sbxctl-machine-$1$MACHINE_SUFFIX"; }

# The release that was last brought up is the one people mean when they name none.
# In REPLY.
current_release() { REPLY=trixie; [ ! -r "$STATE/release" ] || REPLY=$(<"$STATE/release"); }

is_running() {
    [ "$(docker container inspect -f '{{.State.Running}}' "$(container_of "$1")" 2>/dev/null)" = true ]
}

in_machine() {
    local release=$1
    shift
    docker exec -i "$(container_of "$release")" "$@"
}

# ---- a process in it

# start_of PID: when it started, in REPLY; so an id that was used again is noticed.
start_of() {
    local fields
    read -r -a fields 2>/dev/null <"/proc/$1/stat" && REPLY=${fields[21]}
}

note_init() {
    local container pid
    container=$(docker container inspect -f '{{.Id}} {{.State.Pid}}' "$(container_of "$1")") || return
    read -r container pid <<<"$container"
    start_of "$pid" && printf '%s\n' "$container $pid $REPLY" >"$STATE/$1.init"
}

# init_of RELEASE: the machine's container in CONTAINER, its first process in INIT; fails if it is not up.
init_of() {
    local started
    { read -r CONTAINER INIT started <"$STATE/$1.init"; } 2>/dev/null || return
    start_of "$INIT" && [ "$REPLY" = "$started" ]
}

# As a process of the machine is counted as the machine's. With cgroup v2 only Docker knows where it may be.
join_cgroups() {
    local procs joined=
    for procs in /sys/fs/cgroup/*/docker/"$CONTAINER"/cgroup.procs; do
        [ -w "$procs" ] && echo 0 >"$procs" && joined=1
    done
    [ -n "$joined" ]
}

# enter USER COMMAND...: runs it in the machine as `docker exec` does: no more descriptors, namespaces,
# capabilities or groups than its own, a session of its own; pipes belong to the user, who may open them anew.
enter() {
    local user=$1 fd pipes=()
    shift
    for fd in /proc/self/fd/*; do
        fd=${fd##*/}
        [ "$fd" -le 2 ] || [ "$fd" -eq 255 ] || eval "exec $fd>&-"
    done
    for fd in 0 1 2; do
        [ "$user" = root ] || [ ! -p /proc/self/fd/$fd ] || pipes+=("/proc/self/fd/$fd")
    done
    set -- setsid --wait setpriv --reuid="$user" --regid="$user" --init-groups --bounding-set="$CAPABILITIES" \
        --inh-caps=-all "$@"
    [ "${#pipes[@]}" -eq 0 ] || set -- sh -c 'chown "$0" $1 && shift && exec "$@"' "$user" "${pipes[*]}" "$@"
    # A shell waits for the command: nsenter's own child, once stopped, would leave nsenter stopped for good.
    # What the shell says of one that a signal ended goes nowhere.
    exec 3>&2 2>/dev/null
    exec nsenter --target "$INIT" --mount --uts --ipc --net --pid --no-fork --root --wdns=/ -- \
        sh -c '("$@") 2>&3 3>&-; exit $?' sh "$@"
}

# ---- image

packages_of() { listed "$IMAGE_DIR/packages" "$IMAGE_DIR/packages.$1"; }

# The tag carries a hash of everything that went in, so it cannot lie about its content.
image_of() {
    echo "$IMAGE_NAME:$1-$({ packages_of "$1"; cat "$IMAGE_DIR/setup"; } | hash_of)"
}

# Whatever mirror the host's own apt uses.
apt_mirror() {
    local codename
    codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
    apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
        awk -v release="$codename" '$2 == release { print $1; exit }'
}

build_image() {
    local release=$1 mirror packages partial
    # Named after its content, too: another checkout may be building at the same time.
    partial=$(image_of "$release")-incomplete
    mirror=$(apt_mirror)
    [ -n "$mirror" ] || fail "apt names no mirror of Debian"
    packages=$(packages_of "$release" | paste -sd,)
    mmdebstrap --variant=minbase --include="$packages" \
        --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        --customize-hook="$IMAGE_DIR/setup" \
        "$release" - "$mirror" |
        docker import --change 'CMD ["/sbin/init"]' --change 'ENV container=docker' - "$partial"
    docker tag "$partial" "$(image_of "$release")"
    docker rmi "$partial"
}

ensure_image() {
    docker image inspect "$(image_of "$1")" >/dev/null 2>&1 ||
        step "building the image $(image_of "$1") (some minutes)" build_image "$1"
}

# ---- boot

# With cgroup v1 (or hybrid) the machine gets a tmpfs of its own below the controllers: systemd
# remounts it read-only and adds directories, which the host's must not feel.
cgroup_mounts() {
    local dir
    if [ "$(stat -f -c %T /sys/fs/cgroup)" != tmpfs ]; then
        printf '%s\n' -v /sys/fs/cgroup:/sys/fs/cgroup:rw
        return
    fi
    printf '%s\n' --tmpfs /sys/fs/cgroup
    for dir in /sys/fs/cgroup/*/; do
        ! mountpoint -q "$dir" || printf '%s\n' -v "${dir%/}:${dir%/}:rw"
    done
}

# Those that hosts may have beyond the ones that Docker gives.
CAPABILITIES=-sys_resource,-perfmon,-bpf,-checkpoint_restore

# CAP_SYS_RESOURCE is left out because hosts like ours lack it themselves, which fails --privileged.
# systemd 256 and later boot on cgroup v1 only when told to; older ones ignore the variable.
boot() {
    local release=$1 cgroups
    mapfile -t cgroups < <(cgroup_mounts)
    docker run -d --name "$(container_of "$release")" --hostname machine \
        --cap-add ALL --cap-drop SYS_RESOURCE \
        --security-opt seccomp=unconfined --security-opt systempaths=unconfined \
        --device-cgroup-rule 'a *:* rwm' --cgroupns=host \
        --tmpfs /run:exec --tmpfs /tmp:exec --shm-size 1g \
        "${cgroups[@]}" -v /var/lib/docker \
        -e 'SYSTEMD_PROC_CMDLINE=systemd.unified_cgroup_hierarchy=0 SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1' \
        "$(image_of "$release")"
    wait_until 30 in_machine "$release" test -S /run/systemd/private
    wait_until_booted "$release"
}

wait_until_booted() {
    local state
    state=$(in_machine "$1" timeout 120 systemctl is-system-running --wait) || true
    [ "$state" = running ] && return
    echo "the machine is '$state', failed units:"
    in_machine "$1" systemctl list-units --failed --plain --no-legend
    return 1
}

# The container may be stopped, or run an image that is out of date: then it is replaced.
is_current() {
    is_running "$1" &&
        [ "$(docker container inspect -f '{{.Config.Image}}' "$(container_of "$1")")" = "$(image_of "$1")" ]
}

remove_machine() {
    docker rm --force --volumes "$(container_of "$1")" 2>/dev/null || true
}

replace_machine() {
    remove_machine "$1"
    boot "$1"
}

ensure_booted() {
    is_current "$1" || step "booting the $1 machine" replace_machine "$1"
    note_init "$1"
}
