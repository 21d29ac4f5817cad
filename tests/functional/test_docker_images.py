"""Images of the Docker engine: which may be used, how they come from a real registry, and which one ran."""

import json
import os

import docker_engine
import pytest
from approvals import YES, rules
from docker_registry import registry  # noqa: F401 (a fixture)

# A varlink client that tells every reply, as alice.
FOLLOW = """
import json, socket, sys
link = socket.socket(socket.AF_UNIX)
link.connect("/run/sbxctl/io.sbxctl.Sandbox")
link.sendall(sys.argv[1].encode() + b"\\0")
data = b""
while True:
    data += link.recv(65536) or sys.exit("end of file")
    while b"\\0" in data:
        message, data = data.split(b"\\0", 1)
        print(message.decode(), flush=True)
        if not json.loads(message).get("continues"):
            sys.exit()
"""


def call(method, **parameters):
    return json.dumps({"method": f"io.sbxctl.Sandbox.{method}", "more": True, "parameters": parameters})


def replies(result):
    return [json.loads(line) for line in result.text.splitlines()]


def follow(machine, method, timeout=120, **parameters):
    return replies(machine.run(["python3", "-c", FOLLOW, call(method, **parameters)], user="alice", timeout=timeout))


def run_image(machine, image, **parameters):
    return follow(machine, "Run", script="echo 4", language="shell", engine="docker", image=image, **parameters)


def is_here(machine, image):
    return machine.run(["docker", "image", "inspect", image]).status == 0


@pytest.fixture
def fresh(machine, registry, request):  # noqa: F811
    """A function that makes an image which is in the registry, on the list, and not on the machine."""
    made = []

    def push(size=1 << 20):
        name = f"test-{os.urandom(4).hex()}:1"
        image, digest = registry.push(name, size)
        made.append(image)
        docker_engine.use_images(machine, allowed=made, default=docker_engine.PYTHON_IMAGE)
        return image, digest

    registry.limit()
    yield push
    registry.limit()
    for image in made:
        machine.run(["docker", "rmi", "--force", image])
    docker_engine.configure(machine)


def test_cold_image_is_pulled_with_progress_and_its_digest_is_recorded(machine, registry, fresh):  # noqa: F811
    image, digest = fresh(16 << 20)
    registry.limit(rate=8 << 20)
    answers = run_image(machine, image)
    progress = [a["parameters"] for a in answers if a["parameters"].get("event") == "progress"]
    assert progress and {p["phase"] for p in progress} == {"pull"}
    assert all(0 <= p["current"] <= p["total"] for p in progress)
    assert max(p["total"] for p in progress) >= 16 << 20
    result = answers[-1]["parameters"]["result"]
    assert result["status"] == "succeeded" and result["stdout"]["text"] == "4\n"
    assert result["image"] == image and result["imageDigest"] == digest
    # Getting it was not the program's time.
    assert result["usage"]["wallUSec"] < 1_000_000 < result["usage"]["waitUSec"]
    ends = [e for e in machine.journal(f"SBXCTL_RUN_ID={result['id']}") if "SBXCTL_IMAGE_DIGEST" in e]
    assert ends and {e["SBXCTL_IMAGE_DIGEST"] for e in ends} == {digest}


def test_warm_image_starts_at_once(machine, registry, fresh):  # noqa: F811
    image, digest = fresh()
    assert follow(machine, "PullImage", image=image)[-1]["parameters"]["imageDigest"] == digest
    registry.limit()
    answers = run_image(machine, image)
    assert "progress" not in [a["parameters"].get("event") for a in answers]
    assert answers[-1]["parameters"]["result"]["imageDigest"] == digest
    assert registry.served() == 0


def test_two_callers_at_once_get_one_pull(machine, registry, fresh):  # noqa: F811
    image, digest = fresh(16 << 20)
    registry.limit(rate=4 << 20)
    command = ["python3", "-c", FOLLOW, call("Run", script="echo 4", language="shell", engine="docker", image=image)]
    both = [machine.popen(command, user=user) for user in ("alice", "bob")]
    results = [replies(running.finish(timeout=120))[-1]["parameters"]["result"] for running in both]
    assert [r["stdout"]["text"] for r in results] == ["4\n", "4\n"]
    assert {r["imageDigest"] for r in results} == {digest}
    assert 16 << 20 <= registry.served() < 24 << 20


def test_pull_that_is_cut_in_the_middle_is_said_and_can_be_repeated(machine, registry, fresh):  # noqa: F811
    image, digest = fresh(16 << 20)
    # Shorter than Docker goes on trying.
    docker_engine.configure(machine, PullTimeout="8s")
    registry.limit(most=4 << 20)
    answer = run_image(machine, image)[-1]
    assert answer["error"] == "io.sbxctl.Sandbox.EngineUnavailable"
    assert image in answer["parameters"]["reason"] and f"sbxctl pull {image}" in answer["parameters"]["reason"]
    assert not is_here(machine, image)
    registry.limit()
    assert run_image(machine, image)[-1]["parameters"]["result"]["imageDigest"] == digest


