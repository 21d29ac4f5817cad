"""Runs in the cloud by `sbxctl run --engine e2b`: the way of a whole run, its records, and its ends."""

import contextlib
import json

import pytest
from approvals import HELPER, NO, YES, Script, refused, remove_rules, set_rules
from e2b_engine import KEY, UNIT, configure, stop

ALLOWED = {"run_cloud": YES, "run_network": YES, "run_resources": YES}
HOLDING = "import time; print('begun', flush=True); time.sleep(1000)"


@pytest.fixture(autouse=True, scope="module")
def cloud_is_allowed(machine):
    set_rules(machine, **ALLOWED)
    yield
    remove_rules(machine)


@pytest.fixture(autouse=True)
def helper_may_start_often(machine):
    """Tests that configure it are quicker than systemd takes for sound."""
    machine.run(["systemctl", "reset-failed", "sbxctl-helper.service"])


@contextlib.contextmanager
def rules(machine, **results):
    """Others than those."""
    set_rules(machine, **results)
    try:
        yield
    finally:
        set_rules(machine, **ALLOWED)


def run(machine, *options, code=None, **more):
    code = ["-c", code] if code else []
    return machine.run_json(["--engine", "e2b", *options, *code], **more)


def hold(machine, *options):
    """A run whose program has begun, and goes on until somebody ends it."""
    running = machine.popen(["sbxctl", "run", "--engine", "e2b", "--quiet", *options, "-c", HOLDING], "alice")
    assert running.popen.stdout.readline() == b"begun\n", running.finish()
    return running


def lose(cloud):
    (sandbox,) = cloud.live()
    cloud.call("POST", f"/sandboxes/{sandbox}/vanish")


def newest_child(machine):
    """The engine's process that has the newest sandbox."""
    return machine.run(["pgrep", "-n", "-P", str(machine.main_pid(UNIT))], check=True).text.strip()


def newest(machine):
    """The result of the newest run of alice's that is over."""
    listed = json.loads(machine.sbxctl(["ps", "--all", "--json"]).stdout)
    return json.loads(machine.sbxctl(["show", "--json", listed["runs"][0]["id"]]).stdout)


def wait_for_the_end(machine):
    ended = ("succeeded", "failed", "timed_out", "out_of_memory", "killed", "cancelled", "lost")
    return machine.wait_for(lambda: (result := newest(machine))["status"] in ended and result, 20, "the run's end")


def records(machine, run_id):
    """By the last word of their message: a dictionary of the journal's entries about the run."""
    entries = machine.journal(f"SBXCTL_RUN_ID={run_id}", HELPER)
    return {"cleanup" if entry["SBXCTL_RESULT"] in ("removed", "not confirmed") else "end": entry
            for entry in entries if "SBXCTL_RESULT" in entry and "SBXCTL_FILES" not in entry}


# ---- a normal task


def test_task_is_joined_up_in_the_audit_by_its_sandbox(machine, cloud):
    directory = machine.directory()
    machine.write(f"{directory}/sales.csv", b"a,b\n1,2\n", "alice")
    machine.write(f"{directory}/report.py", b"open('sum.txt', 'w').write(open('sales.csv').read()[-2:]); print('done')", "alice")
    result = run(machine, "--file", f"{directory}/sales.csv", f"{directory}/report.py")
    assert (result["status"], result["stdout"]["text"], result["exitCode"]) == ("succeeded", "done\n", 0)
    (made,) = cloud.call("GET", "/sandboxes")
    assert made["request"]["metadata"]["sbxctl-run"] == result["id"]
    assert made["request"]["allow_internet_access"] is False
    ours = records(machine, result["id"])
    for entry in ours.values():
        assert entry["SBXCTL_SANDBOX_ID"] == made["id"] == result["sandboxId"]
    assert ours["cleanup"]["SBXCTL_RESULT"] == "removed"
    assert ours["end"]["SBXCTL_REQUEST_SHA256"] == result["requestSha256"]
    assert int(ours["end"]["SBXCTL_CLOUD_USEC"]) == result["usage"]["cloudUSec"] > result["usage"]["wallUSec"] > 0
    (file,) = result["files"]
    assert file["name"] == "sum.txt" and machine.read(file["path"], "alice") == b"2\n"
    assert "in the cloud" in machine.sbxctl(["show", result["id"]]).text
    cloud.wait_until_empty()


