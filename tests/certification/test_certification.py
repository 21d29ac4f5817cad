"""org.varlink.certification between our varlink and the reference implementation in Python.

`varlink.tests.test_certification` is the reference's program for both roles; ours is
varlink-certification. The reference as a client does not look at the last answer, so we do.
"""

import math
import pathlib
import subprocess
import sys

import pytest
import varlink
from varlink.tests import test_certification as reference

INTERFACE = str(pathlib.Path(reference.__file__).with_name("org.varlink.certification.varlink"))
REFERENCE = [sys.executable, "-m", "varlink.tests.test_certification"]
COMMON = pathlib.Path(__file__).parents[2] / "common"


@pytest.fixture
def our_server(serve, program):
    return serve(program, "serve", INTERFACE)


@pytest.fixture
def reference_server(serve):
    # It has a socket already; the address only tells it that it is a server.
    return serve(*REFERENCE, "--varlink=unix:unused", ends_well=False)


def start_reference_client(*address):
    return subprocess.Popen(
        [*REFERENCE, "--client", *address],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )


def assert_reference_certified(client):
    output, errors = client.communicate(timeout=30)
    assert client.returncode == 0, errors
    assert [line for line in output.splitlines() if line.startswith("Test10:")] == [
        f"Test10: {{'string': 'Reply number {i}'}}" for i in range(1, 11)
    ]
    assert output.endswith("End: {'all_ok': True}\nCertification passed\n"), output


def run_our_client(program, path):
    return subprocess.run([program, "client", path], capture_output=True, text=True, timeout=30)


# ---- certified


def test_reference_client_certifies_our_server(our_server):
    assert_reference_certified(start_reference_client(f"--varlink=unix:{our_server}"))


def test_reference_server_certifies_our_client(program, reference_server):
    done = run_our_client(program, reference_server)
    assert (done.returncode, done.stdout, done.stderr) == (0, "certified\n", "")


def test_our_client_and_our_server_certify_each_other(program, our_server):
    done = run_our_client(program, our_server)
    assert (done.returncode, done.stdout, done.stderr) == (0, "certified\n", "")


def test_reference_client_certifies_a_server_that_it_activates(program):
    activate = f"--activate={program} serve {INTERFACE}"
    assert_reference_certified(start_reference_client(activate))


def test_reference_client_certifies_our_server_as_a_bridge(program):
    assert_reference_certified(start_reference_client(f"--bridge={program} bridge {INTERFACE}"))


def test_certifications_at_the_same_time_do_not_touch_each_other(program, our_server):
    clients = [start_reference_client(f"--varlink=unix:{our_server}") for _ in range(8)]
    for client in clients:
        assert_reference_certified(client)


def test_reference_test_case_passes_with_our_server(our_server):
    """What the reference tests its own server with, wrong calls among them."""

    class TestOurs(reference.TestService):
        @classmethod
        def setUpClass(cls):
            cls.address = f"unix:{our_server}"

        @classmethod
        def tearDownClass(cls):
            pass

    suite = reference.unittest.defaultTestLoader.loadTestsFromTestCase(TestOurs)
    result = suite.run(reference.unittest.TestResult())
    assert result.testsRun == 2
    assert result.wasSuccessful(), result.errors + result.failures


# ---- not certified


class Dialogue:
    """The certification call by call, on the reference's client. A call that is not the last one
    gets as its parameters what the one before answered."""

    def __init__(self, connection):
        self.connection = connection
        self.value = {}
        self.id = connection.Start()["client_id"]

    def call(self, method, **flags):
        answer = getattr(self.connection, method)(client_id=self.id, **self.value, **flags)
        if flags.get("_more"):
            self.value = {"last_more_replies": [one["string"] for one in answer]}
        else:
            self.value = answer or {}

    def until(self, method):
        for number in range(1, int(method[4:])):
            name = f"Test{number:02}"
            self.call(name, **({"_more": True} if name == "Test10" else {}))
        return self


@pytest.fixture
def dialogue(our_server):
    with varlink.Client(f"unix:{our_server}") as client:
        with client.open("org.varlink.certification") as connection:
            yield Dialogue(connection)


def error_of(call, *args, **kwargs):
    with pytest.raises(varlink.VarlinkError) as caught:
        call(*args, **kwargs)
    return caught.value.error(), caught.value.parameters()


@pytest.mark.parametrize(
    "method, path, value",
    [
        ("Test02", ["bool"], False),
        ("Test03", ["int"], 2),
        ("Test04", ["float"], 1.0000000000000002),
        ("Test05", ["string"], "pong"),
        ("Test06", ["float"], math.nextafter(math.pi, 4)),
        ("Test07", ["struct", "string"], ""),
        ("Test08", ["map", "foo"], "foo"),
        ("Test09", ["set"], {"one", "two"}),
        ("Test10", ["mytype", "object", "method"], ""),
        ("Test10", ["mytype", "enum"], "one"),
        ("Test10", ["mytype", "struct", "first"], 2),
        ("Test10", ["mytype", "array"], ["two", "one", "three"]),
        ("Test10", ["mytype", "stringset"], {"one"}),
        ("Test10", ["mytype", "nullable"], ""),
        ("Test10", ["mytype", "nullable_array_struct"], []),
        ("Test10", ["mytype", "interface", "foo"], [{"foo": "foo", "bar": "bar"}]),
        ("Test10", ["mytype", "interface", "anon", "bar"], True),
    ],
)
def test_wrong_value_is_found_by_our_server(dialogue, method, path, value):
    dialogue.until(method)
    place = dialogue.value
    for key in path[:-1]:
        place = place[key]
    assert place.get(path[-1]) != value
    place[path[-1]] = value
    error, parameters = error_of(dialogue.call, method, _more=method == "Test10")
    assert error == "org.varlink.certification.CertificationError"
    wants, got = parameters["wants"], parameters["got"]
    assert wants["method"] == got["method"] == f"org.varlink.certification.{method}"
    assert wants["parameters"] != got["parameters"]


