"""A small internet for the test machine: web servers, a DNS server and a certification authority in a network namespace.

Modules import the fixtures `internet` and `lab`, and alice may then have the network without being asked. The public addresses
are those that IANA calls globally reachable though nobody answers on them (AMT, RFC 7450, and the former 6bone), so that the
product takes them for the internet, and a packet that got out would reach nobody. Nothing here may touch the host.
"""

import contextlib
import functools
import ipaddress
import json
import pathlib
import textwrap

import docker_engine
import pytest
from approvals import YES, rules

DIRECTORY = "/run/sbxctl-lab"
SERVERS = ("lab_dns.py", "lab_server.py")

GATEWAY, DNS, WEB, RAW, FORBIDDEN, CLOSED = (f"192.52.193.{n}" for n in (1, 53, 10, 20, 66, 77))
WEB6 = "3ffe:c0de::10"
GATEWAY6 = "3ffe:c0de::1"
# Where nobody may come by default; somebody listens on each of them, in the lab.
PRIVATE, METADATA, UNIQUE = "10.99.0.5", "169.254.169.254", "fd99::5"
RAW_PORT, DENIED_PORT = 81, 8080

HOSTS = {
    **dict.fromkeys(["good.example", "files.example", "pypi.example", "npm.example", "git.example"], [["A", WEB]]),
    "six.example": [["AAAA", WEB6]],
    "raw.example": [["A", RAW]],
    "bad.example": [["A", FORBIDDEN]],
    "below.bad.example": [["A", FORBIDDEN]],
    "closed.example": [["A", CLOSED]],
    "chain.example": [["CNAME", "link.example"]],
    "link.example": [["CNAME", "good.example"]],
    # A public name for what is not public.
    "private.example": [["A", PRIVATE]],
    "metadata.example": [["A", METADATA]],
    "loopback.example": [["A", "127.0.0.1"]],
    "loopback6.example": [["AAAA", "::1"]],
    "zero.example": [["A", "0.0.0.0"]],
    "mapped.example": [["AAAA", "::ffff:127.0.0.1"]],
    "compatible.example": [["AAAA", "::127.0.0.1"]],
    "nat64.example": [["AAAA", "64:ff9b::7f00:1"]],
    "sixtofour.example": [["AAAA", "2002:7f00:1::1"]],
    "unique.example": [["AAAA", UNIQUE]],
    "gateway.example": [["A", GATEWAY]],
    "gateway6.example": [["AAAA", GATEWAY6]],
    "multicast.example": [["A", "224.0.0.1"]],
    "broadcast.example": [["A", "255.255.255.255"]],
    "tail.example": [["CNAME", "private.example"]],
    "both.example": [["A", PRIVATE], ["A", WEB]],
    "silent.example": "silent",
    "late.example": [["DELAY", 1.0], ["A", WEB]],
    "empty.example": [],
}
# One answer the first time, another one later.
TURNS = {
    "rebind.example": [[["A", WEB]], [["A", PRIVATE]]],
    "rebind-loopback.example": [[["A", WEB]], [["A", "127.0.0.1"]]],
}

CONFIG = f"""
[Network]
DeniedNames=bad.example *.bad.example
AllowedPorts=80 443 {RAW_PORT}
"""