def test_syntax_error_is_told_plainly(machine, cloud):
    result = run(machine, code="print(")
    assert (result["status"], result["exitCode"]) == ("failed", 1)
    assert "SyntaxError" in result["stderr"]["text"]
    for secret in (KEY, "envd", "https:", "localhost:", "Bearer", "X-Access-Token"):
        assert secret not in json.dumps(result)


def test_life_is_the_time_limit_and_a_minute(machine, cloud):
    run(machine, "--timeout", "20", code="1")
    (made,) = cloud.call("GET", "/sandboxes")
    assert made["request"]["timeout"] == 80


def test_template_is_the_administrators_to_list(machine, cloud):
    with rules(machine, run_cloud=YES, run_image=NO):
        assert run(machine, "--template", "code-interpreter-v1", code="1")["error"].endswith("Denied")
        with machine.configured("[Images]\nTemplates=code-interpreter-v1\n"):
            result = run(machine, "--template", "code-interpreter-v1", code="print(4)")
            assert (result["stdout"]["text"], result["image"]) == ("4\n", "code-interpreter-v1")
    assert [made["request"]["templateID"] for made in cloud.call("GET", "/sandboxes")] == ["code-interpreter-v1"]
    error = run(machine, "--image", "python:3.12-slim", code="1")
    assert error["error"].endswith("Rejected") and "--template" in error["hint"]
    error = machine.run_json(["--template", "base", "--engine", "systemd", "-c", "1"])
    assert error["error"].endswith("Rejected") and "--engine e2b" in error["hint"]


# ---- ends


def test_time_out_ends_program_and_sandbox(machine, cloud):
    result = run(machine, "--timeout", "2", code="open('kept', 'w').write('x'); " + HOLDING)
    assert result["status"] == "timed_out" and "time limit of 2 s" in result["reason"]
    assert not cloud.live()
    assert records(machine, result["id"])["cleanup"]["SBXCTL_RESULT"] == "removed"
    assert [file["name"] for file in result["files"]] == ["kept"]
    assert result["stderr"]["text"] == ""


def test_cancel_ends_program_and_sandbox(machine, cloud):
    running = hold(machine)
    machine.wait_for(cloud.live, 5, "the sandbox")
    running.signal("INT")
    running.finish()
    result = wait_for_the_end(machine)
    assert result["status"] == "cancelled"
    assert records(machine, result["id"])["cleanup"]["SBXCTL_RESULT"] == "removed"
    assert not cloud.live()


def test_clock_begins_when_the_files_are_there(machine, cloud):
    cloud.fault("files.upload", "delay", seconds=4)
    result = run(machine, "--timeout", "3", code="print(4)")
    assert result["status"] == "succeeded", result
    assert result["usage"]["wallUSec"] < 3_000_000 < result["usage"]["cloudUSec"]


def test_clock_stops_while_files_come_home(machine, cloud):
    # The program's own start is the first; what fetches its files comes after it.
    cloud.fault("process.start", "delay", seconds=4, skip=1, times=1)
    result = run(machine, "--timeout", "3", code="open('late', 'w').write('x')")
    assert result["status"] == "succeeded", result
    assert result["usage"]["wallUSec"] < 3_000_000
    assert [file["name"] for file in result["files"]] == ["late"]


