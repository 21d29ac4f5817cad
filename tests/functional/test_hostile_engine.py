"""An engine that breaks its protocol, hangs or dies (engine_double.py): what the user is told, and that
nothing stays. Each test plays a piece of Python as that engine, while alice runs something with it."""

import json
import time

import pytest

from doubles import Doubles

SILENCE = 2  # seconds that an engine may be silent while it starts
GRACE = 2
ENDING = 5  # after the grace period
BOUND = 10  # generous: what is due at once must be there by then


class Played:
    """A run with the double: what the command said, the run's record, and the seconds it took."""

    def __init__(self, result, record, took):
        self.status, self.text, self.errors = result.status, result.text, result.errors
        self.record = record
        self.took = took


class Double(Doubles):
    def start(self, scenario, before=""):
        """With connections that are given `before` it, an expression for a list of functions."""
        return super().start("engine_double", "engine", scenario, f"*[{before}], scenario")

    def play(self, scenario, args=(), script="print(4)", timeout=60, before=""):
        """The scenario must come to its end, and everything must be as before."""
        playing = self.start(scenario, before)
        began = time.monotonic()
        result = self.machine.sbxctl(["run", "--engine", "double", *args, "-c", script], timeout=timeout)
        took = time.monotonic() - began
        played = playing.finish(timeout=timeout)
        assert played.text == "played\n", (played, result)
        record = self.last_run()
        assert record["engine"] == "double"
        self.all_is_well()
        return Played(result, record, took)


@pytest.fixture(scope="module")
def double(machine):
    config = f"[Helper]\nStartTimeout={SILENCE}s\nGrace={GRACE}s\nIdleExit=600s\n"
    with machine.configured(config):
        assert machine.sbxctl(["run", "-c", "print(4)"]).text == "4\n"
        yield Double(machine)


def refused(played, *words, within=BOUND):
    """Nothing ran: said at once, with the engine's name, and what to do."""
    assert played.status == 125 and played.text == "", vars(played)
    assert "'double'" in played.errors and "--engine" in played.errors, played.errors
    for word in words:
        assert word in played.errors, played.errors
    assert "sbxctl-engine-double" in played.errors
    assert played.record["status"] == "rejected", played.record
    assert "exitCode" not in played.record and "startedUSec" not in played.record
    assert played.took < within, played.took


def lost(played, within=BOUND):
    """Something ran, and nobody knows how it ended."""
    assert played.status == 125, vars(played)
    assert "'double'" in played.errors and "not known" in played.errors, played.errors
    assert "sbxctl-engine-double" in played.errors
    assert played.record["status"] == "lost" and "exitCode" not in played.record
    assert played.took < within, played.took


def kept(machine, record):
    """The run.json that the user has."""
    return json.loads(machine.read(f"/var/lib/sbxctl/users/1000/{record['id']}/run.json", user="alice"))


# ---- the double itself


def test_a_good_engine_is_served_whoever_it_is(machine, double):
    played = double.play(
        """
        launcher = engine.go()
        launcher.print("out")
        os.close(os.open("made", os.O_CREAT | os.O_WRONLY, dir_fd=launcher.workspace))
        launcher.hang_up_streams()
        launcher.exited(value=3)
        engine.finish()
        """
    )
    assert (played.status, played.text) == (3, "out")
    assert kept(machine, played.record)["exitCode"] == 3
    assert [file["name"] for file in kept(machine, played.record)["files"]] == ["made"]


WRITES = """
import glob, time
def write(text):
    with open(os.open("out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644, dir_fd=launcher.workspace), "w") as file:
        file.write(text)
launcher = engine.go()
write("early")
launcher.hang_up_streams()

def is_saved_in(seconds):
    deadline = time.monotonic() + seconds
    while not any(os.path.getsize(path) for path in glob.glob("/var/lib/sbxctl/staging/*/files/out")):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
"""


