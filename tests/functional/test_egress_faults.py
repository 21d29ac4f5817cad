"""An egress process that breaks its protocol, hangs or dies (egress_double.py), and an engine whose
launcher does: what the user is told, and that a run has no other way to the network for it."""

import contextlib
import json
import textwrap
import time

import pytest

from approvals import YES, rules
from doubles import Doubles

SILENCE = 2  # seconds that anything may be silent while a run starts
BOUND = 10  # generous: what is due at once must be there by then
UNITS = ["sbxctl-egress.socket", "sbxctl-egress.service"]
CONNECTION = "MESSAGE_ID=67c9d505b1a94fceadbf7f3d0a4e02e1"

# Says "hello" to the place where the way out is, and tells the answer.
PROGRAM = """
import socket
try:
    way = socket.create_connection(("127.0.0.1", 3128), timeout=10)
    way.sendall(b"hello")
    print(way.recv(100).decode(), flush=True)
except OSError as e:
    print(e.strerror, flush=True)
"""


class Double(Doubles):
    @contextlib.contextmanager
    def playing(self, module, scenario, **options):
        words = "".join(f", {key}={value}" for key, value in options.items())
        process = self.start(module, "engine" if module == "engine_double" else "egress", scenario, f"scenario{words}")
        yield
        played = process.finish()
        assert played.text == "played\n", played

    def play(self, scenario, args=("--network",), script=PROGRAM, engine=None, **options):
        """The scenarios must come to their end, and everything must be as before."""
        with contextlib.ExitStack() as doubles:
            doubles.enter_context(self.playing("egress_double", scenario, **options))
            if engine:
                doubles.enter_context(self.playing("engine_double", engine))
                args = ("--engine", "double", *args)
            began = time.monotonic()
            result = self.machine.sbxctl(["run", *args, "-c", script])
            result.took = time.monotonic() - began
        result.record = self.last_run()
        self.all_is_well()
        return result


@pytest.fixture(scope="module")
def double(machine):
    config = f"[Helper]\nStartTimeout={SILENCE}s\nIdleExit=600s\n"
    machine.run(["systemctl", "stop", *UNITS])
    try:
        with machine.configured(config), rules(machine, run_network=YES):
            assert machine.sbxctl(["run", "-c", "print(4)"]).text == "4\n"
            yield Double(machine)
    finally:
        machine.run(["systemctl", "start", UNITS[0]])


def records(machine, run):
    return machine.journal(f"SBXCTL_RUN_ID={run['id']}", "_SYSTEMD_UNIT=sbxctl-helper.service", CONNECTION)


def shown(machine, run):
    """The whole result, and what `sbxctl show` says."""
    full = json.loads(machine.sbxctl(["show", "--json", run["id"]]).stdout)
    return full, machine.sbxctl(["show", run["id"]]).text


def refused(result, *words, within=BOUND):
    """Nothing ran: said at once, and what to do."""
    assert result.status == 125 and result.text == "", vars(result)
    for word in words:
        assert word in result.errors, result.errors
    assert result.record["status"] == "rejected" and "startedUSec" not in result.record
    assert "networkUse" not in result.record
    assert result.took < within, result.took


# ---- the double itself