def test_files_of_a_run_that_was_ended_have_time_to_come_home(machine, cloud):
    cloud.fault("process.start", "delay", seconds=6, skip=1, times=1)
    result = run(machine, "--timeout", "1", code="open('late', 'w').write('x'); " + HOLDING)
    assert result["status"] == "timed_out" and result["usage"]["wallUSec"] < 4_000_000
    assert [file["name"] for file in result["files"]] == ["late"]
    assert records(machine, result["id"])["cleanup"]["SBXCTL_RESULT"] == "removed"


def test_removal_that_did_nothing_is_not_recorded_as_one(machine, cloud):
    cloud.fault("delete", "answer", status=204, body="", times=2)
    result = run(machine, code="print(4)")
    assert result["status"] == "succeeded"
    assert records(machine, result["id"])["cleanup"]["SBXCTL_RESULT"] == "removed"
    cloud.fault("delete", "answer", status=204, body="", times=-1)
    result = run(machine, code="print(4)")
    assert result["status"] == "succeeded"
    assert records(machine, result["id"])["cleanup"]["SBXCTL_RESULT"] == "not confirmed"
    cloud.call("DELETE", "/faults")
    cloud.wait_until_empty()


def test_run_that_is_refused_when_its_sandbox_stands_has_a_record_of_that(machine, cloud):
    directory = machine.directory()
    machine.write(f"{directory}/in", b"x", "alice")
    error = run(machine, "--file", f"{directory}/in:a", "--file", f"{directory}/in:a/b", code="1")
    assert "could not be placed" in error["reason"], error
    (made,) = cloud.call("GET", "/sandboxes")
    of_it = machine.journal(HELPER, "SBXCTL_SANDBOX_ID=" + made["id"])
    assert [entry["SBXCTL_RESULT"] for entry in of_it] == ["not confirmed", "rejected"]
    cloud.wait_until_empty()


def test_run_that_the_cloud_lost_is_told_with_the_clouds_reason(machine, cloud):
    running = hold(machine)
    lose(cloud)
    running.finish()
    result = newest(machine)
    assert result["status"] == "lost"
    assert "E2B does not know the sandbox any more" in result["reason"]
    ours = records(machine, result["id"])
    assert ours["end"]["SBXCTL_RESULT"] == "lost" and ours["cleanup"]["SBXCTL_RESULT"] == "removed"


def test_last_word_of_an_engine_that_is_done_is_heard_however_late(machine, cloud):
    running = hold(machine)
    helper, engine = str(machine.main_pid()), newest_child(machine)
    machine.run(["kill", "-s", "STOP", helper], check=True)
    try:
        lose(cloud)
        machine.wait_for(lambda: machine.run(["kill", "-0", engine]).status != 0, 20, "the engine to be done with the run")
    finally:
        machine.run(["kill", "-s", "CONT", helper], check=True)
    running.finish()
    result = newest(machine)
    assert result["status"] == "lost" and "E2B does not know" in result["reason"]
    assert records(machine, result["id"])["cleanup"]["SBXCTL_RESULT"] == "removed"


def test_program_that_was_not_started_is_told_as_such(machine, cloud):
    cloud.fault("process.start", "answer", status=503, times=1)
    result = run(machine, code="print(4)")
    assert (result["status"], result["exitCode"]) == ("failed", 126)
    assert result["reason"].startswith("The program was not started: ")
    assert KEY not in json.dumps(result) and not cloud.live()


def test_death_of_the_helper_leaves_nothing(machine, cloud):
    running = hold(machine)
    machine.run(["kill", "-9", str(machine.main_pid())], check=True)
    cloud.wait_until_empty()
    running.finish()
    result = wait_for_the_end(machine)
    assert result["status"] == "lost"
    # Nobody saw its end, but what it cost is in the sum: from its beginning to this record.
    end = records(machine, result["id"])["end"]
    assert end["SBXCTL_ENGINE"] == "e2b" and 0 < int(end["SBXCTL_CLOUD_USEC"]) < 60_000_000