def test_outputs_are_saved_while_the_engine_ends_a_sandbox_in_which_nothing_lives(machine, double):
    played = double.play(
        f"""{WRITES}
launcher.exited(alone=1)
assert is_saved_in(PATIENCE)
write("late!")
engine.finish()
"""
    )
    assert played.record["status"] == "succeeded", played.record
    assert machine.read(f"/var/lib/sbxctl/users/1000/{played.record['id']}/files/out", user="alice") == b"early"


def test_outputs_are_saved_when_all_that_may_live_in_the_sandbox_was_ended(machine, double):
    played = double.play(
        f"""{WRITES}
launcher.exited(alone=0)
assert engine.hear()["type"] == "kill"
assert not is_saved_in(0.5)
write("late!")
engine.ended(oomKills=0, cpuUSec=1000, memoryPeakBytes=1 << 20, leftovers=1, why="killed")
engine.hung_up()
"""
    )
    assert machine.read(f"/var/lib/sbxctl/users/1000/{played.record['id']}/files/out", user="alice") == b"late!"


# The launcher's word that nothing lives any more is as untrusted as the program: what goes on all the same, in the directory
# of the workspace, while its outputs are saved.
GOES_ON = """
import threading
def make(name, data):
    with open(name, "wb") as file:
        file.write(data)
def grow():
    with open("grows", "ab") as file:
        file.write(bytes(1 << 16))
        if file.tell() > 4 << 20:
            file.truncate(0)
def shrink():
    os.truncate("shrinks", 4 << 20)
    os.truncate("shrinks", 0)
def dig():
    for offset in range(0, 1 << 20, 8192):
        libc.fallocate(holes, 3, ctypes.c_long(offset), ctypes.c_long(4096))  # FALLOC_FL_PUNCH_HOLE
    os.pwrite(holes, MINE, 0)
def become_others():
    for make_other in lambda: os.symlink("/etc/shadow", "other"), lambda: os.mkfifo("other"), lambda: os.mkdir("other"):
        make_other()
        os.rename("one", "gone")
        os.rename("other", "one")
        os.rename("one", "other")
        os.rename("gone", "one")
        (os.rmdir if os.path.isdir("other") and not os.path.islink("other") else os.unlink)("other")
def become_link():
    os.rename("folder", "hidden")
    os.symlink("/etc", "folder")
    os.unlink("folder")
    os.rename("hidden", "folder")
def make_more():
    for i in range(2000):
        make(f"many/{os.urandom(8).hex()}", b"mine")
    for name in os.listdir("many"):
        os.unlink(f"many/{name}")
MINE = b"mine" * (1 << 18)
launcher = engine.go()
os.fchdir(launcher.workspace)
for name in "grows", "shrinks", "holes", "one":
    make(name, MINE)
for name in "folder", "many":
    os.mkdir(name)
    for i in range(100):
        make(f"{name}/{i}", b"mine")
holes = os.open("holes", os.O_RDWR)
is_over, turns = False, []
def go_on(what):
    while not is_over:
        what()
    turns.append(what)
threads = [threading.Thread(target=go_on, args=[what]) for what in (grow, shrink, dig, become_others, become_link, make_more)]
for thread in threads:
    thread.start()
launcher.hang_up_streams()
launcher.exited(alone=1)
engine.finish()
while os.listdir("/var/lib/sbxctl/staging"):
    pass
is_over = True
for thread in threads:
    thread.join()
assert len(turns) == len(threads)
"""


def test_what_goes_on_while_outputs_are_saved_gets_no_more_than_others(machine, double):
    began = time.monotonic()
    for _ in range(4):
        record = kept(machine, double.play(GOES_ON).record)
        assert record["status"] == "succeeded", record
        base = f"/var/lib/sbxctl/users/1000/{record['id']}/files/"
        sizes = {}
        for line in machine.run(["find", base, "-printf", "%y %U %m %s %P\\n"], check=True).text.splitlines():
            kind, owner, mode, size, name = line.split(" ")
            assert kind in "fd" and owner == "1000" and mode in ("600", "700"), line
            if kind == "f":
                sizes[name] = int(size)
        assert sizes == {file["name"]: file["bytes"] for file in record["files"]}
        assert machine.run(["grep", "-rq", "root:", base]).status == 1
        assert 1 <= len(sizes) <= 1000 and sum(sizes.values()) <= 256 << 20
    assert time.monotonic() - began < 4 * BOUND * machine.patience


