# Builds the product on the host and installs it in a test machine. Sourced by tests/machine/up and
# tests/run. Must never install anything on the host itself.
# shellcheck shell=bash

BUILD=$ROOT/build$MACHINE_SUFFIX
STAGE=$BUILD/stage
# In the machine: the hash of what is installed, and the names of its files.
INSTALLED=/etc/sbxctl-test-machine
# Sockets that the machine listens on. An engine's socket is enough to make the engine known.
SOCKETS=(sbxctl-helper.socket sbxctl-engine-systemd.socket sbxctl-engine-docker.socket
         sbxctl-engine-e2b.socket sbxctl-egress.socket)

# configure DIRECTORY [MESON OPTION]...: as the product is packaged, so that paths are the real ones.
# Warnings stop it here, not at a user's, whose compiler may be a newer one.
configure() {
    local dir=$1
    shift
    [ -f "$dir/build.ninja" ] || meson setup --prefix=/usr --sysconfdir=/etc --localstatedir=/var \
        -Dbuildtype=debugoptimized -Dwerror=true "$@" "$dir" "$ROOT"
}

build_product() {
    CC=gcc configure "$BUILD"
    ninja -C "$BUILD"
    rm -rf "$STAGE"
    meson install -C "$BUILD" --no-rebuild --quiet --destdir "$STAGE"
    # Docker would be the default: which engine a test uses is the test's affair.
    rm "$STAGE/usr/lib/sbxctl/sbxctl.conf.d/60-docker.conf"
}

# Content and modes count, dates do not.
pack_stage() {
    tar -C "$STAGE" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cf - .
}

staged_files() { (cd "$STAGE" && find . ! -type d | LC_ALL=C sort); }

# Runs in the machine, with the new list of files on standard input and $1 the old one's directory.
# A file that the product no longer has would otherwise stay and pretend.
stop_and_clean() {
    in_machine "$1" bash -euc '
        mapfile -t units < <(systemctl list-units --all --plain --no-legend "sbxctl*" | cut -d " " -f 1)
        [ ${#units[@]} -eq 0 ] || systemctl stop "${units[@]}"
        mkdir -p "$1"
        touch "$1/files"
        cat >"$1/files.new"
        cd /
        LC_ALL=C comm -23 "$1/files" "$1/files.new" | xargs -r -d "\n" rm -f --
        mv "$1/files.new" "$1/files"
    ' stop_and_clean "$INSTALLED" < <(staged_files)
}

unpack() {
    pack_stage | in_machine "$1" tar -C / --no-overwrite-dir --keep-directory-symlink -xpmf -
}

activate() {
    in_machine "$1" bash -euc '
        systemd-sysusers
        systemd-tmpfiles --create
        journalctl --update-catalog
        systemctl daemon-reload
        systemctl try-restart polkit.service
        systemctl enable "$@"
        systemctl restart "$@"
    ' activate "${SOCKETS[@]}"
}

install_product() {
    local release=$1 hash=$2
    in_machine "$release" rm -f "$INSTALLED/hash"
    stop_and_clean "$release"
    unpack "$release"
    activate "$release"
    in_machine "$release" sh -c 'echo "$2" >"$1/hash"' record "$INSTALLED" "$hash"
}

ensure_product() {
    local release=$1 hash
    step "building the product" build_product
    hash=$(pack_stage | hash_of)
    [ "$(in_machine "$release" cat "$INSTALLED/hash" 2>/dev/null </dev/null)" = "$hash" ] ||
        step "installing the product in the $release machine" install_product "$release" "$hash"
}
