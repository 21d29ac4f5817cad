"""The ways to E2B's cloud: both versions of HTTP, a proxy, a key that is stored encrypted; and an archive that no honest sandbox sends."""

import base64
import io
import json
import tarfile

import e2b_engine
import pytest
from approvals import YES, remove_rules, set_rules
from e2b_engine import CREDENTIAL, KEY, UNIT, configure, inside

pytestmark = pytest.mark.long  # configured anew each time

WORKS = """
with Sandbox() as sandbox:
    sandbox.put("in", b"content")
    output = sandbox.run(["sh", "-c", "cat in; cp in out"])
    print(json.dumps([output.exited[:2], output.stdout.decode(), sorted(os.listdir(sandbox.workspace))]))
"""
WORKED = [[1, 0], "content", ["in", "out"]]

# A proxy that notes what it was asked for, and the first bytes that went through; until its standard input ends.
PROXY = """
import asyncio, sys
async def relay(reader, writer, first=False):
    while data := await reader.read(65536):
        if first:
            print(data[:3].hex(), flush=True)
            first = False
        writer.write(data)
    writer.close()
async def serve(reader, writer):
    head = await reader.readuntil(b"\\r\\n\\r\\n")
    print(head.decode().splitlines()[0], b"x-api-key" in head.lower(), flush=True)
    host, port = head.split()[1].decode().rsplit(":", 1)
    there = await asyncio.open_connection(host, int(port))
    writer.write(b"HTTP/1.1 200 OK\\r\\n\\r\\n")
    await asyncio.gather(relay(reader, there[1], True), relay(there[0], writer))
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 3444)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
asyncio.run(main())
"""


@pytest.mark.parametrize("settings, version", [({"http2": True}, "2"), ({"http2": False}, "1.1")])
def test_run_goes_by_either_version_of_http(machine, cloud, settings, version):
    cloud.settings(**settings)
    assert inside(machine, WORKS) == WORKED
    cloud.wait_until_empty()
    assert {request["http"] for request in cloud.requests() if request["operation"] != "list"} == {version}


def test_proxy_is_gone_through_and_sees_nothing(machine, cloud):
    proxy = machine.popen(["python3", "-c", PROXY])
    assert proxy.popen.stdout.readline() == b"ready\n"
    configure(machine, Proxy="http://localhost:3444")
    try:
        assert inside(machine, WORKS) == WORKED
        cloud.wait_until_empty()
    finally:
        configure(machine)
    seen = proxy.finish().text
    assert "CONNECT localhost:3443 HTTP/1.1 False\n160301\n" in seen, seen
    assert KEY not in seen and "True" not in seen


def test_key_may_be_stored_encrypted(machine, cloud):
    drop_in = f"/run/systemd/system/{UNIT}.d/encrypted.conf"
    stored = "/etc/credstore.encrypted/e2b-api-key"
    machine.run(["mkdir", "-p", drop_in.rpartition("/")[0], stored.rpartition("/")[0]], check=True)
    machine.run(["systemd-creds", "encrypt", "--name=e2b-api-key", CREDENTIAL, stored], check=True)
    machine.write(drop_in, b"[Service]\nLoadCredential=\nLoadCredentialEncrypted=e2b-api-key\n")
    machine.run(["mv", CREDENTIAL, CREDENTIAL + ".aside"], check=True)
    try:
        assert KEY not in machine.read(stored).decode()
        machine.run(["systemctl", "daemon-reload"], check=True)
        e2b_engine.stop(machine)
        assert inside(machine, WORKS) == WORKED
    finally:
        machine.run(["mv", CREDENTIAL + ".aside", CREDENTIAL], check=True)
        machine.run(["rm", "-f", drop_in, stored], check=True)
        machine.run(["systemctl", "daemon-reload"], check=True)
        e2b_engine.stop(machine)


# ---- an archive that was made by somebody else than tar


def entry(name, kind=tarfile.REGTYPE, link="", data=b""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size, info.mode = kind, link, len(data), 0o6777
    return info, data


def archive(entries):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as made:
        for info, data in entries:
            made.addfile(info, io.BytesIO(data))
    return file.getvalue()


def envelope(flags, message):
    """As text, since faults are JSON: so no byte of its length is above 127."""
    text = json.dumps(message)
    while any(byte > 127 for byte in len(text).to_bytes(4, "big")):
        text += " "
    return chr(flags) + "".join(map(chr, len(text).to_bytes(4, "big"))) + text


def stream(data):
    events = [{"start": {"pid": 7}}, {"data": {"stdout": base64.b64encode(data).decode()}}, {"end": {"exited": True, "status": "exit status 0"}}]
    return "".join(envelope(0, {"event": event}) for event in events) + envelope(2, {})


HOSTILE = [
    entry("./good", data=b"good"),
    entry("../planted-above", data=b"x"),
    entry("a/../../planted-above", data=b"x"),
    entry("/var/tmp/planted-absolute", data=b"x"),
    entry("./link", tarfile.SYMTYPE, "/var/tmp"),
    entry("./link/planted-through", data=b"x"),
    entry("./hard", tarfile.LNKTYPE, "/etc/shadow"),
    entry("./node", tarfile.CHRTYPE),
    entry("./good/planted-below", data=b"x"),
    entry("./\x1b[31mred", data=b"red"),
]


def test_archive_of_a_hostile_sandbox_leads_nowhere(machine, cloud):
    set_rules(machine, run_cloud=YES)
    try:
        cloud.fault("process.start", "answer", status=200, headers={"content-type": "application/connect+json"}, body=stream(archive(HOSTILE)),
                    skip=1, times=1)
        result = machine.run_json(["--engine", "e2b", "-c", "print(4)"])
    finally:
        remove_rules(machine)
    assert (result["status"], result["stdout"]["text"]) == ("succeeded", "4\n"), result
    assert {file["name"]: file["bytes"] for file in result["files"]} == {"good": 4, "\\x1b[31mred": 3}
    assert [skipped["name"] for skipped in result["skippedFiles"]] == ["link"]
    assert machine.run(["find", "/", "-xdev", "-name", "planted-*"]).text == ""
    modes = machine.run(["find", result["outputDirectory"], "-perm", "/6077"], check=True).text
    assert modes == ""
    cloud.wait_until_empty()