def test_a_sandbox_whose_launcher_was_killed_is_removed_before_outputs_are_saved(machine, double):
    # The engine counts one process and takes it for the launcher.
    played = double.play(
        f"""{WRITES}
launcher.sock.close()
assert engine.hear()["type"] == "kill"
engine.ended(cleaned=False, stands=True, leftovers=0)
assert not is_saved_in(0.5)
write("late!")
engine.say("removed", cleaned=True)
engine.hung_up()
"""
    )
    assert played.record["status"] == "killed", played.record
    assert machine.read(f"/var/lib/sbxctl/users/1000/{played.record['id']}/files/out", user="alice") == b"late!"
    assert removal(machine, played) == ["removed"]


@pytest.mark.parametrize("end", ["pass", "engine.ended()", "engine.say_bytes(b'{')"], ids=["hangs up", "says it again", "nonsense"])
def test_an_engine_that_lost_its_launcher_and_goes_is_on_record(machine, double, end):
    played = double.play(
        f"""
        launcher = engine.go()
        launcher.hang_up_streams()
        launcher.sock.close()
        assert engine.hear()["type"] == "kill"
        engine.ended(cleaned=False, stands=True, leftovers=0)
        {end}
        """
    )
    assert played.record["status"] == "killed" and played.took < ENDING, vars(played)
    assert removal(machine, played) == ["not confirmed"]


def removal(machine, played):
    """What became of the sandbox, once that is on record."""
    wanted = (f"SBXCTL_RUN_ID={played.record['id']}", "SBXCTL_SANDBOX_ID=double-1", "MESSAGE_ID=a6f9153cf261463fbc52efd749aae1c3")
    machine.wait_for(lambda: machine.journal(*wanted), ENDING + BOUND, "the record of the removal")
    return [entry["SBXCTL_RESULT"] for entry in machine.journal(*wanted)]


STANDS = """
launcher = engine.go()
launcher.hang_up_streams()
launcher.exited(alone=1)
assert engine.hear()["type"] == "kill"
engine.ended(cleaned=False, stands=True, leftovers=0)
"""


def test_a_caller_is_answered_before_a_sandbox_in_which_nothing_lives_is_removed(machine, double):
    answered = "/run/sbxctl-test-answered"
    playing = double.start(
        f"""{STANDS}
import time
deadline = time.monotonic() + PATIENCE
while not os.path.exists("{answered}"):
    assert time.monotonic() < deadline
    time.sleep(0.01)
os.unlink("{answered}")
engine.say("removed", cleaned=True)
engine.hung_up()
"""
    )
    result = machine.sbxctl(["run", "--engine", "double", "-c", "print(4)"], timeout=BOUND)
    machine.run(["touch", answered], check=True)
    assert playing.finish(timeout=60).text == "played\n"
    assert result.status == 0, result
    assert removal(machine, Played(result, double.last_run(), 0)) == ["removed"]
    double.all_is_well()


@pytest.mark.parametrize(
    "end",
    ["engine.sock.close()", "engine.say('removed', cleaned=False)", "engine.ended()", "engine.say_bytes(b'{')", "engine.hung_up()"],
    ids=["hangs up", "could not", "says it again", "says nonsense", "is silent"],
)
def test_an_engine_that_does_not_tell_of_the_removal_is_on_record(machine, double, end):
    played = double.play(STANDS + end)
    assert played.status == 0 and played.record["status"] == "succeeded", vars(played)
    assert removal(machine, played) == ["not confirmed"]


