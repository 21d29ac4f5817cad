"""A registry on the test machine's loopback, and a way to it that can be slow, end early or stand still."""


import pytest

CONFIG = "/run/test-registry.yml"
STORE = "/var/tmp/test-registry"
HOST = "127.0.0.1:5000"
# Where the images of the tests come from: the same registry, through the way below.
WAY = "127.0.0.1:5001"

# usage: way.py CONTROL-FILE, in which stand bytes per second and bytes until the end of each connection; 0: no limit.
WAY_CODE = """
import pathlib, selectors, socket, sys, threading, time
control = pathlib.Path(sys.argv[1])
def copy(source, target, limited):
    sent = 0
    while data := source.recv(16384):
        rate, most = map(int, control.read_text().split())
        if limited and most and sent + len(data) > most:
            break
        if limited and rate:
            time.sleep(len(data) / rate)
        target.sendall(data)
        sent += len(data)
        if limited:
            with open(str(control) + ".served", "ab") as f:
                f.write(b"x" * (len(data) // 1024))
    for s in (source, target):
        try:
            s.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
def serve(client):
    try:
        upstream = socket.create_connection(("127.0.0.1", 5000))
        threading.Thread(target=copy, args=(client, upstream, False), daemon=True).start()
        copy(upstream, client, True)
    except OSError:
        client.close()
server = socket.create_server(("127.0.0.1", 5001))
print("up", flush=True)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""

# A shell with what it is linked with, and ballast that does not compress.
MAKE_IMAGE = """
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/usr/bin "$root"/etc "$root"/tmp "$root"/var
ln -s usr/bin "$root"/bin
for program in sh cat sleep; do
    cp --dereference "/usr/bin/$program" "$root/usr/bin/$program"
    ldd "/usr/bin/$program" | grep -o '/[^ ]*' | xargs -I{} cp --dereference --parents {} "$root"
done
head -c "$2" /dev/urandom >"$root/ballast"
tar -C "$root" -c . | docker import - "$1"
docker push --quiet "$1"
docker rmi "$1"
"""


class Registry:
    def __init__(self, machine):
        self.machine = machine
        self.control = "/run/test-registry-way"
        self.running = []

    def start(self):
        config = (
            f"version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {STORE}\n  delete:\n    enabled: true\n"
            f"  maintenance:\n    uploadpurging:\n      enabled: false\nhttp:\n  addr: {HOST}\n"
        )
        self.machine.write(CONFIG, config.encode())
        self.limit()
        self.running.append(self.machine.popen(["docker-registry", "serve", CONFIG], silent=True))
        way = self.machine.popen(["python3", "-c", WAY_CODE, self.control])
        assert way.popen.stdout.readline() == b"up\n"
        self.running.append(way)
        self.machine.wait_for(
            lambda: self.machine.run(["python3", "-c", "import socket; socket.create_connection(('127.0.0.1', 5000))"]).status == 0,
            30, "the registry",
        )

    def stop(self):
        for running in self.running:
            running.signal("KILL")
            running.finish()
        self.machine.run(["rm", "-rf", STORE, CONFIG, self.control, self.control + ".served"])

    def limit(self, rate=0, most=0):
        """Bytes per second, and per connection."""
        self.machine.write(self.control, f"{rate} {most}".encode())
        self.machine.run(["rm", "-f", self.control + ".served"])

    def served(self):
        """Bytes that came from the registry since the last limit(), about."""
        size = self.machine.run(["stat", "-c", "%s", self.control + ".served"])
        return int(size.text or 0) * 1024

    def push(self, name, size=1 << 20):
        """Makes an image that is only in the registry, and returns its reference there and its digest."""
        self.machine.run(["bash", "-c", MAKE_IMAGE, "make", f"{HOST}/{name}", str(size)], timeout=120, check=True)
        return f"{WAY}/{name}", self.digest(name)

    def digest(self, name):
        repository, tag = name.split(":")
        link = f"{STORE}/docker/registry/v2/repositories/{repository}/_manifests/tags/{tag}/current/link"
        return self.machine.read(link).decode()

    def replace_manifest(self, digest, other):
        """The registry answers a question for one digest with the manifest of another."""
        blobs = f"{STORE}/docker/registry/v2/blobs/sha256"
        path = [f"{blobs}/{d[7:9]}/{d[7:]}/data" for d in (other, digest)]
        self.machine.run(["cp", *path], check=True)


@pytest.fixture(scope="module")
def registry(machine):
    registry = Registry(machine)
    registry.start()
    yield registry
    registry.stop()