SET_UP = """
set -eu
for scope in all default lo; do
    cp /proc/sys/net/ipv6/conf/$scope/disable_ipv6 /run/sbxctl-lab-ipv6-$scope
    echo 0 >/proc/sys/net/ipv6/conf/$scope/disable_ipv6
done
ip netns add lab
ip link add lab0 type veth peer name lab1 netns lab
ip address add {GATEWAY}/24 dev lab0
ip address add {GATEWAY6}/64 dev lab0 nodad
ip link set lab0 up
in_lab() {{ ip netns exec lab "$@"; }}
in_lab ip link set lo up
for address in {v4}; do in_lab ip address add $address/32 dev lab1; done
for address in {v6}; do in_lab ip address add $address/128 dev lab1 nodad; done
in_lab ip link set lab1 up
in_lab ip route add {GATEWAY}/32 dev lab1
in_lab ip route add default via {GATEWAY} src {WEB}
in_lab ip -6 route add {GATEWAY6}/128 dev lab1
in_lab ip -6 route add default via {GATEWAY6}
ip route add {PRIVATE}/32 dev lab0
ip route add {METADATA}/32 dev lab0
ip -6 route add {UNIQUE}/128 dev lab0
"""
TEAR_DOWN = """
ip link delete lab0
ip netns delete lab
for scope in all default lo; do
    cp --no-preserve=all /run/sbxctl-lab-ipv6-$scope /proc/sys/net/ipv6/conf/$scope/disable_ipv6
    rm /run/sbxctl-lab-ipv6-$scope
done
rm -rf {DIRECTORY} /usr/local/share/ca-certificates/sbxctl-lab.crt
update-ca-certificates --fresh
"""
AUTHORITY = """
set -eu
cd {DIRECTORY}
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=sbxctl test authority" \\
    -addext keyUsage=critical,keyCertSign -addext basicConstraints=critical,CA:TRUE -keyout ca-key.pem -out ca.pem
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=lab" -keyout key.pem -out request.pem
printf 'subjectAltName=%s\\nextendedKeyUsage=serverAuth\\n' "{names}" >extensions
openssl x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 2 -extfile extensions -out certificate.pem
cp ca.pem /usr/local/share/ca-certificates/sbxctl-lab.crt
update-ca-certificates
"""
# A package for pip, one for npm, and a git repository, all of them called demo and as static files.
CONTENT = """
import base64, hashlib, io, json, pathlib, subprocess, sys, tarfile, zipfile
www = pathlib.Path(sys.argv[1])

wheel = io.BytesIO()
info = "demo-1.0.dist-info"
files = {
    "demo.py": "answer = 4\\n",
    f"{info}/METADATA": "Metadata-Version: 2.1\\nName: demo\\nVersion: 1.0\\n",
    f"{info}/WHEEL": "Wheel-Version: 1.0\\nGenerator: lab\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
}
files[f"{info}/RECORD"] = "".join(f"{name},,\\n" for name in [*files, f"{info}/RECORD"])
with zipfile.ZipFile(wheel, "w") as archive:
    for name, text in files.items():
        archive.writestr(name, text)
simple = www / "simple" / "demo"
simple.mkdir(parents=True)
(simple / "demo-1.0-py3-none-any.whl").write_bytes(wheel.getvalue())
(simple / "index.html").write_text('<a href="demo-1.0-py3-none-any.whl">demo-1.0-py3-none-any.whl</a>')

package = io.BytesIO()
with tarfile.open(fileobj=package, mode="w:gz") as archive:
    for name, text in {"package.json": '{"name": "demo", "version": "1.0.0"}', "index.js": "module.exports = 4;"}.items():
        member = tarfile.TarInfo(f"package/{name}")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text.encode()))
digest = base64.b64encode(hashlib.sha512(package.getvalue()).digest()).decode()
for scheme in ("http", "https"):
    registry = www / f"npm-{scheme}"
    registry.mkdir()
    (registry / "demo.tgz").write_bytes(package.getvalue())
    dist = {"tarball": f"{scheme}://npm.example/npm-{scheme}/demo.tgz", "integrity": "sha512-" + digest}
    version = {"name": "demo", "version": "1.0.0", "dist": dist}
    document = {"name": "demo", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
    (registry / "demo").write_text(json.dumps(document))

def git(*arguments, cwd=www):
    name = ["-c", "user.name=lab", "-c", "user.email=lab@example", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *name, *arguments], cwd=cwd, check=True)

git("init", "--quiet", "work")
(www / "work" / "answer").write_text("4\\n")
git("add", "answer", cwd=www / "work")
git("commit", "--quiet", "--message", "The answer", cwd=www / "work")
git("clone", "--quiet", "--bare", "work", "demo.git")
git("update-server-info", cwd=www / "demo.git")
"""

