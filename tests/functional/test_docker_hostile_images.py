"""Images that were made to get out, or to become the launcher: each runs like any other, or is refused in words."""

import json

import docker_engine
import pytest

NAME = "sbxctl-test/hostile:1"

# A shell with what it is linked with, as the template of every image here.
MAKE = """
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/usr/bin "$root"/etc "$root"/tmp "$root"/var
ln -s usr/bin "$root"/bin
for program in sh cat id ls; do
    cp --dereference "/usr/bin/$program" "$root/usr/bin/$program"
    ldd "/usr/bin/$program" | grep -o '/[^ ]*' | xargs -I{} cp --dereference --parents {} "$root"
done
cd "$root"
eval "$2"
tar -C "$root" -c . | docker import "${@:3}" - "$1"
"""
HOST_FILES = (
    "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/shadow", "/usr/lib/sbxctl/sbxctl-launch", "/usr/sbin/runc",
    "/usr/bin/containerd-shim-runc-v2", "/proc/sys/kernel/core_pattern",
)




@pytest.fixture(scope="module", autouse=True)
def used(machine):
    docker_engine.use_machine_as_image(machine)
    docker_engine.use_images(machine, default=NAME)
    yield
    docker_engine.use_machine_as_image(machine)
    machine.run(["docker", "rmi", "--force", NAME])


@pytest.fixture(autouse=True)
def host_is_untouched(machine):
    def look():
        names = machine.run(["ls", "-A", "/", "/etc", "/dev", "/root"], check=True).text
        return names, machine.run(["sha256sum", *HOST_FILES], check=True).text

    before = look()
    yield
    assert look() == before
    machine.wait_for(lambda: not docker_engine.containers(machine), 10, "the container to go")


def run(machine, prepare=":", *changes, script="id -u"):
    """The answer to a run in an image after `prepare` in its root, with changes of its configuration."""
    options = [word for change in changes for word in ("--change", change)]
    machine.run(["bash", "-c", MAKE, "make", NAME, prepare, *options], timeout=60, check=True)
    return run_again(machine, script)


def run_again(machine, script):
    """The same in the image that is there."""
    command = ["run", "--engine", "docker", "--language", "shell", "--json", "-c", script]
    return json.loads(machine.sbxctl(command).text)


def output(*arguments, **parameters):
    result = run(*arguments, **parameters)
    assert result.get("status") == "succeeded", result
    return result["stdout"]["text"]


@pytest.fixture
def sandbox_user(machine):
    return machine.run(["id", "-u", "sbxctl-sandbox"], check=True).text.strip()


def test_configuration_of_an_image_is_replaced_by_ours(machine, sandbox_user):
    changes = (
        'ENTRYPOINT ["/proc/self/exe"]',
        'CMD ["/proc/self/exe"]',
        "USER root",
        "WORKDIR /proc/self/fd/7",
        "ENV LD_PRELOAD=/evil.so LD_LIBRARY_PATH=/evil GLIBC_TUNABLES=x PATH=/evil ENV=/evil",
        "HEALTHCHECK --interval=1s CMD /bin/sh -c 'echo > /workspace/healthcheck'",
        "ONBUILD RUN false",
        "LABEL io.sbxctl.run=stranger io.sbxctl.uid=0 io.sbxctl.service=stranger io.sbxctl.connection=1",
    )
    script = 'id -u; pwd; echo "${LD_PRELOAD-}${LD_LIBRARY_PATH-}${GLIBC_TUNABLES-}${ENV-}."; cat /proc/1/comm'
    assert output(machine, ":", *changes, script=script).split() == [sandbox_user, "/workspace", ".", ".sbxctl-launch"]


@pytest.mark.parametrize("user", ["0", "00", "+1", "1:0", "-1", "4294967295", "4294967296", "18446744073709551616"])
def test_fault_43_and_44_no_user_of_an_image_counts(machine, sandbox_user, user):
    script = "id -u; id -g; id -G"
    assert output(machine, ":", f"USER {user}", script=script).split() == [sandbox_user] * 3


@pytest.mark.parametrize("link", ["/.sbxctl-launch", "/.sbxctl-control"])
def test_fault_39_runtime_that_an_image_calls_in_place_of_the_launcher_is_not_changed(machine, link):
    answer = run(machine, f"ln -s /proc/self/exe .{link}")
    assert answer["error"] == "io.sbxctl.Sandbox.EngineUnavailable"
    assert "Docker did not" in answer["reason"] or "before the program could be started" in answer["reason"]