def test_a_good_egress_process_is_believed(machine, double):
    result = double.play(
        """
        egress.ready()
        assert egress.start["granted"] == ["a.example", "*.b.example"], egress.start
        assert egress.start["allowedNames"] == ["*"] and egress.start["ports"] == [80, 443], egress.start
        assert egress.serve() == "hello"
        egress.connection(sent=5, received=4)
        egress.connection("bad.b.example", 80, "refused", "DeniedNames=bad.b.example")
        egress.finish([host("a.example", sent=5, received=4)],
                      [host("bad.b.example", 80, rule="DeniedNames=bad.b.example")],
                      connections=3, refused=1, failed=1, unrecorded=1, bytesSent=5, bytesReceived=4)
        """,
        ["--network=a.example", "--network=*.B.example."],
        PROGRAM + "raise SystemExit(3)",
    )
    assert (result.status, result.text) == (3, "well\n")
    assert "bad.b.example:80 was refused by DeniedNames=bad.b.example" in result.errors
    full, text = shown(machine, result.record)
    use = full["networkUse"]
    assert (use["connections"], use["refused"], use["failed"], use["complete"]) == (3, 1, 1, True)
    assert use["hosts"][0]["name"] == "a.example" and use["hosts"][0]["bytesReceived"] == 4
    assert use["refusedHosts"][0]["rule"] == "DeniedNames=bad.b.example"
    assert full["policy"]["networkNames"] == ["a.example", "*.b.example"]
    assert "a.example:443, 5 B sent, 4 B received" in text
    assert "bad.b.example:80: DeniedNames=bad.b.example" in text

    allowed, denied, more = records(machine, result.record)
    assert (allowed["SBXCTL_HOST"], allowed["SBXCTL_PORT"], allowed["SBXCTL_VERDICT"]) == ("a.example", "443", "allowed")
    assert (allowed["SBXCTL_ADDRESS"], allowed["SBXCTL_PROTOCOL"]) == ("192.0.2.1", "connect")
    assert (allowed["SBXCTL_BYTES_SENT"], allowed["SBXCTL_BYTES_RECEIVED"]) == ("5", "4")
    assert (allowed["SBXCTL_UID"], allowed["SBXCTL_USER"], allowed["SBXCTL_DURATION_USEC"]) == ("1000", "alice", "3")
    assert (denied["SBXCTL_VERDICT"], denied["SBXCTL_RULE"]) == ("refused", "DeniedNames=bad.b.example")
    assert (more["SBXCTL_VERDICT"], more["SBXCTL_CONNECTIONS"]) == ("unrecorded", "1")
    for entry in machine.journal(f"SBXCTL_RUN_ID={result.record['id']}", "SBXCTL_NETWORK=internet"):
        assert entry["SBXCTL_HOSTS"] == "a.example *.b.example"


def test_a_run_without_a_network_asks_for_none(machine, double):
    with double.playing(
        "egress_double",
        """
        assert egress.hear() == {"mark": 1}
        """,
    ):
        assert machine.sbxctl(["run", "-c", PROGRAM]).text == "Connection refused\n"
        mark = "import socket\ns = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        mark += "s.connect('/run/sbxctl/egress')\ns.send(b'{\"mark\": 1}')"
        machine.run(machine.python(mark), check=True)


# ---- before the program


BEFORE = {
    "is not there": ("pass", "went away"),
    "dies with the socket in its hand": ("egress.take_start()", "went away"),
    "gives up": (
        "egress.take_start()\negress.say('error', message='No name server can be reached.')\negress.hung_up()",
        "No name server can be reached.",
    ),
    "is ready for nothing": ("egress.say('ready')\negress.hung_up()", "not understood"),
    "ends before it began": ("egress.take_start()\negress.finished()\negress.hung_up()", "not understood"),
    "is of another version": ("egress.take_start()\negress.say('ready', version=2)\negress.hung_up()", "not understood"),
    "babbles": ("egress.take_start()\negress.sock.send(b'{' * 60000)\negress.hung_up()", "not understood"),
    "brings a descriptor": ("egress.take_start()\negress.say('ready', fds=[0])\negress.hung_up()", "not understood"),
}


@pytest.mark.parametrize("what", BEFORE)
def test_without_a_way_out_nothing_runs(double, what):
    scenario, word = BEFORE[what]
    refused(double.play(scenario), "The network could not be had", word, "systemctl restart sbxctl-egress.service")


def test_a_silent_egress_process_is_not_waited_for_longer_than_an_engine(double):
    result = double.play("egress.take_start()\negress.hung_up()")
    refused(result, "said nothing for 2 s", "systemctl restart sbxctl-egress.service", within=SILENCE + BOUND)
    assert result.took >= SILENCE