# Speaks to the proxy itself, so that no library looks at a name first. For scripts; answers are (status, text).
PROXY = '''
import ipaddress, json, os, socket, struct, urllib.parse
_url = urllib.parse.urlsplit(os.environ["http_proxy"])
PROXY = (_url.hostname, _url.port)

def dial(timeout=30):
    return socket.create_connection(PROXY, timeout)

def read_all(s):
    data = b""
    try:
        while piece := s.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    return data

def raw(request, timeout=30):
    """What comes back for these bytes, until end of file."""
    with dial(timeout) as s:
        try:
            s.sendall(request)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return read_all(s)

def parsed(reply):
    head, _, body = reply.partition(b"\\r\\n\\r\\n")
    words = head.split(b" ", 2)
    return (int(words[1]) if len(words) > 1 and words[1].isdigit() else 0), reply.decode("latin-1")

def http(host, port=80, path="/hello"):
    where = f"[{host}]" if ":" in host else host
    where += "" if port == 80 else f":{port}"
    return parsed(raw(f"GET http://{where}{path} HTTP/1.1\\r\\nHost: {where}\\r\\n\\r\\n".encode()))

def connect(host, port=443):
    """The tunnel is closed at once."""
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    with dial() as s:
        s.sendall(f"CONNECT {where} HTTP/1.1\\r\\nHost: {where}\\r\\n\\r\\n".encode())
        s.shutdown(socket.SHUT_WR)
        return parsed(read_all(s))

def tunnel(host, port):
    """An open one."""
    s = dial()
    s.sendall(f"CONNECT {host}:{port} HTTP/1.1\\r\\nHost: {host}:{port}\\r\\n\\r\\n".encode())
    head = b""
    while b"\\r\\n\\r\\n" not in head:
        piece = s.recv(1)
        assert piece, head
        head += piece
    assert b" 200 " in head.split(b"\\r\\n")[0] + b" ", head
    return s

def socks(host, port=80, kind=3):
    """By a name; or with kind 1 or 4 by an address."""
    address = bytes([len(host)]) + host.encode() if kind == 3 else ipaddress.ip_address(host).packed
    with dial() as s:
        s.sendall(b"\\5\\1\\0")
        assert s.recv(2) == b"\\5\\0"
        s.sendall(b"\\5\\1\\0" + bytes([kind]) + address + struct.pack(">H", port))
        s.shutdown(socket.SHUT_WR)
        reply = read_all(s)
        return (reply[1] if len(reply) > 1 else -1), reply.hex()
'''


def zone(machine):
    names = {name: [answer] for name, answer in HOSTS.items()} | TURNS
    names["bridge.example"] = [[["A", bridge_address(machine)]]]
    names["own.example"] = [[["A", own_address(machine)]]]
    return names


def own_address(machine):
    """One that the machine has beside the lab."""
    listed = json.loads(machine.run(["ip", "-4", "-json", "address"], check=True).text)
    found = [a["local"] for link in listed if link["ifname"] not in ("lo", "lab0", "docker0") for a in link["addr_info"]]
    assert found, listed
    return found[0]


def bridge_address(machine):
    """Docker's bridge has it as soon as dockerd runs."""
    machine.run(["docker", "version"], check=True)
    listed = json.loads(machine.run(["ip", "-4", "-json", "address", "show", "docker0"], check=True).text)
    return listed[0]["addr_info"][0]["local"]


def kill(running):
    """Ends it, if it has not ended by itself."""
    running.machine.run(["kill", "-KILL", str(running.pid)])
    running.finish()