def test_the_helper_does_not_exit_on_idle_before_a_sandbox_is_removed(machine, double):
    with machine.configured("[Pool]\nSize=0\n[Helper]\nIdleExit=1s\n", name="91-test"):
        playing = double.start(
            f"""{STANDS}
engine.sock.settimeout(3)
try:
    engine.hear()
except TimeoutError:  # it did not hang up
    engine.say("removed", cleaned=True)
"""
        )
        result = machine.sbxctl(["run", "--engine", "double", "-c", "print(4)"], timeout=BOUND)
        assert playing.finish(timeout=60).text == "played\n"
        assert removal(machine, Played(result, double.last_run(), 0)) == ["removed"]
        helper = machine.main_pid()
        machine.wait_for(lambda: machine.main_pid() != helper, 10, "the helper to exit")
    assert machine.sbxctl(["run", "-c", "print(4)"]).text == "4\n"
    double.descriptors = double.held()


# ---- silence and death


def test_an_engine_that_never_answers_start_is_given_up(double):
    played = double.play("engine.hung_up()")
    refused(played, f"said nothing for {SILENCE} s", within=SILENCE + BOUND)
    assert played.took > SILENCE


def test_an_engine_that_tells_of_its_progress_may_take_longer(double):
    played = double.play(
        """
        import time
        for i in range(6):
            engine.say("progress", phase="pull", current=i, total=6)
            time.sleep(0.5)  # an engine at work
        launcher = engine.go()
        launcher.hang_up_streams()
        launcher.exited()
        engine.finish()
        """
    )
    assert played.status == 0, vars(played)
    assert played.record["usage"]["waitUSec"] > SILENCE * 1_000_000


def test_a_caller_who_hangs_up_ends_the_wait_for_an_engine_at_once(machine, double):
    playing = double.start("print('asked', flush=True); engine.hung_up()")
    running = machine.popen(["sbxctl", "run", "--engine", "double", "-c", "print(4)"], user="alice")
    assert playing.popen.stdout.readline() == b"asked\n"
    began = time.monotonic()
    running.signal("KILL")
    running.finish()
    assert playing.finish().text == "played\n"
    assert time.monotonic() - began < SILENCE * machine.patience
    record = machine.wait_for(
        lambda: (run := double.last_run())["status"] == "cancelled" and run, 5, "the record"
    )
    assert record["engine"] == "double"
    double.all_is_well()


@pytest.mark.parametrize(
    "scenario, words",
    [
        ("pass", "went away while it made the sandbox"),
        ("engine.ready(); engine.launcher.take_put()", "lost the sandbox while its files were placed"),
        ("engine.ready(); engine.launcher.take_put(); engine.sock.close(); engine.launcher.hear()",
         "went away while it made the sandbox"),
        ("engine.ended(); engine.hung_up()", "ended the sandbox before the program"),
        ("engine.ready(); engine.ended(); engine.hung_up()", "ended the sandbox before the program"),
    ],
    ids=["before ready", "with its launcher", "without its launcher", "ended first", "ended while filling"],
)
def test_an_engine_that_dies_before_go_is_named(double, scenario, words):
    played = double.play(scenario)
    if "lost the sandbox" in words:  # engine and launcher hang up in either order
        words = words if words in played.errors else "went away while it made the sandbox"
    refused(played, words)


def test_an_engine_that_was_restarted_is_asked_once_more(double):
    hang_up = "lambda engine: engine.sock.close()"
    played = double.play("launcher = engine.go(); launcher.print('said'); launcher.exited(value=0)", before=hang_up)
    assert (played.status, played.text) == (0, "said")
    refused(double.play("engine.sock.close()", before=hang_up), "went away while it made the sandbox")


def test_an_engine_that_dies_after_go_leaves_a_run_that_is_lost(machine, double):
    played = double.play("launcher = engine.go(); launcher.print('said')")
    lost(played)
    assert played.text == "said" and kept(machine, played.record)["stdout"]["text"] == "said"
    cleanup = machine.journal(f"SBXCTL_RUN_ID={played.record['id']}", "SBXCTL_RESULT=not confirmed")
    assert len(cleanup) == 1


