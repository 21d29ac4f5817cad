# Makes a bare Debian host able to build and boot: packages and a Docker daemon. Sourced by
# tests/machine/up and tests/run. Must never stop or reconfigure a daemon that already answers.
# shellcheck shell=bash

missing_packages() {
    local -A present
    local package
    while read -r package; do
        present[$package]=1
    done < <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p')
    for package in $(listed "$ROOT/tests/lib/host-packages"); do
        [ -n "${present[$package]:-}" ] || echo "$package"
    done
}

apt_install() {
    export DEBIAN_FRONTEND=noninteractive
    apt-get -q update
    apt-get -q -y --no-install-recommends install "$@"
}

install_host_packages() {
    local missing
    mapfile -t missing < <(missing_packages)
    [ "${#missing[@]}" -eq 0 ] || step "installing ${missing[*]}" apt_install "${missing[@]}"
}

# After a crash of the host the file may name a process that is something else by now.
drop_stale_pidfile() {
    local file=/var/run/docker.pid
    [ -f "$file" ] || return 0
    [ "$(cat "/proc/$(cat "$file")/comm" 2>/dev/null)" = dockerd ] || rm -f "$file"
}

launch_dockerd() {
    drop_stale_pidfile
    setsid dockerd >>"$LOGS/dockerd.log" 2>&1 </dev/null 9>&- &
    wait_until 60 docker info || {
        tail -n 20 "$LOGS/dockerd.log"
        return 1
    }
}

ensure_dockerd() {
    docker info >/dev/null 2>&1 || step "starting dockerd" launch_dockerd
}
