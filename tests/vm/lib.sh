# The virtual machine: Debian 13 with its own kernel and cgroup v2, in qemu without hardware help, so
# everything in it takes 5 to 10 times longer. Sourced by the scripts in tests/vm, after common.sh.
# Must never touch a process that it did not start, nor listen anywhere but on loopback.
# shellcheck shell=bash

. "$ROOT/tests/lib/host.sh"
. "$ROOT/tests/lib/machine.sh"
. "$ROOT/tests/lib/product.sh"

RELEASE=trixie
VM_DIR=$ROOT/tests/vm
CACHE=/var/cache/sbxctl-test
USERS=(root alice bob)
BOOT_SECONDS=600

# A state, a log and a lock of its own: its image takes minutes to build, in which nobody else need wait. What
# all machines share (packages of the host, build/) is changed under the common lock.
COMMON_LOCK=$STATE/lock
STATE=$STATE/vm
LOGS=$LOGS/vm
CONSOLE=$LOGS/console.log

with_common_lock() {
    exec 8>"$COMMON_LOCK"
    flock 8
    "$@"
    exec 8>&-
}

# ---- the host

# shellcheck disable=SC2046  # one word a package
install_vm_packages() {
    local package missing=()
    install_host_packages
    for package in $(listed "$VM_DIR/host-packages"); do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
            missing+=("$package")
    done
    [ "${#missing[@]}" -eq 0 ] || step "installing ${missing[*]}" apt_install "${missing[@]}"
}

# ---- image: a directory with disk, kernel, initrd, and the key that logs in

vm_packages() {
    packages_of "$RELEASE"
    listed "$VM_DIR/image/packages"
}

vm_image() {
    echo "$CACHE/vm-$({ vm_packages; cat "$IMAGE_DIR/setup" "$VM_DIR/image/setup"; } | hash_of)"
}

build_vm_image() {
    local image=$1 partial=$CACHE/vm-incomplete mirror packages
    mirror=$(apt_mirror)
    [ -n "$mirror" ] || fail "apt names no mirror of Debian"
    packages=$(vm_packages | paste -sd,)
    rm -rf "$partial"
    mkdir -p "$partial"
    chmod 0700 "$partial"
    ssh-keygen -q -t ed25519 -N '' -C sbxctl-test -f "$partial/key"
    KEY=$partial/key.pub mmdebstrap --variant=minbase --include="$packages" \
        --dpkgopt=force-unsafe-io \
        --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        --customize-hook="$IMAGE_DIR/setup" --customize-hook="$VM_DIR/image/setup" \
        "$RELEASE" "$partial/tree" "$mirror"
    cp "$partial"/tree/boot/vmlinuz-* "$partial/vmlinuz"
    cp "$partial"/tree/boot/initrd.img-* "$partial/initrd"
    truncate -s 8G "$partial/disk"
    mke2fs -q -t ext4 -d "$partial/tree" "$partial/disk"
    rm -rf "$partial/tree"
    mv "$partial" "$image"
    find "$CACHE" -mindepth 1 -maxdepth 1 -name 'vm-*' ! -path "$image" -exec rm -rf {} +
}

ensure_vm_image() {
    [ -d "$1" ] || step "building the virtual machine's image (some minutes)" build_vm_image "$1"
}

# ---- qemu

vm_pid() { cat "$STATE/pid" 2>/dev/null; }

is_qemu() { [ "$(cat "/proc/$1/comm" 2>/dev/null)" = qemu-system-x86 ]; }

vm_is_running() { is_qemu "$(vm_pid)"; }

vm_is_current() { vm_is_running && [ "$(cat "$STATE/image" 2>/dev/null)" = "$1" ]; }

free_port() {
    /usr/bin/python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# The disk's image stays as it is: what is written goes to a file without a name, which lives as long as
# qemu does, so also over a reboot of the machine. The machine reaches nobody (restrict=on).
launch_qemu() {
    local image=$1 port=$2
    TMPDIR=$CACHE setsid qemu-system-x86_64 -machine q35 -cpu max -accel tcg,thread=multi -smp 2 -m 4G \
        -nodefaults -display none -serial "file:$CONSOLE" \
        -kernel "$image/vmlinuz" -initrd "$image/initrd" \
        -append "root=/dev/vda rw console=ttyS0 quiet mitigations=off" \
        -drive "file=$image/disk,format=raw,if=virtio,snapshot=on" \
        -netdev "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:$port-:22" -device virtio-net-pci,netdev=net \
        -pidfile "$STATE/pid" >>"$LOGS/qemu.log" 2>&1 </dev/null 8>&- 9>&- &
    wait_until 30 vm_is_running || {
        tail -n 20 "$LOGS/qemu.log"
        return 1
    }
}

stop_qemu() {
    local pid
    pid=$(vm_pid) || return 0
    ! is_qemu "$pid" || kill "$pid"
    wait_until 30 test ! -d "/proc/$pid" || kill -KILL "$pid"
    rm -f "$STATE/pid" "$STATE/image"
}

# ---- ssh

write_ssh_config() {
    local image=$1 port=$2 user
    for user in "${USERS[@]}"; do
        printf '%s\n' "Host $user" "User $user"
    done
    cat <<EOF
Host *
HostName 127.0.0.1
Port $port
IdentityFile $image/key
IdentitiesOnly yes
ControlPath $STATE/%r.ssh
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
ConnectTimeout 20
EOF
}

vm_ssh() { ssh -F "$STATE/ssh_config" "$@"; }

# Each user has one connection, which is one session of logind; the commands go through it.
open_link() { link_is_open "$1" || timeout 120 ssh -F "$STATE/ssh_config" -MNf "$1" >/dev/null 2>&1 </dev/null 8>&- 9>&-; }

open_links() {
    local user
    for user in "${USERS[@]}"; do
        wait_until "$BOOT_SECONDS" open_link "$user"
    done
}

close_links() {
    local user
    for user in "${USERS[@]}"; do
        [ ! -S "$STATE/$user.ssh" ] || vm_ssh -O exit "$user" 2>/dev/null || true
        rm -f "$STATE/$user.ssh"
    done
}

link_is_open() { vm_ssh -O check "$1" 2>/dev/null; }

# What the functions of product.sh call, with a release as first argument that means nothing here.
in_machine() {
    local command
    shift
    printf -v command '%q ' "$@"
    vm_ssh root -- "$command"
}

boot_id() { timeout 60 ssh -F "$STATE/ssh_config" root cat /proc/sys/kernel/random/boot_id </dev/null; }

# ---- boot

remove_vm() {
    close_links
    stop_qemu
}

wait_until_vm_booted() {
    open_links
    wait_until_booted "$RELEASE"
}

boot_vm() {
    local image=$1 port
    remove_vm
    port=$(free_port)
    write_ssh_config "$image" "$port" >"$STATE/ssh_config"
    launch_qemu "$image" "$port"
    wait_until_vm_booted
    echo "$image" >"$STATE/image"
}

ensure_vm_booted() {
    vm_is_current "$1" || step "booting the virtual machine (some minutes)" boot_vm "$1"
}