def test_death_of_the_engine_leaves_nothing(machine, cloud):
    running = hold(machine)
    machine.run(["systemctl", "kill", "--signal=KILL", UNIT], check=True)
    running.finish()
    result = wait_for_the_end(machine)
    assert result["status"] == "lost" and "did not tell how" in result["reason"]
    cloud.wait_until_empty(60)
    assert records(machine, result["id"])["cleanup"]["SBXCTL_RESULT"] == "not confirmed"


@pytest.mark.long  # longer than the run's time limit
def test_files_come_home_to_the_next_helper_and_that_is_no_time_out(machine, cloud):
    cloud.fault("process.start", "delay", seconds=6, skip=1)
    begun = machine.sbxctl(["run", "--engine", "e2b", "--detach", "--timeout", "3", "-c", "open('made', 'w').write('x')"])
    assert begun.status == 0, begun
    machine.wait_for(lambda: cloud.operations().count("process.start") == 2, 20, "the files to be asked for")
    machine.run(["kill", "-9", str(machine.main_pid())], check=True)
    result = wait_for_the_end(machine)
    assert (result["status"], [file["name"] for file in result["files"]]) == ("succeeded", ["made"]), result
    assert result["usage"]["wallUSec"] < 3_000_000
    assert records(machine, result["id"])["cleanup"]["SBXCTL_RESULT"] == "removed"


def test_hung_up_client_leaves_nothing(machine, cloud):
    running = hold(machine)
    running.signal("KILL")
    cloud.wait_until_empty()


# ---- network


PROBE = """
import socket
try:
    socket.create_connection(("1.1.1.1", 53), timeout=3)
    print("reached")
except OSError as error:
    print("refused")
"""


def test_network_is_refused_unless_granted(machine, cloud):
    assert run(machine, code=PROBE)["stdout"]["text"] == "refused\n"


def network_of(cloud):
    (made,) = cloud.call("GET", "/sandboxes")
    return made["request"]["allow_internet_access"], made["request"].get("network")


def only(*names):
    return True, {"allowOut": list(names), "denyOut": ["0.0.0.0/0"]}


def test_granted_hosts_are_the_clouds_to_keep(machine, cloud):
    result = run(machine, "--network=pypi.org,*.example.org", code="1")
    assert result["status"] == "succeeded"
    assert network_of(cloud) == only("pypi.org", "*.example.org")


@pytest.mark.parametrize("options, expected", [
    ((), (True, None)), (("AllowedNames=pypi.org",), only("pypi.org"))
], ids=["any", "listed"])
def test_network_without_names_is_what_the_administrator_allows(machine, cloud, options, expected):
    with machine.configured("[Network]\n" + "\n".join(options) + "\n"):
        run(machine, "--network", code="1")
    assert network_of(cloud) == expected


@pytest.mark.parametrize("option", ["--network", "--network=*.example.org"])
def test_what_the_cloud_cannot_deny_is_not_granted(machine, cloud, option):
    with machine.configured("[Network]\nDeniedNames=bad.example.org\n"):
        error = run(machine, option, code="1")
    assert error["error"].endswith("Rejected") and "name the hosts" in error["reason"]
    assert cloud.operations() == []


# ---- bounds


def test_big_output_is_passed_on_and_kept_in_part(machine, cloud):
    code = "import sys; [sys.stdout.write('x' * 65536) for _ in range(320)]"
    result = run(machine, code=code)
    assert result["status"] == "succeeded"
    assert (result["stdout"]["bytes"], result["stdout"]["keptBytes"], result["stdout"]["truncated"]) == (20 << 20, 8 << 20, True)
    passed = machine.sbxctl(["run", "--engine", "e2b", "--quiet", "-c", code])
    assert len(passed.stdout) == 20 << 20


def test_concurrency_limit_is_told_and_starts_nothing(machine, cloud):
    configure(machine, MaxSandboxes=1)
    try:
        running = hold(machine)
        error = run(machine, code="1")
        assert error["error"].endswith("EngineUnavailable") and "allows no more" in error["reason"]
        assert cloud.operations().count("create") == 1
        running.signal("INT")
        running.finish()
    finally:
        configure(machine)