def test_an_engine_that_dies_after_exited_takes_no_result_with_it(machine, double):
    played = double.play("launcher = engine.go(); launcher.print('said'); launcher.exited(value=7)")
    assert (played.status, played.text) == (7, "said")
    record = kept(machine, played.record)
    assert record["status"] == "failed" and record["exitCode"] == 7
    assert "memoryPeakBytes" not in record["usage"]  # nobody counted


def test_an_engine_that_never_says_ended_holds_up_nobody(machine, double):
    played = double.play("engine.go().exited(); engine.hung_up()")
    assert played.status == 0 and ENDING <= played.took < ENDING + BOUND
    played = double.play("engine.go(); engine.hung_up()", ["--timeout", "1s"])
    assert played.status == 124 and played.record["status"] == "timed_out"
    assert GRACE + ENDING < played.took < 1 + GRACE + ENDING + BOUND
    played = double.play("engine.go().sock.close(); engine.hung_up()")
    lost(played, within=ENDING + BOUND)


# ---- nonsense from the engine

HELD = "engine.ready(); engine.launcher.take_put()"


@pytest.mark.parametrize(
    "nonsense",
    [
        "engine.ready(fds=[])",
        "engine.ready(fds=[make_workspace()])",
        "engine.ready(fds=[make_workspace()] * 3)",
        "engine.ready(fds=[make_workspace()] * 4)",
        "engine.ready(fds=[make_workspace()] * 40)",
        "engine.ready(fds=[os.open('/etc/passwd', os.O_RDONLY), one_of(socket.socketpair(type=socket.SOCK_SEQPACKET))])",
        "engine.ready(fds=[make_workspace(), os.pipe()[0]])",
        "engine.ready(fds=[make_workspace(), os.open('/etc/passwd', os.O_RDONLY)])",
        "engine.ready(fds=[make_workspace(), one_of(socket.socketpair())])",
        "engine.ready(fds=[make_workspace(), one_of(socket.create_server(('127.0.0.1', 0)))])",
        "engine.say('ready')",
        "engine.say('start')",
        "engine.say('greeting')",
        "engine.say('ready', version=2, sandboxId='x')",
        "engine.say('ready', sandboxId='x' * 513)",
        "engine.say('ended', why='boredom', cleaned=True)",
        "engine.say('error', phase='start', message='x' * 10240)",
        "engine.say('progress', phase='pull', current=-1)",
        "engine.say('progress', phase='pull', current=1 << 63)",
        "engine.say_bytes(b'{')",
        "engine.say_bytes(b'\\xff\\x00')",
        "engine.say_bytes(b'{\"type\":\"ended\",\"type\":\"error\"}')",
        "engine.say_bytes(b'[' * 60000)",
        "engine.say_bytes(b' ' * 65537)",
        "engine.ready(); first = engine.launcher; engine.ready()",
        f"{HELD}; engine.say('start')",
    ],
)
def test_nonsense_before_go_is_refused_and_says_so(double, nonsense):
    refused(double.play(f"{nonsense}; engine.hung_up()"), "does not understand")


def test_another_version_of_the_protocol_is_called_by_its_name(double):
    played = double.play("engine.say('progress', version=2, phase='pull'); engine.hung_up()")
    refused(played, "another version")


def test_fault_56_an_empty_packet_is_the_end_of_the_engine(double):
    refused(double.play("engine.say_bytes(b''); engine.hung_up()"), "went away")
    refused(double.play("engine.say_bytes(b'', [0, 1, 2]); engine.hung_up()"), "went away")


@pytest.mark.parametrize(
    "directory",
    ["/", "/etc", "/root", "/run", "/run/sbxctl", "/tmp", "/dev/shm", "/proc/self", "/var/lib/sbxctl"],
)
def test_a_directory_of_the_machine_is_no_workspace(double, directory):
    control = "one_of(socket.socketpair(type=socket.SOCK_SEQPACKET))"
    ready = f"engine.ready(fds=[os.open('{directory}', os.O_RDONLY), {control}])"
    refused(double.play(f"{ready}; engine.hung_up()"), "workspace")


