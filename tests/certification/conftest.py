"""Who is certified, and the service manager that starts servers on a socket of the test's."""

import pathlib
import socket
import subprocess

import pytest

BUILD = pathlib.Path(__file__).parents[2] / "build-asan"

# What systemd does for a service with Accept=no: descriptor 3 is the listening socket.
ACTIVATE = 'exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec "$@"'


def pytest_addoption(parser):
    parser.addoption(
        "--program", default=BUILD / "tests/unit/varlink-certification", help="which build to certify"
    )


@pytest.fixture(scope="session")
def program(request):
    program = pathlib.Path(request.config.getoption("--program"))
    assert program.exists(), f"{program} is not built"
    return str(program)


@pytest.fixture
def serve(tmp_path):
    """serve(argv) starts a server and returns its socket's path. Ours must end well when told to,
    which includes what the sanitizers say."""
    servers = []

    def start(*argv, ends_well=True):
        path = str(tmp_path / f"socket-{len(servers)}")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path)
            listening.listen(100)
            server = subprocess.Popen(["sh", "-c", ACTIVATE, "sh", *argv], stdin=listening)
        servers.append((server, ends_well))
        return path

    yield start
    for server, _ in servers:
        server.terminate()
    for server, ends_well in servers:
        status = server.wait(10)
        assert status == 0 or not ends_well