def test_time_limit_of_a_pull_is_its_own(machine, registry, fresh):  # noqa: F811
    image, _ = fresh(16 << 20)
    docker_engine.configure(machine, PullTimeout="2s")
    registry.limit(rate=1 << 20)
    answer = run_image(machine, image, timeoutUSec=60_000_000)[-1]
    assert "PullTimeout=" in answer["parameters"]["reason"], answer
    docker_engine.configure(machine)
    registry.limit(rate=4 << 20)
    result = run_image(machine, image, timeoutUSec=1_000_000)[-1]["parameters"]["result"]
    assert result["status"] == "succeeded", result


def test_image_runs_by_the_digest_that_was_asked_for(machine, fresh):
    image, digest = fresh()
    repository = image.rsplit(":", 1)[0]
    pinned = f"{repository}@{digest}"
    docker_engine.use_images(machine, allowed=[pinned], default=docker_engine.PYTHON_IMAGE)
    result = run_image(machine, pinned)[-1]["parameters"]["result"]
    assert result["status"] == "succeeded" and result["imageDigest"] == digest
    assert result["image"] == pinned


def test_digest_on_the_list_pins_a_name_without_one(machine, registry, fresh):  # noqa: F811
    image, digest = fresh()
    docker_engine.use_images(machine, allowed=[f"{image}@{digest}"], default=docker_engine.PYTHON_IMAGE)
    # The tag moves on.
    name = image.split("/", 1)[1]
    _, other = registry.push(name)
    assert other != digest
    result = run_image(machine, image)[-1]["parameters"]["result"]
    assert result["imageDigest"] == digest


def test_digest_that_the_registry_does_not_have_is_said(machine, fresh):
    image, _ = fresh()
    wrong = f"{image.rsplit(':', 1)[0]}@sha256:{'0' * 64}"
    docker_engine.use_images(machine, allowed=[wrong], default=docker_engine.PYTHON_IMAGE)
    answer = run_image(machine, wrong)[-1]
    assert answer["error"] == "io.sbxctl.Sandbox.EngineUnavailable"
    assert "could not be pulled" in answer["parameters"]["reason"] and "0000" in answer["parameters"]["reason"]


def test_registry_that_serves_another_image_for_a_digest_is_caught(machine, registry, fresh):  # noqa: F811
    image, digest = fresh()
    _, other = fresh()
    registry.replace_manifest(digest, other)
    wanted = f"{image.rsplit(':', 1)[0]}@{digest}"
    docker_engine.use_images(machine, allowed=[wanted], default=docker_engine.PYTHON_IMAGE)
    answer = run_image(machine, wanted)[-1]
    assert "could not be pulled" in answer["parameters"]["reason"], answer
    assert not is_here(machine, wanted)


def test_caller_who_hangs_up_ends_the_pull(machine, registry, fresh):  # noqa: F811
    image, _ = fresh(16 << 20)
    registry.limit(rate=1 << 20)
    running = machine.popen(["python3", "-c", FOLLOW, call("PullImage", image=image)], user="alice")
    assert json.loads(running.popen.stdout.readline())["parameters"]["event"] == "progress"
    running.signal("KILL")
    running.finish()
    children = "pgrep -P $(systemctl show -P MainPID sbxctl-engine-docker.service)"
    machine.wait_for(lambda: machine.run(["sh", "-c", children]).text == "", 3, "the engine's process to end")


def test_pull_shows_a_bar_on_a_terminal(machine, registry, fresh):  # noqa: F811
    image, digest = fresh(16 << 20)
    registry.limit(rate=4 << 20)
    shown = machine.sbxctl(["pull", image], tty=True)
    assert shown.status == 0, shown
    assert "pull [=" in shown.text and " % of 17.1 MiB" in shown.text
    assert digest in shown.text.splitlines()[-1]


def test_newest_state_that_cannot_be_had_is_said(machine):
    docker_engine.use_machine_as_image(machine)
    image = "127.0.0.1:9/here:1"
    machine.run(["docker", "tag", docker_engine.PYTHON_IMAGE, image], check=True)
    docker_engine.use_images(machine, allowed=[image])
    try:
        result = machine.sbxctl(["pull", "--engine", "docker", image])
    finally:
        machine.run(["docker", "rmi", image], check=True)
        docker_engine.use_machine_as_image(machine)
    assert result.status == 125
    assert f"The image '{image}' could not be pulled" in result.errors, result