# ---- approval


def test_refused_approval_starts_nothing(machine, cloud):
    script = Script(machine)
    with rules(machine, run_cloud=NO):
        result = machine.run(script.run("--engine", "e2b"), "alice")
    assert result.status == 126
    refused(script, "denied", "run-cloud")
    assert cloud.operations() == []


def test_rule_and_dialog_see_each_file_that_leaves(machine, cloud):
    directory = machine.directory()
    machine.write(f"{directory}/in.csv", b"x" * 2048, "alice")
    machine.write(f"{directory}/job.py", b"1", "alice")
    machine.write(f"{directory}/in, b (9 B).csv", b"x" * 1024, "alice")
    wanted = "in.csv (2 KiB), in_ b _9 B_.csv (1 KiB), job.py (1 B), standard input, 2 arguments, variables MODE, A"
    more = ["--env", "MODE=fast", "--env", "A=1", "--file", f"{directory}/in, b (9 B).csv"]
    with rules(machine, run_cloud=f'action.lookup("leaving") == "{wanted}" ? {YES} : {NO}'):
        options = [*more, "--file", f"{directory}/in.csv"]
        assert run(machine, *options, f"{directory}/job.py", "one", "two", input=b"")["status"] == "succeeded"
    shown = machine.sbxctl(["run", "--engine", "e2b", "--dry-run", *options, f"{directory}/job.py", "one"], input=b"").text
    assert "\nvariables     MODE\n              A\n" in shown and "fast" not in shown
    assert shown[shown.index("leave here"):].startswith("""\
leave here    job.py, 1 B
              in, b (9 B).csv, 1 KiB
              in.csv, 2 KiB
              standard input
              the arguments
              the variables, with their values
""")
    with rules(machine, run=f'action.lookup("leaving") == "nothing" ? {YES} : {NO}'):
        assert machine.run_json(["--engine", "systemd", "-c", "1"])["status"] == "succeeded"


def test_many_files_are_a_number_a_sum_and_the_first(machine, cloud):
    directory = machine.directory()
    machine.run(["sh", "-c", 'cd "$0" && for i in $(seq 100 160); do echo "$i" >input-$i.csv; done', directory], "alice", check=True)
    begin = 'String(action.lookup("leaving")).indexOf("62 files, 245 B: %s/input-100.csv (4 B), ") == 0' % directory.rpartition("/")[2]
    with rules(machine, run_cloud=f'{begin} ? {YES} : {NO}'):
        assert run(machine, "--file", directory, code="1")["status"] == "succeeded"
    shown = machine.sbxctl(["run", "--engine", "e2b", "--dry-run", "--file", directory, "-c", "1"]).text
    assert "leave here" in shown and all(f"/input-{i}.csv, 4 B" in shown for i in range(100, 161))


# ---- cost


def test_budget_is_refused_with_what_is_left_and_a_restart_forgets_nothing(machine, cloud):
    machine.run(["rm", "-f", "/var/lib/sbxctl/cloud-time.json"], check=True)
    # A sandbox may live for a minute more than its run's limit.
    with machine.configured("[Limits]\nCloudSeconds=200\n"):
        running = hold(machine)
        error = run(machine, code="1")
        assert error["error"].endswith("Rejected")
        assert "1 min 20 s are left of your 3 min 20 s a day" in error["reason"], error
        assert "--timeout 20s" in error["hint"] and "00:00 UTC" in error["hint"]
        # What a helper that is killed cannot give back stays taken.
        machine.run(["kill", "-9", str(machine.main_pid())], check=True)
        running.finish()
        assert "1 min 20 s are left" in run(machine, code="1")["reason"]
        assert run(machine, "--timeout", "20", code="1")["status"] == "succeeded"
        # What was not needed is there again.
        assert run(machine, "--timeout", "15", code="1")["status"] == "succeeded"
    machine.run(["rm", "-f", "/var/lib/sbxctl/cloud-time.json"], check=True)


