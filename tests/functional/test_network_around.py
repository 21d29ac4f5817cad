"""With a granted network, too, there is one way out of a sandbox and no other. Over either engine."""

from network_lab import DNS, RAW, WEB, WEB6, internet, lab, own_address

STRAIGHT = """
import errno
def attempt(family, kind, where, data=b""):
    with socket.socket(family, kind) as s:
        s.settimeout(10)
        try:
            s.connect(where)
            s.sendall(data)
            return "reached " + repr(s.recv(100)) if data else "connected"
        except OSError as error:
            return errno.errorcode.get(error.errno, str(error))
"""


def test_no_route_leads_out(lab):
    lab.forget()
    targets = [WEB, RAW, DNS, "192.52.193.1", own_address(lab.machine), "172.17.0.1", "169.254.169.254", "10.99.0.5"]
    found, result = lab.answers(STRAIGHT + f"""
answers = [attempt(socket.AF_INET, socket.SOCK_STREAM, (host, port)) for host in {targets!r} for port in (53, 80)]
answers += [attempt(socket.AF_INET6, socket.SOCK_STREAM, ({WEB6!r}, 80))]
answers += [attempt(socket.AF_INET, socket.SOCK_DGRAM, ({DNS!r}, 53), bytes(12))]
answers += [attempt(socket.AF_INET, socket.SOCK_STREAM, ("255.255.255.255", 80))]
print(json.dumps([answers, [line.split(":")[0].strip() for line in open("/proc/net/dev").readlines()[2:]],
                  open("/proc/net/route").read().splitlines()[1:]]))
""")
    answers, links, routes = found
    assert set(answers) <= {"ENETUNREACH", "EHOSTUNREACH", "EADDRNOTAVAIL", "EACCES"}, answers
    # The kernel's tunnel templates carry nothing.
    assert "lo" in links and not [link for link in links if link.startswith(("eth", "veth", "lab", "docker", "wl"))], links
    assert routes == [] and lab.seen() == [] and lab.asked() == []
    assert result["networkUse"]["connections"] == 0


def test_no_name_can_be_asked_for_beside_the_proxy(lab):
    lab.forget()
    found, _ = lab.answers("""
answers = []
for name in ("good.example", "private.example", "nobody.example"):
    try:
        answers.append(socket.getaddrinfo(name, 80))
    except socket.gaierror as error:
        answers.append("none")
print(json.dumps(answers))
""")
    assert found == ["none"] * 3 and lab.asked() == []


def test_nothing_on_the_hosts_loopback_is_within_reach(lab):
    """What listens there on all addresses is the lab's server."""
    reached = lab.machine.run(["curl", "-sS", "http://127.0.0.1/hello"], check=True)
    assert reached.text == "hello from 127.0.0.1\n"
    found, _ = lab.answers(STRAIGHT + """
print(json.dumps([attempt(socket.AF_INET, socket.SOCK_STREAM, (host, 80)) for host in ("127.0.0.1", "127.0.0.2", "0.0.0.0")]
                 + [attempt(socket.AF_INET6, socket.SOCK_STREAM, (host, 80)) for host in ("::1", "::", "::ffff:127.0.0.1")]))
""")
    assert set(found) <= {"ECONNREFUSED", "EADDRNOTAVAIL", "ENETUNREACH"}, found


def test_no_raw_or_packet_socket_can_be_had(lab):
    found, _ = lab.answers("""
kinds = [(socket.AF_PACKET, socket.SOCK_RAW, 3), (socket.AF_PACKET, socket.SOCK_DGRAM, 3), (socket.AF_INET, socket.SOCK_RAW, 6),
         (socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_INET6, socket.SOCK_RAW, 58), (socket.AF_VSOCK, socket.SOCK_STREAM, 0),
         (socket.AF_BLUETOOTH, socket.SOCK_RAW, 1), (44, socket.SOCK_RAW, 0), (socket.AF_ALG, socket.SOCK_SEQPACKET, 0)]
had = []
for kind in kinds:
    try:
        socket.socket(*kind).close()
        had.append(list(map(int, kind)))
    except OSError:
        pass
print(json.dumps(had))
""")
    assert found == []