def test_image_that_is_not_on_the_list_needs_an_administrator(machine):
    for verb in (["run", "--engine", "docker", "--image", "foreign:1", "-c", "print(4)"], ["pull", "foreign:1"]):
        result = machine.sbxctl([verb[0], "--no-ask-password", *verb[1:]])
        assert result.status in (125, 126), result
        assert "foreign:1" in result.errors and "not on this machine's list" in result.errors
    refused = machine.journal("SBXCTL_IMAGE=foreign:1")
    assert refused, "the pull's refusal is recorded"
    assert refused[-1].get("SBXCTL_USER") == "alice"


def test_fault_38_no_registry_is_asked_before_an_approval(machine):
    """Nor can anybody tell by the answer whether there is a host of that name."""
    code = "import socket; s = socket.create_server(('127.0.0.1', 5099)); print(1, flush=True); s.accept(); print('asked', flush=True)"
    listener = machine.popen(["python3", "-c", code])
    assert listener.popen.stdout.readline() == b"1\n"
    for verb in (["run", "--engine", "docker", "-c", "print(4)", "--image"],
                 ["run", "--engine", "docker", "--dry-run", "-c", "print(4)", "--image"], ["pull"]):
        answers = []
        for host in ("127.0.0.1:5099", "127.0.0.1:5098", "no-such.invalid"):
            result = machine.sbxctl([verb[0], "--no-ask-password", *verb[1:], f"{host}/x:1"])
            answers.append((result.status, result.text.replace(host, "HOST"), result.errors.replace(host, "HOST")))
        if "--dry-run" not in verb:
            assert len(set(answers)) == 1 and answers[0][0] in (125, 126), answers
    listener.signal("KILL")
    assert listener.finish().stdout == b""


def test_rule_sees_which_image_is_wanted(machine):
    docker_engine.use_machine_as_image(machine)
    wanted, other = "sbxctl-test/wanted:1", "sbxctl-test/other:1"
    for image in (wanted, other):
        machine.run(["docker", "tag", docker_engine.PYTHON_IMAGE, image], check=True)
    arguments = ["--no-ask-password", "--engine", "docker", "-c", "print(4)", "--image"]
    try:
        with rules(machine, run_image=f'action.lookup("image") == "{wanted}" ? {YES} : null'):
            assert machine.sbxctl(["run", *arguments, wanted]).text == "4\n"
            assert machine.sbxctl(["run", *arguments, other]).status == 126
    finally:
        machine.run(["docker", "rmi", wanted, other], check=True)


def test_dry_run_shows_the_image_and_its_approval(machine):
    shown = machine.sbxctl(["run", "--engine", "docker", "--image", "foreign:1", "--dry-run", "-c", "print(4)"])
    assert "image         foreign:1" in shown.text
    assert "io.sbxctl.run-image: needs an administrator" in shown.text.replace("'s password", "")


def test_engine_without_images_says_so(machine):
    result = machine.sbxctl(["run", "--engine", "systemd", "--image", "foreign:1", "-c", "print(4)"])
    assert result.status == 125
    assert "runs no images" in result.errors and "--engine docker" in result.errors


def test_engines_tells_which_there_are_and_what_is_wrong(machine):
    docker_engine.configure(machine)
    answer = json.loads(machine.sbxctl(["engines", "--json"]).text)
    assert answer["default"] == "systemd" and set(answer["engines"]) >= {"systemd", "docker"}
    assert answer["engines"] == sorted(answer["engines"]) == list(answer["details"])
    assert answer["details"]["docker"] == {"images": True, "cloud": False, "usable": True}
    docker_engine.configure(machine, Socket="/run/no-docker.sock")
    answer = json.loads(machine.sbxctl(["engines", "--json"]).text)
    docker_engine.configure(machine)
    assert answer["details"]["docker"]["usable"] is False
    assert "Docker is not running" in answer["details"]["docker"]["reason"]
    assert answer["details"]["systemd"]["usable"] is True


def test_installed_default_is_docker(machine):
    """The drop-in that comes with the engine, which the machine is installed without."""
    machine.write("/etc/sbxctl/sbxctl.conf.d/60-docker.conf", (docker_engine.ROOT / "systemd/docker.conf").read_bytes())
    machine.run(["systemctl", "stop", "sbxctl-helper.service"], check=True)
    try:
        docker_engine.use_machine_as_image(machine)
        result = machine.run_json(["-c", "print(4)"])
    finally:
        machine.run(["rm", "/etc/sbxctl/sbxctl.conf.d/60-docker.conf"], check=True)
        machine.run(["systemctl", "stop", "sbxctl-helper.service"], check=True)
    assert result["engine"] == "docker" and result["stdout"]["text"] == "4\n"
    assert result["imageDigest"].startswith("sha256:")