@pytest.mark.parametrize("target", ["/etc", "../../../../../../../etc"])
@pytest.mark.parametrize("link", ["dev", "proc", "etc", "tmp", "workspace", "sys", "run", "var"])
def test_fault_42_links_in_an_image_lead_nowhere_on_the_host(machine, sandbox_user, link, target):
    script = "id -u; for d in dev etc proc root tmp workspace; do (echo mark >/$d/mark) 2>/dev/null; done; :"
    answer = run(machine, f"rm -rf {link}; ln -s {target} {link}", script=script)
    if "error" in answer:
        assert "Docker did not start the container" in answer["reason"], answer
    else:
        assert answer["status"] == "succeeded" and answer["stdout"]["text"].split() == [sandbox_user], answer


@pytest.mark.parametrize("prepare", ["echo > workspace", "rm -rf tmp; echo > tmp", "ln -s /proc workspace"])
def test_image_without_a_place_for_our_folders_is_refused_in_words(machine, prepare):
    answer = run(machine, f"rm -rf workspace; {prepare}")
    assert answer["error"] == "io.sbxctl.Sandbox.EngineUnavailable", answer
    assert "Docker did not start the container" in answer["reason"]


def test_launcher_that_cannot_reach_the_engine_is_said_at_once(machine):
    answer = run(machine, "ln -s /etc/passwd .sbxctl-control")
    assert "The container ended before the program could be started (status " in answer["reason"], answer


def test_setuid_programs_of_an_image_give_no_rights(machine, sandbox_user):
    prepare = "cp usr/bin/id usr/bin/root-id; chmod 6755 usr/bin/root-id"
    assert output(machine, prepare, script="root-id -u; root-id -G").split() == [sandbox_user] * 2


@pytest.mark.parametrize(
    "prepare",
    ["mknod -m 666 console c 5 1", "mkdir -p usr/a/b; mknod -m 666 usr/a/b/tun c 10 200", "mknod disk b 8 0",
     "d=.; for i in $(seq 70); do d=$d/d; done; mkdir -p $d"],
    ids=["console", "tun", "disk", "too deep to tell"],
)  # fmt: skip
def test_image_with_devices_is_refused(machine, prepare):
    """Docker itself would let the program open some of them."""
    answer = run(machine, prepare, script="echo 1")
    assert "has device nodes of its own" in answer.get("reason", ""), answer


def test_devices_behind_a_folder_that_nobody_may_read_do_not_matter(machine):
    prepare = "mkdir -m 700 x; mknod -m 666 x/console c 5 1"
    assert output(machine, prepare, script="cat /x/console 2>&1 || echo no").endswith("no\n")


# Its command line tells what the launcher was told to do.
COMMAND_LINE = 'echo "$(cat /proc/1/cmdline)"'
SEARCHES, HAS_SEARCHED = "--socket/.sbxctl-control", "--socket-in-searched/.sbxctl-control"


def command_line(answer):
    assert answer.get("status") == "succeeded", answer
    return answer["stdout"]["text"].strip().removeprefix("/.sbxctl-launch")


def test_image_is_looked_through_once(machine):
    assert command_line(run(machine, script=COMMAND_LINE)) == SEARCHES
    assert command_line(run_again(machine, COMMAND_LINE)) == HAS_SEARCHED
    assert command_line(run_again(machine, COMMAND_LINE)) == HAS_SEARCHED


def test_image_with_devices_is_refused_each_time_and_also_under_the_name_of_one_without(machine):
    run(machine, script=COMMAND_LINE)
    assert command_line(run_again(machine, COMMAND_LINE)) == HAS_SEARCHED
    assert "has device nodes of its own" in run(machine, "mknod -m 666 console c 5 1").get("reason", "")
    assert "has device nodes of its own" in run_again(machine, "id -u").get("reason", "")


def test_image_that_was_unpacked_again_is_looked_through_again(machine):
    run(machine, script=COMMAND_LINE)
    assert command_line(run_again(machine, COMMAND_LINE)) == HAS_SEARCHED
    machine.wait_for(lambda: not docker_engine.containers(machine), 10, "the container to go")
    again = 'docker save "$1" -o /tmp/again.tar; docker rmi "$1"; docker load -i /tmp/again.tar; rm /tmp/again.tar'
    machine.run(["bash", "-ec", again, "again", NAME], timeout=60, check=True)
    assert command_line(run_again(machine, COMMAND_LINE)) == SEARCHES
    assert command_line(run_again(machine, COMMAND_LINE)) == HAS_SEARCHED


@pytest.mark.parametrize("path", ["/workspace", "/run", "/data"])
def test_volume_is_refused(machine, path):
    assert f"declares a volume ({path})" in run(machine, ":", f"VOLUME {path}")["reason"]


@pytest.mark.parametrize("changes", [["EXPOSE 1-65535"], [f"LABEL l{i}={'x' * 50000}" for i in range(3)]], ids=["ports", "labels"])
def test_image_that_has_too_much_to_tell_is_refused(machine, changes):
    answer = run(machine, ":", *changes)
    assert "more to tell than is sensible" in answer["reason"], answer