@pytest.mark.long  # time is taken every 10 s
def test_upload_takes_of_the_day_as_long_as_it_lasts(machine, cloud):
    machine.run(["rm", "-f", "/var/lib/sbxctl/cloud-time.json"], check=True)
    cloud.fault("files.upload", "delay", seconds=60)
    with machine.configured("[Limits]\nCloudSeconds=135\n"):
        result = run(machine, code="1")
        assert (result["status"], result["exitCode"]) == ("failed", 126)
        assert "nothing is left of your time there" in result["reason"], result
        assert 20_000_000 <= result["usage"]["cloudUSec"] < 60_000_000
        cloud.wait_until_empty()
        # Of the two minutes and the 10 s that were taken, only what was used.
        left = run(machine, "--timeout", "2m", code="1")["reason"]
        assert "1 min 5" in left or "1 min 4" in left, left
    machine.run(["rm", "-f", "/var/lib/sbxctl/cloud-time.json"], check=True)


def test_many_runs_at_once_have_no_more_than_the_day(machine, cloud):
    machine.run(["rm", "-f", "/var/lib/sbxctl/cloud-time.json"], check=True)
    with machine.configured("[Limits]\nCloudSeconds=200\n[Queue]\nRunsPerUser=8\nRuns=16\n"):
        runs = [machine.popen(["sbxctl", "run", "--engine", "e2b", "--json", "--timeout", "4", "-c", "import time; time.sleep(2)"], "alice")
                for _ in range(8)]
        told = [json.loads(each.finish().stdout) for each in runs]
    # Each takes 64 s of the 200 as long as it runs.
    started = [each for each in told if each.get("status") == "succeeded"]
    refused_ones = [each for each in told if "of your 3 min 20 s a day" in each.get("reason", "")]
    assert len(started) + len(refused_ones) == 8 and len(refused_ones) >= 1, told
    lives = [(made["started"], made["ended"]) for made in cloud.call("GET", "/sandboxes")]
    assert max(sum(began <= at < ended for began, ended in lives) for at, _ in lives) <= 3
    machine.run(["rm", "-f", "/var/lib/sbxctl/cloud-time.json"], check=True)


def test_budget_is_each_users_own(machine, cloud):
    machine.run(["rm", "-f", "/var/lib/sbxctl/cloud-time.json"], check=True)
    with machine.configured("[Limits]\nCloudSeconds=120\n"):
        running = hold(machine)
        assert run(machine, code="1")["error"].endswith("Rejected")
        assert run(machine, code="1", user="bob")["status"] == "succeeded"
        running.signal("INT")
        running.finish()


FORGED = """
import socket
record = "\\n".join(["MESSAGE=x", "MESSAGE_ID=1834b2776f894c5bbc2a0cf09d629307", "SBXCTL_UID=1000", "SBXCTL_USER=alice",
                    "SBXCTL_WALL_USEC=1", "SBXCTL_CLOUD_USEC=9999000000", "UNIT=sbxctl-helper.service", ""])
sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
sock.connect("/run/systemd/journal/socket")
sock.send(record.encode())
"""


def usage(machine, *options, user="alice"):
    machine.run(["journalctl", "--sync"], check=True)
    told = json.loads(machine.run(["sbxctl", "audit", "--usage", "--json", *options], check=True).stdout)
    return next((entry for entry in told["users"] if entry["user"] == user), {"runs": 0, "cloudUSec": 0, "cpuUSec": 0})