class Lab:
    def __init__(self, machine):
        self.machine = machine
        self.servers = []
        self.runs = []

    def shell(self, script, **words):
        words = {**globals(), **words}
        self.machine.run(["bash", "-c", script.format_map(words)], check=True, timeout=120)

    def start(self):
        public = [DNS, WEB, RAW, FORBIDDEN, CLOSED]
        self.machine.run(["ip", "link", "delete", "lab0"])  # of a test that was killed
        self.machine.run(["ip", "netns", "delete", "lab"])
        self.shell(SET_UP, v4=" ".join([*public, PRIVATE, METADATA]), v6=" ".join([WEB6, UNIQUE]))
        self.machine.run(["rm", "-rf", DIRECTORY])
        self.machine.run(["mkdir", "-p", f"{DIRECTORY}/www"], check=True)
        self.shell(AUTHORITY, names=",".join(f"DNS:{name}" for name in [*HOSTS, *TURNS]))
        self.machine.run(["python3", "-c", CONTENT, f"{DIRECTORY}/www"], check=True)
        for name in SERVERS:
            self.machine.write(f"{DIRECTORY}/{name}", pathlib.Path(__file__).with_name(name).read_bytes())
        self.machine.write(f"{DIRECTORY}/zone", json.dumps(zone(self.machine)).encode())
        self.serve("lab_dns.py", DNS, f"{DIRECTORY}/zone", f"{DIRECTORY}/asked", inside=True)
        self.serve("lab_server.py", DIRECTORY, WEB, WEB6, RAW, FORBIDDEN, PRIVATE, METADATA, UNIQUE, inside=True)
        self.serve("lab_server.py", DIRECTORY, "::")

    def serve(self, name, *arguments, inside=False):
        where = ["ip", "netns", "exec", "lab"] if inside else []
        # Named after what it is, as ps shows it.
        server = self.machine.popen([*where, "python3", f"{DIRECTORY}/{name}", *arguments])
        self.servers.append(server)
        assert server.popen.stdout.readline() == b"up\n", server.popen.stderr.read()

    def stop(self):
        for server in self.servers:
            server.finish()
        self.machine.run(["bash", "-c", TEAR_DOWN.format(DIRECTORY=DIRECTORY)], timeout=120)

    @contextlib.contextmanager
    def resolver(self):
        """The machine asks the lab's DNS server. The file is a mount of the container: it cannot be replaced."""
        kept = self.machine.read("/etc/resolv.conf")
        self.machine.write("/etc/resolv.conf", f"nameserver {DNS}\noptions timeout:2 attempts:1\n".encode())
        try:
            yield
        finally:
            self.machine.write("/etc/resolv.conf", kept)

    def forget(self):
        """Empties the logs; what the DNS server has answered already it does not take back."""
        self.machine.run(["truncate", "--size=0", f"{DIRECTORY}/seen", f"{DIRECTORY}/asked"], check=True)

    def seen(self, **wanted):
        """Entries of the servers' log with these values, oldest first."""
        lines = self.machine.read(f"{DIRECTORY}/seen").decode().splitlines()
        entries = [json.loads(line) for line in lines]
        return [e for e in entries if all(e.get(key) == value for key, value in wanted.items())]

    def trespassers(self):
        """Connections to where nobody may come."""
        return [e for e in self.seen() if e["at"] not in (WEB, WEB6, RAW)]

    def asked(self):
        """The DNS server's questions, as "TYPE NAME"."""
        return self.machine.read(f"{DIRECTORY}/asked").decode().splitlines()

    # ---- runs

    def run(self, script, *options, user="alice", timeout=120, network="--network"):
        """The result object of a run with network; PROXY comes before its script."""
        words = [network, *options] if network else list(options)
        path = self.machine.script(PROXY + textwrap.dedent(script), user=user)
        return self.machine.run_json([*words, path], user, timeout=timeout)

    def answers(self, script, *options, **keywords):
        """What the script printed as JSON; it has to succeed."""
        result = self.run(script, *options, **keywords)
        assert result["status"] == "succeeded", result
        return json.loads(result["stdout"]["text"]), result

    def start_run(self, script, *options, user="alice", network="--network"):
        """One that goes on; its streams are those of `sbxctl run`."""
        path = self.machine.script(PROXY + textwrap.dedent(script), user=user)
        running = self.machine.popen(["sbxctl", "run", network, *options, path], user=user)
        self.runs.append(running)
        return running

    def end_runs(self):
        for running in self.runs:
            if running.popen.poll() is None:
                kill(running)
        self.runs.clear()

    def proxies(self):
        """Process ids of those that serve a run."""
        main = self.machine.main_pid("sbxctl-egress.service")
        return [int(pid) for pid in self.machine.run(["pgrep", "-P", str(main)]).text.split()] if main else []

    def open_connections(self):
        """How many the servers have, from whomever."""
        listed = self.machine.run(["ip", "netns", "exec", "lab", "ss", "-Htn", "state", "established"], check=True)
        return len(listed.text.splitlines())

    def connections(self, run_id):
        """The audit records of that run's connections."""
        entries = self.machine.journal(f"SBXCTL_RUN_ID={run_id}", "_SYSTEMD_UNIT=sbxctl-helper.service")
        return [e for e in entries if "SBXCTL_VERDICT" in e]


@contextlib.contextmanager
def docker_image_with_authority(machine):
    """The tests' image, with the lab's authority among those it believes."""
    if machine.engine != "docker":
        yield
        return
    image = "sbxctl-test/network:trixie"
    script = """
        container=$(docker create "$1" true)
        docker cp --quiet /etc/ssl/certs/ca-certificates.crt "$container":/etc/ssl/certs/ca-certificates.crt
        docker commit "$container" "$2"
        docker rm "$container"
    """
    machine.run(["bash", "-euc", script, "image", docker_engine.PYTHON_IMAGE, image], timeout=300, check=True)
    languages = ("default", "python", "node", "perl", "ruby")
    docker_engine.use_images(machine, **dict.fromkeys(languages, image))
    try:
        yield
    finally:
        docker_engine.use_images(machine, **dict.fromkeys(languages, docker_engine.PYTHON_IMAGE))
        machine.run(["docker", "rmi", image])


@pytest.fixture(scope="module")
def internet(machine):
    """The lab, for a whole module."""
    lab = Lab(machine)
    with contextlib.ExitStack() as stack:
        stack.callback(lab.stop)
        lab.start()
        stack.enter_context(lab.resolver())
        stack.enter_context(docker_image_with_authority(machine))
        stack.enter_context(machine.configured(CONFIG, "90-lab"))
        stack.enter_context(rules(machine, run_network=YES))
        yield lab


@pytest.fixture
def lab(internet):
    """The lab, for one test: the runs that it began end with it, however it ends."""
    yield internet
    internet.end_runs()
