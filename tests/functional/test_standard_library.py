"""Python's own tests, run in a sandbox: what passes outside passes inside, or stands in DIFFERENT with the
reason. So the filter of system calls, the limits and what is mounted are right for ordinary programs.

Each module runs twice in the machine, as alice and as alice's run. A test that differs gets a second chance,
since some of them look at the clock and the machine is shared.
"""

import xml.etree.ElementTree as ElementTree

import pytest

ROOMY = "[Defaults]\nTimeout=300s\nMemory=1G\nCPUs=2\n"

RUN = """
import os, subprocess, sys
report = os.path.abspath("report.xml")
command = [sys.executable, "-m", "test", "--junit-xml", report, *sys.argv[1:]]
subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr)
sys.stdout.write(open(report).read())
"""

QUICK = ["test_json", "test_mmap", "test_hashlib", "test_posix", "test_shutil", "test_tempfile"]
LONG = """
    test_asyncio test_concurrent_futures test_ctypes test_epoll test_faulthandler test_fcntl test_fork1 test_io
    test_locale test_multiprocessing_fork test_multiprocessing_spawn test_os test_pathlib test_poll
    test_resource test_select test_selectors test_signal test_socket test_ssl
    test_subprocess test_tarfile test_thread test_threading test_time test_wait4 test_zipfile
""".split()

# Of modules that take minutes, the part that is run.
CHOSEN = {
    "test_asyncio": ["*test_streams*", "*test_subprocess*", "*test_unix_events*", "*test_sock_lowlevel*"],
    "test_concurrent_futures": ["*ForkProcessPool*", "*ThreadPoolExecutor*"],
    "test_multiprocessing_fork": ["*WithProcessesTest[PQLSE]*", "*SharedMemory*"],
    "test_multiprocessing_spawn": ["*WithProcessesTest[QSE]*", "*SharedMemory*"],
}

# Classes whose failed set-up takes the whole module with it, and why they fail.
IGNORED = {
    "test_socket": {"*UDPLITE*": "a rare protocol: socket() is refused with EPROTONOSUPPORT"},
}

TERMINALS = "the machine's terminals are covered up (/dev/pts), they are a common pool"
UNMAPPED = "the user namespace knows no such id: setreuid() and setregid() say EINVAL where a host says EPERM"
SET_ID = "chmod() with set-user-ID or set-group-ID is refused with EPERM"
DIFFERENT = {
    "test_os.CPUCountTests.test_process_cpu_count_affinity": "PYTHON_CPU_COUNT in the environment tells the quota",
    "test_os.FDInheritanceTests.test_openpty": TERMINALS,
    "test_os.MakedirTests.test_exist_ok_s_isgid_directory": SET_ID,
    "test_os.PseudoterminalTests.test_open_via_ptsname": TERMINALS,
    "test_os.PseudoterminalTests.test_openpty": TERMINALS,
    "test_os.PseudoterminalTests.test_posix_pty_functions": TERMINALS,
    "test_subprocess.POSIXProcessTestCase.test_group": UNMAPPED,
    "test_subprocess.POSIXProcessTestCase.test_user": UNMAPPED,
    "test_tarfile.TestExtractionFilters.test_modes": SET_ID,
}


@pytest.fixture(scope="module")
def roomy(machine):
    """The machine with the limits of its sandboxes raised to the ceilings."""
    with machine.configured(ROOMY):
        yield machine


def passed(result):
    """The ids of the tests that passed, of a report on standard output."""
    assert result.stdout, result.errors[-2000:]
    cases = ElementTree.fromstring(result.stdout).iter("testcase")
    return {
        case.get("name")
        for case in cases
        if len(case) == 0 and case.get("result") == "completed"
    }


def run_inside(machine, module, options=()):
    return passed(machine.sbxctl(["run", machine.script(RUN), *options, module], timeout=310))


def run_outside(machine, module, options=()):
    path = machine.script(RUN)
    command = ["sh", "-c", 'cd "${0%/*}" && exec python3 "$0" "$@"', path, *options, module]
    return passed(machine.run(command, user="alice", timeout=310))


def words(option, patterns):
    return [word for pattern in sorted(patterns) for word in (option, pattern)]


@pytest.mark.parametrize("module", [*QUICK, *(pytest.param(name, marks=pytest.mark.long) for name in LONG)])
def test_what_passes_outside_passes_inside(roomy, module):
    chosen = words("--match", CHOSEN.get(module, ())) + words("--ignore", IGNORED.get(module, ()))
    outside = run_outside(roomy, module, chosen)
    assert outside
    missing = outside - run_inside(roomy, module, chosen)
    expected = {name for name in outside if name.removeprefix("test.") in DIFFERENT}
    if missing - expected:
        missing -= run_inside(roomy, module, words("--match", missing - expected))
    assert missing == expected