def test_usage_sums_what_the_helper_recorded_and_nothing_that_was_forged(machine, cloud):
    before = usage(machine)
    results = [run(machine, code="1"), run(machine, code="sum(range(10**6))")]
    for user in ("alice", "root"):  # their journals are two files
        machine.run(machine.python(FORGED), user, check=True)
    after = usage(machine)
    assert after["runs"] - before["runs"] == 2
    for key in ("cloudUSec", "cpuUSec", "wallUSec"):
        assert after[key] - before[key] == sum(result["usage"].get(key, 0) for result in results), key
    assert usage(machine, "--since", "0s")["runs"] == 0
    assert usage(machine, "--since", "2000-01-01") == after
    table = machine.run(["sbxctl", "audit", "--usage", "--since", "1h"], check=True).text
    assert table.splitlines()[0].split() == [
        "USER", "UID", "RUNS", "IN", "THE", "CLOUD", "CPU", "TIME", "ACCEPTED", "FOR", "EACH"]
    assert any(line.startswith("alice") for line in table.splitlines())


def test_usage_says_why_it_may_show_nothing(machine):
    told = machine.sbxctl(["audit", "--usage"], user="bob")
    assert told.status == 0 and "systemd-journal" in told.errors
    assert machine.sbxctl(["audit", "--usage", "--forged"]).status == 64
    assert machine.sbxctl(["audit", "--usage", "--since", "yesteryear"]).status == 64


# ---- what is told about the engine


def state(machine):
    """The engine's line of the table, and what is said below it."""
    shown = machine.sbxctl(["engines"]).text
    assert max(map(len, shown.splitlines())) <= 80, shown
    return " ".join(shown[shown.index("e2b "):].split())


def test_engines_tells_what_runs_there_and_what_to_do_if_nothing_can(machine, cloud):
    running = hold(machine)
    assert "usable, 1 of 8 running" in state(machine)
    running.signal("INT")
    running.finish()
    cloud.settings(api_key="e2b_another")
    assert "does not accept this machine's key" in state(machine)
    cloud.settings(api_key=KEY)
    configure(machine, ApiUrl="https://localhost:1")
    try:
        assert "cannot be reached" in state(machine)
    finally:
        configure(machine)
    machine.run(["mv", "/etc/credstore/e2b-api-key", "/etc/credstore/aside"], check=True)
    stop(machine)
    try:
        assert "has no key" in state(machine) and "/etc/credstore/e2b-api-key" in state(machine)
    finally:
        machine.run(["mv", "/etc/credstore/aside", "/etc/credstore/e2b-api-key"], check=True)
        stop(machine)
    machine.run(["systemctl", "stop", "sbxctl-engine-e2b.socket", UNIT], check=True)
    try:
        assert "systemctl enable --now sbxctl-engine-e2b.socket" in state(machine)
    finally:
        machine.run(["systemctl", "start", "sbxctl-engine-e2b.socket"], check=True)


def test_key_is_in_nothing_that_a_run_leaves(machine, cloud):
    """Not in command lines, environments, records, files of runs, replies, or what a crash would write."""
    running = hold(machine)
    places = machine.run(["sh", "-c", "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'"]).text
    assert KEY not in places
    machine.run(["systemctl", "kill", "--signal=SEGV", UNIT], check=True)
    running.finish()
    result = wait_for_the_end(machine)
    assert KEY not in json.dumps(result) + machine.sbxctl(["engines", "--json"]).text
    # The journal as a whole, however its fields are kept.
    machine.run(["journalctl", "--sync"], check=True)
    assert machine.run(["sh", "-c", "journalctl --output=export --all --no-pager | grep -acF \"$0\"", KEY]).text == "0\n"
    places = ["/run/sbxctl", "/var/lib/sbxctl", "/var/lib/systemd", "/tmp", "/var/tmp", "/home", "/var/crash"]
    assert machine.run(["grep", "-rlF", KEY, *places]).text == ""
    cores = machine.run(["sh", "-c", "find / -xdev -name 'core*' -type f -size +64k -newer /etc/credstore/e2b-api-key "
                                     "-not -path '/usr/*' -not -path '/proc/*' 2>/dev/null"]).text
    assert cores == ""
    cloud.wait_until_empty(60)