def test_call_out_of_order_loses_the_certification(dialogue):
    dialogue.until("Test03")
    error, parameters = error_of(dialogue.connection.Test04, dialogue.id, 1.0)
    assert error == "org.varlink.certification.CertificationError"
    assert parameters["wants"]["method"] == "org.varlink.certification.Test03"
    error, _ = error_of(dialogue.call, "Test03")
    assert error == "org.varlink.certification.ClientIdError"


def test_more_is_expected_where_a_method_answers_several_times(dialogue):
    dialogue.until("Test10")
    assert error_of(dialogue.call, "Test10") == ("org.varlink.service.ExpectedMore", {})
    dialogue.call("Test10", _more=True)


def test_oneway_call_is_not_answered_even_when_it_is_wrong(dialogue):
    dialogue.until("Test11")
    dialogue.value["last_more_replies"].pop()
    dialogue.call("Test11", _oneway=True)
    # An answer to Test11 would be taken for that of End.
    error, _ = error_of(dialogue.connection.End, dialogue.id)
    assert error == "org.varlink.certification.ClientIdError"


@pytest.fixture
def altered_server(serve, tmp_path):
    """The reference server with a line of Python that changes its service."""

    def start(change):
        server = tmp_path / "server.py"
        server.write_text(
            "from varlink.tests import test_certification as reference\n"
            "service = reference.CertService\n"
            f"{change}\n"
            "reference.run_server('unix:unused')\n"
        )
        return serve(sys.executable, str(server), ends_well=False)

    return start


def test_error_of_the_server_ends_our_client(program, altered_server):
    done = run_our_client(program, altered_server("del service.End"))
    assert done.returncode == 1
    assert "End: org.varlink.service.MethodNotImplemented" in done.stderr


@pytest.mark.parametrize(
    "method, answer",
    [
        ("Test01", {"bool": 1}),
        ("Test02", {"int": 1.0}),
        ("Test03", {"float": "1.0"}),
        ("Test05", {"bool": False, "int": 2, "float": math.pi}),
        ("Test08", {"set": ["one", "two", "three"]}),
        ("Test09", {"mytype": None}),
        ("End", {"all_ok": False}),
        ("End", {}),
    ],
)
def test_wrong_answer_is_found_by_our_client(program, altered_server, method, answer):
    path = altered_server(f"service.{method} = lambda *_: {answer!r}")
    done = run_our_client(program, path)
    assert done.returncode == 1
    assert f"{method} answered" in done.stderr


# ---- org.varlink.service


def test_reference_client_reads_what_our_server_is(our_server):
    with varlink.Client(f"unix:{our_server}") as client:
        assert set(client.get_interfaces()) == {"org.varlink.service", "org.varlink.certification"}
        assert client.info["product"] == "varlink-certification"
        for name in client.get_interfaces():
            assert client.get_interface(name).name == name


def call_invented(path, interface, method):
    """Calls what the client believes in and the server does not know."""
    with varlink.Client(f"unix:{path}") as client:
        client.add_interface(
            varlink.scanner.Interface(f"interface {interface}\nmethod {method}() -> ()")
        )
        with client.open(interface) as connection:
            return error_of(getattr(connection, method))


def test_unknown_interface_and_unknown_method_are_different_errors(our_server):
    assert call_invented(our_server, "org.varlink.nothing", "Test01") == (
        "org.varlink.service.InterfaceNotFound", {"interface": "org.varlink.nothing"},
    )
    assert call_invented(our_server, "org.varlink.certification", "Test12") == (
        "org.varlink.service.MethodNotFound", {"method": "org.varlink.certification.Test12"},
    )


def test_unknown_interface_has_no_description(our_server):
    with varlink.Client(f"unix:{our_server}") as client:
        with pytest.raises(varlink.InterfaceNotFound) as caught:
            client.open("org.varlink.nothing")
        assert caught.value.parameters() == {"interface": "org.varlink.nothing"}


@pytest.mark.parametrize("name", ["io.sbxctl.Sandbox", "org.varlink.service"])
def test_reference_parser_reads_our_interface_text(name):
    interface = varlink.scanner.Interface((COMMON / f"{name}.varlink").read_text())
    assert interface.name == name
    methods = [m for m in interface.members.values() if isinstance(m, varlink.scanner._Method)]
    assert methods and all(method.doc.strip() for method in methods)