@pytest.mark.parametrize(
    "nonsense",
    [
        "engine.ready()",
        "engine.say('greeting')",
        "engine.say_bytes(b'{')",
        "engine.say('ended', why='exit', cleaned=True, memoryPeakBytes=1 << 63)",
    ],
)
def test_nonsense_after_go_ends_the_run_as_lost(double, nonsense):
    lost(double.play(f"engine.go(); {nonsense}; engine.hung_up()"))


def test_engine_that_could_not_start_the_program_is_believed(double):
    played = double.play("engine.go(); engine.say('error', phase='run', message='So it goes.'); engine.hung_up()")
    assert played.status == 126 and played.record["status"] == "failed", vars(played)
    assert "The program was not started: So it goes." in played.errors


def test_the_second_ended_is_not_heard(double):
    played = double.play(
        """
        launcher = engine.go()
        launcher.exited(value=2)
        engine.ended("exit", leftovers=0)
        try:
            engine.ended("oom", oomKills=3)
        except BrokenPipeError:
            pass
        engine.hung_up()
        """
    )
    assert played.status == 2 and played.record["oomKills" if "oomKills" in played.record else "exitCode"] == 2


def test_counters_at_their_limits_are_told_as_they_are(machine, double):
    most = (1 << 63) - 1
    played = double.play(
        f"""
        launcher = engine.go()
        launcher.exited(value=0, cpu=1 << 63, leftovers=0xffffffff, file_bytes=0xffffffffffffffff)
        engine.ended("exit", memoryPeakBytes={most}, cpuUSec={most}, oomKills=0)
        engine.hung_up()
        """
    )
    assert played.status == 0
    assert kept(machine, played.record)["usage"]["memoryPeakBytes"] == most
    shown = machine.sbxctl(["show", played.record["id"]])
    assert shown.status == 0 and shown.errors == ""


def test_an_error_is_shown_without_its_control_characters(machine, double):
    sentence = "No\\x1b]0;owned\\x07 image\\nsbxctl: all went well " + "ü" * 230
    played = double.play(f"engine.say('error', phase='start', message='{sentence}'); engine.hung_up()")
    assert played.status == 125 and played.record["status"] == "rejected"
    assert "image" in played.errors and "\x1b" not in played.errors and "\x07" not in played.errors
    assert not any(line.startswith("sbxctl: all") for line in played.errors.splitlines())
    assert "\x1b" in played.record["reason"] and played.record["reason"].endswith("ü" * 230)
    shown = machine.sbxctl(["show", played.record["id"]])
    assert shown.status == 0 and "\x1b" not in shown.text


def test_a_flood_of_progress_drowns_nobody(machine, double):
    playing = double.start("engine.flood(lambda: engine.say('progress', phase='x' * 60, current=(1 << 63) - 1, total=1))")
    running = machine.popen(["sbxctl", "run", "--engine", "double", "-c", "print(4)"], user="alice")
    machine.wait_for(lambda: [run["status"] for run in double.runs()] == ["starting"], 10, "the flood")
    began = time.monotonic()
    assert machine.sbxctl(["run", "-c", "print(4)"], user="bob").text == "4\n"
    assert time.monotonic() - began < BOUND * machine.patience
    assert running.popen.poll() is None  # a caller who reads is not cut off
    running.signal("INT")
    assert running.finish().status == 130
    assert playing.finish().text == "played\n"
    double.all_is_well()


def test_progress_beyond_its_total_is_shown_as_complete(double):
    scenario = """
    import time
    engine.say("progress", phase="pull", current=(1 << 63) - 1, total=1)
    time.sleep(1.5)  # it is shown after a second
    engine.say("error", phase="pull", message="No.")
    engine.hung_up()
    """
    playing = double.start(scenario)
    shown = double.machine.sbxctl(["run", "--engine", "double", "-c", "print(4)"], tty=True)
    assert playing.finish().text == "played\n"
    assert "100 % of 1 B" in shown.text and "No." in shown.text, shown