def test_a_slow_one_is_waited_for_and_its_time_is_not_the_programs(double):
    result = double.play(
        """
        import time
        egress.take_start()
        time.sleep(1.5)
        egress.say("ready")
        assert egress.serve() == "hello"
        egress.finish()
        """,
        ["--network", "--timeout", "1"],
    )
    assert (result.status, result.text) == (0, "well\n"), vars(result)
    assert result.took >= 1.5


def test_a_service_of_somebody_else_is_not_believed(double):
    result = double.play("assert egress.hear() is None", uid=1001)
    refused(result, "Permission denied", "sbxctl-egress.socket")


def test_a_service_that_nobody_listens_for_is_told(machine, double):
    code = "import socket\ns = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\ns.bind('/run/sbxctl/egress')"
    machine.run(["python3", "-c", code], check=True)
    machine.run(["chown", "sbxctl:", "/run/sbxctl/egress"], check=True)
    try:
        result = machine.sbxctl(["run", "--network", "-c", "print(4)"])
    finally:
        machine.run(["rm", "/run/sbxctl/egress"], check=True)
    assert result.status == 125 and result.text == ""
    assert "its service is not active" in result.errors
    assert "systemctl enable --now sbxctl-egress.socket" in result.errors
    double.all_is_well()


def test_a_machine_without_the_service_says_so_before_anybody_is_asked(machine, double):
    for options in ([], ["--dry-run"]):
        result = machine.sbxctl(["run", "--network", *options, "-c", "print(4)"], user="bob")
        assert result.status == 125 and result.text == ""
        assert "This machine has no network for sandboxes." in result.errors
        assert "systemctl enable --now sbxctl-egress.socket" in result.errors


LISTENINGS = {
    "an error": ("body=struct.pack('=iI', 98, 0)", "nothing can listen in: Address already in use"),
    "no socket": ("body=struct.pack('=iI', 0, 0)", "lost the sandbox"),
    "a socket and an error": ("body=struct.pack('=iI', 98, 0), fds=[listener.fileno()]", "lost the sandbox"),
    "a negative error": ("body=struct.pack('=iI', -1, 0)", "lost the sandbox"),
    "too little": ("body=b'', fds=[listener.fileno()]", "lost the sandbox"),
    "two sockets": ("body=struct.pack('=iI', 0, 0), fds=[listener.fileno()] * 2", "lost the sandbox"),
    "another port": ("body=struct.pack('=iI', 0, 0), fds=[listener.fileno()]", "lost the sandbox"),
    "a unix socket": ("body=struct.pack('=iI', 0, 0), fds=[engine.sock.fileno()]", "lost the sandbox"),
    "a file": ("body=struct.pack('=iI', 0, 0), fds=[0]", "lost the sandbox"),
}


@pytest.mark.parametrize("what", LISTENINGS)
def test_what_is_not_the_socket_asked_for_is_given_to_nobody(double, what):
    answer, word = LISTENINGS[what]
    result = double.play(
        "assert egress.hear() is None and egress.listener is None",
        engine=f"""
        listener = socket.create_server(("127.0.0.1", 0))
        engine.ready()
        kind, body, fds = engine.launcher.hear()
        assert (kind, body, fds) == (LISTEN, b"", []), kind
        engine.launcher.say(LISTENING, {answer})
        engine.hung_up()
        """,
    )
    refused(result, "The engine 'double'", word)


# ---- while it runs


LOST = "Its way to the network was lost before it ended."
BREAKS = {
    "dies": "pass",
    "ends unasked": "egress.finished()\negress.hung_up()",
    "is ready twice": "egress.say('ready')\negress.hung_up()",
    "gives up": "egress.say('error', message='x')\negress.hung_up()",
    "babbles": "egress.sock.send(b'[]')\negress.hung_up()",
}