def test_no_unix_socket_of_the_host_is_within_reach(lab):
    paths = ["/run/sbxctl/egress", "/run/sbxctl/io.sbxctl.Sandbox", "/run/sbxctl/engine/systemd", "/run/docker.sock",
             "/run/dbus/system_bus_socket", "/run/systemd/private", "/run/systemd/resolve/io.systemd.Resolve",
             "/run/systemd/journal/socket", "/run/systemd/notify", "/.sbxctl-control"]
    # An abstract one, in the host's network namespace.
    listener = lab.machine.popen(["python3", "-c", "import socket; s = socket.socket(socket.AF_UNIX); s.bind('\\0sbxctl-lab'); "
                                  "s.listen(); print('up', flush=True); s.accept(); print('reached', flush=True)"])
    assert listener.popen.stdout.readline() == b"up\n"
    try:
        found, _ = lab.answers(STRAIGHT + f"""
paths = {paths!r} + ["\\0sbxctl-lab"]
kinds = (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET)
print(json.dumps([[attempt(socket.AF_UNIX, kind, path) for path in paths for kind in kinds],
                  [line.split()[7] for line in open("/proc/net/unix").readlines()[1:] if len(line.split()) > 7]]))
""")
    finally:
        listener.signal("KILL")
        told = listener.finish()
    answers, names = found
    assert not [a for a in answers if a == "connected" or a.startswith("reached")] and told.text == ""
    assert not [name for name in names if name.startswith("@")], names


def test_the_port_of_the_proxy_cannot_be_taken_over(lab):
    """Not by another socket on it, in any of the ways to say so, while the proxy's own goes on to serve."""
    found, _ = lab.answers("""
import errno
answers = []
for address in ("127.0.0.1", "0.0.0.0", "::ffff:127.0.0.1"):
    for options in ((), (socket.SO_REUSEADDR,), (socket.SO_REUSEPORT,), (socket.SO_REUSEADDR, socket.SO_REUSEPORT)):
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as s:
            for option in options:
                s.setsockopt(socket.SOL_SOCKET, option, 1)
            try:
                s.bind((address, PROXY[1]))
                s.listen()
                answers.append("taken")
            except OSError as error:
                answers.append(errno.errorcode[error.errno])
print(json.dumps([answers, http("good.example")[0]]))
""")
    assert found == [["EADDRINUSE"] * 12, 200]


def test_the_listening_socket_is_in_no_process_that_a_script_can_see(lab):
    found, _ = lab.answers("""
import glob
listening = [line.split() for line in open("/proc/net/tcp").readlines()[1:]]
inodes = [words[9] for words in listening if words[1].endswith(":%04X" % PROXY[1]) and words[3] == "0A"]
held = []
for path in glob.glob("/proc/[0-9]*/fd/*") + glob.glob("/proc/self/task/*/fd/*"):
    try:
        held += [path] if os.readlink(path) in [f"socket:[{inode}]" for inode in inodes] else []
    except OSError:
        pass
own = []
for number in range(1024):
    try:
        s = socket.socket(fileno=os.dup(number))
        own += [number] if s.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) else []
        s.close()
    except OSError:
        pass
print(json.dumps([len(inodes), held, own]))
""")
    assert found == [1, [], []]


def test_every_host_goes_the_same_way_whatever_the_script_does_to_its_variables(lab):
    """Deleting them leaves no way at all."""
    found, _ = lab.answers("""
import subprocess
bare = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
print(json.dumps([subprocess.run(["curl", "-sS", "--max-time", "10", url], env=bare, capture_output=True).returncode
                  for url in ("http://good.example/hello", "http://192.52.193.10/hello", "http://[3ffe:c0de::10]/hello")]))
""")
    assert found == [6, 7, 7]


def test_the_proxy_process_has_next_to_nothing_itself(lab):
    """What a flaw in it would give to a script."""
    running = lab.start_run("print(1, flush=True); input()")
    assert running.popen.stdout.readline() == b"1\n", running.finish()
    try:
        [pid] = lab.proxies()
        fields = dict(line.split(":", 1) for line in lab.machine.read(f"/proc/{pid}/status").decode().splitlines())
        uids = set(fields["Uid"].split())
        [uid] = uids
        assert 61184 <= int(uid) <= 65519  # systemd's dynamic range
        assert {int(fields[f"Cap{name}"], 16) for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {0}
        assert fields["NoNewPrivs"].strip() == "1" and fields["Seccomp"].strip() == "2"
        inside = ["nsenter", f"--target={pid}", "--mount", "--root", "setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
        paths = ["home/alice/.profile", "root/.profile", "var/lib/sbxctl/users", "var/log/journal", "run/dbus/system_bus_socket",
                 "run/docker.sock", "run/sbxctl/io.sbxctl.Sandbox", "run/sbxctl/engine/systemd", "etc/shadow", "etc/sbxctl"]
        missing = [path for path in paths if lab.machine.run(["test", "-e", f"/{path}"]).status != 0]
        assert missing == []
        assert lab.machine.run([*inside, "test", "-r", "/etc/resolv.conf"]).status == 0
        assert [path for path in paths if lab.machine.run([*inside, "test", "-r", f"/{path}"]).status == 0] == []
        environment = lab.machine.read(f"/proc/{pid}/environ")
        assert b"alice" not in environment
    finally:
        assert running.finish(input=b"\n").status == 0