# ---- a launcher that lies


@pytest.mark.parametrize(
    "lie",
    [
        "launcher.say(EXITED, b'garbage')",
        "launcher.exited(version=2)",
        "launcher.exited(kind=0)",
        "launcher.exited(kind=4)",
        "launcher.exited(value=256)",
        "launcher.exited(value=-1)",
        "launcher.exited(kind=SIGNAL, value=0)",
        "launcher.exited(kind=SIGNAL, value=4711)",
        "launcher.exited(kind=EXEC, value=0)",
        "launcher.exited(kind=EXEC, value=1 << 30)",
        "launcher.exited(fds=[launcher.workspace])",
        "launcher.put_done()",
        "launcher.say(READY)",
        "launcher.say(99, bytes(1000))",
        "attach(launcher.sock, b'')",
        "launcher.sock.close()",
    ],
)
def test_a_lie_after_go_is_no_exit_status(double, lie):
    played = double.play(
        f"launcher = engine.go(); launcher.print('said'); launcher.hang_up_streams(); {lie}; engine.finish()"
    )
    assert played.status == 137 and played.text == "said", vars(played)
    assert played.record["status"] == "killed" and "exitCode" not in played.record
    assert "from inside" in played.errors and played.took < BOUND


@pytest.mark.parametrize(
    "lie", ["launcher.exited()", "launcher.put_done(error=-1)", "launcher.say(GO)", "launcher.say(PUT_DONE)"]
)
def test_a_lie_while_files_are_placed_is_refused(double, lie):
    played = double.play(f"engine.ready(); launcher = engine.launcher; {lie}; engine.hung_up()")
    refused(played, "lost the sandbox")


def test_put_done_without_a_put_is_no_news_of_the_program(double):
    lie = "engine.launcher.put_done(); engine.launcher.put_done()"
    played = double.play(f"engine.ready(); {lie}; engine.finish()")
    assert played.status == 137 and played.record["status"] == "killed"


def test_the_first_exited_is_the_one_that_counts(double):
    played = double.play(
        "launcher = engine.go(); launcher.exited(value=5); launcher.exited(value=0); engine.finish()"
    )
    assert played.status == 5 and played.record["exitCode"] == 5


def test_a_flood_from_a_launcher_ends_with_its_first_word(double):
    flood = "engine.flood(launcher.{})"
    played = double.play(f"launcher = engine.go(); {flood.format('put_done')}; engine.finish()")
    assert played.record["status"] == "killed" and played.took < BOUND
    played = double.play(f"launcher = engine.go(); {flood.format('exited')}; engine.finish()")
    assert played.status == 0 and played.took < BOUND


def test_exited_of_a_program_that_goes_on_ends_the_run_all_the_same(double):
    played = double.play(
        """
        launcher = engine.go()
        launcher.exited()
        engine.hear()
        engine.ended(leftovers=1)
        engine.hung_up()
        # The streams are still open, as a program that nobody killed would have them.
        """
    )
    assert played.status == 0 and played.took < BOUND
    assert "1 process that it left behind" in played.record["reason"]


def test_a_launcher_that_takes_no_files_is_given_up(double):
    played = double.play("engine.ready(); engine.hung_up()")
    refused(played, f"took no files for {SILENCE} s", within=SILENCE + BOUND)


def test_a_launcher_that_takes_no_go_costs_the_time_limit(double):
    played = double.play(
        "engine.ready(); engine.launcher.put_done(stat=engine.launcher.take_put()); engine.finish()",
        ["--timeout", "1s"],
    )
    assert played.status == 124 and played.record["status"] == "timed_out"
    assert played.took < 1 + GRACE + BOUND


def test_the_error_of_a_put_is_told_with_the_name_of_the_file(double):
    played = double.play("engine.ready(); engine.launcher.take_put(); engine.launcher.put_done(error=28); engine.hung_up()")
    assert played.status == 125 and played.record["status"] == "rejected"
    assert "the workspace is too small" in played.errors