@pytest.mark.parametrize("what", BREAKS)
def test_a_run_that_loses_its_way_out_goes_on_without_one(machine, double, what):
    scenario = f"egress.ready()\nassert egress.serve() == 'hello'\negress.connection()\negress.listener.close()\n{BREAKS[what]}"
    script = PROGRAM + "import time\nwhile True:" + textwrap.indent(
        """
try:
    socket.create_connection(("127.0.0.1", 3128)).recv(1)
    time.sleep(0.01)
except ConnectionResetError:
    pass
except ConnectionRefusedError:
    break
""", "    ") + "\nprint('alone')"
    result = double.play(scenario, script=script)
    assert (result.status, result.text) == (0, "well\nalone\n"), vars(result)
    full, text = shown(machine, result.record)
    assert LOST in full["reason"] and LOST in text
    assert full["networkUse"]["complete"] is False and full["networkUse"]["connections"] == 1
    one, lost = records(machine, full)
    assert one["SBXCTL_VERDICT"] == "allowed" and lost["SBXCTL_VERDICT"] == "lost"


def test_records_are_no_more_than_agreed_on(machine, double):
    result = double.play(
        """
        egress.ready()
        client, _ = egress.listener.accept()  # so the program goes, and nobody says that it was not to
        for _ in range(265):
            egress.connection()
        assert client.recv(100)
        client.sendall(b"well")
        client.close()
        egress.hung_up()
        """
    )
    assert result.status == 0
    full, _ = shown(machine, result.record)
    assert LOST in full["reason"] and full["networkUse"]["connections"] == 264
    # All at once, which is more than the test machine's journal has room for: the rest waits for it.
    told = machine.wait_for(lambda: len(told := records(machine, full)) >= 265 and told, 10, "all records")
    assert [entry["SBXCTL_VERDICT"] for entry in told] == ["allowed"] * 264 + ["lost"]


def test_hostile_names_stay_text(machine, double):
    name = "\\x1b[2J\\u202e<b>\\nMESSAGE=forged"
    result = double.play(
        f"""
        egress.ready()
        egress.serve()
        egress.connection("{name}", 1, "refused", "{name}")
        egress.finish([], [host("{name}", rule="{name}")], connections=1, refused=1)
        """,
        script=PROGRAM + "raise SystemExit(1)",
    )
    assert result.status == 1
    full, text = shown(machine, result.record)
    for said in (result.errors, text):
        assert "\x1b" not in said and "\u202e" not in said and "\nMESSAGE" not in said
        assert "\\x1b[2J" in said, said
    (entry,) = records(machine, full)
    assert "\\x1b" in entry["SBXCTL_HOST"] and "forged" not in entry["MESSAGE"]


# ---- at the end


@pytest.mark.parametrize(
    "what", ["assert egress.hear()['type'] == 'finish'\negress.hung_up()", "assert egress.hear()['type'] == 'finish'"],
    ids=["never answers", "dies instead"],
)
def test_a_last_word_that_does_not_come_is_not_waited_for(machine, double, what):
    result = double.play(f"egress.ready()\negress.serve()\negress.connection()\n{what}")
    assert (result.status, result.text) == (0, "well\n")
    assert result.took < BOUND
    full, _ = shown(machine, result.record)
    assert LOST in full["reason"]
    assert full["networkUse"]["complete"] is False and full["networkUse"]["bytesReceived"] == 2
    assert [entry["SBXCTL_VERDICT"] for entry in records(machine, full)] == ["allowed", "lost"]


def test_the_way_out_ends_with_a_run_that_is_killed(machine, double):
    """The broker hangs up on it, also if the client dies."""
    with double.playing("egress_double", "egress.ready()\negress.serve()\negress.hung_up()"):
        client = machine.popen(["sbxctl", "run", "--network", "-c", PROGRAM + "import time\ntime.sleep(600)"], "alice")
        assert client.popen.stdout.readline() == b"well\n"
        client.signal("KILL")
        client.finish()
    double.all_is_well()
