"""What a granted network does not give: refused with the rule's name, seen by nobody, recorded with the run. Over either engine."""

import json

import pytest
from network_lab import (
    CLOSED, DENIED_PORT, FORBIDDEN, GATEWAY, METADATA, PRIVATE, UNIQUE, WEB, bridge_address, internet, lab, own_address,
)

# name -> the rule that its refusal names
BY_NAME = {
    "bad.example": "DeniedNames=bad.example",
    "BAD.example": "DeniedNames=bad.example",
    "bad.example.": "DeniedNames=bad.example",
    "below.bad.example": "DeniedNames=*.bad.example",
    # An address counts as a name that is not listed.
    FORBIDDEN: "AllowedNames=",
    WEB: "AllowedNames=",
    METADATA: "AllowedNames=",
    PRIVATE: "AllowedNames=",
    UNIQUE: "AllowedNames=",
    "127.0.0.1": "AllowedNames=",
    "127.1.2.3": "AllowedNames=",
    "0.0.0.0": "AllowedNames=",
    "::1": "AllowedNames=",
    "::": "AllowedNames=",
    "::ffff:127.0.0.1": "AllowedNames=",
    "::ffff:7f00:1": "AllowedNames=",
    "::127.0.0.1": "AllowedNames=",
    "64:ff9b::7f00:1": "AllowedNames=",
    "fe80::1": "AllowedNames=",
}
# Names for what is not the internet.
BY_ADDRESS = {
    "private.example": PRIVATE,
    "metadata.example": METADATA,
    "loopback.example": "127.0.0.1",
    "loopback6.example": "::1",
    "zero.example": "0.0.0.0",
    "mapped.example": "127.0.0.1",
    "compatible.example": "127.0.0.1",
    "nat64.example": "64:ff9b::7f00:1",
    "sixtofour.example": "2002:7f00:1::1",
    "unique.example": UNIQUE,
    "gateway.example": GATEWAY,
    "gateway6.example": "3ffe:c0de::1",
    "multicast.example": "224.0.0.1",
    "broadcast.example": "255.255.255.255",
    "tail.example": PRIVATE,
    "bridge.example": None,
    "own.example": None,
}
# Other spellings of 127.0.0.1, 169.254.169.254 and 0.0.0.0, which a resolver might understand; and no names at all.
SPELLINGS = [
    "2130706433", "017700000001", "0177.0.0.1", "0x7f000001", "0x7f.0.0.1", "127.1", "127.0.1", "0", "0x0", "00000.0.0.0",
    "127.0.0.1.", "127.0.0.01", "127.0.0.256", "1.2.3.4.5", "good.example.0x1", "2852039166", "0251.0376.0251.0376",
    "good..example", ".good.example", "good.example..", "a" * 64 + ".example", "a." * 127 + "a", "good_\xc3\xa9.example", "good example",
    "good.example%00.bad.example", "good.example%2e", "good.example#.bad.example", "good.example@127.0.0.1",
]
NAMED_LOOPBACK = ["localhost", "LocalHost", "localhost.", "any.localhost"]
WAYS = ("http", "connect", "socks")

TRY = """
answers = {}
for way in WAYS:
    for host, port in TARGETS:
        answers[f"{way} {host} {port}"] = globals()[way](host, port)
print(json.dumps(answers))
"""


def attempt(lab, targets, *options, ways=WAYS, **keywords):
    """What the proxy says to each of these hosts in each way, and the result; the logs begin anew."""
    lab.forget()
    script = f"WAYS = {ways!r}\nTARGETS = {targets!r}\n" + TRY
    return lab.answers(script, *options, **keywords)


class Refused:
    """A run that tried them all."""

    def __init__(self, lab, targets):
        self.answers, self.result = attempt(lab, targets)
        self.asked = lab.asked()
        self.trespassers = lab.trespassers()
        self.records = lab.connections(self.result["id"])

    def check(self, way, host, port, rule, code=403):
        """Refused with these words, to the script and in the journal."""
        status, text = self.answers[f"{way} {host} {port}"]
        assert status == (2 if way == "socks" else code), (status, text)
        if way != "socks":
            assert rule in text.split("\r\n")[0] and host.rstrip(".").lower() in text.lower(), text
        protocol = {"socks": "socks5"}.get(way, way)
        wanted = {"SBXCTL_PROTOCOL": protocol, "SBXCTL_PORT": str(port), "SBXCTL_VERDICT": "refused"}
        found = [r for r in self.records if wanted.items() <= r.items() and same_name(r["SBXCTL_HOST"], host)]
        assert found and all(rule in r["SBXCTL_RULE"] for r in found), found
        assert found[0]["SBXCTL_BYTES_SENT"] == "0"


def same_name(one, other):
    return one.lower().rstrip(".") == other.lower().rstrip(".")


@pytest.fixture(scope="module")
def named(internet):
    return Refused(internet, [(host, 80) for host in BY_NAME])


@pytest.fixture(scope="module")
def addressed(internet):
    return Refused(internet, [(host, 80) for host in BY_ADDRESS])


@pytest.fixture(scope="module")
def spelled(internet):
    return Refused(internet, [(host, 80) for host in [*SPELLINGS, *NAMED_LOOPBACK]])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("host", BY_NAME)
def test_a_name_or_address_that_is_not_allowed_is_refused(named, way, host):
    named.check(way, host, 80, BY_NAME[host])


def test_a_refused_name_is_never_resolved(named):
    assert named.asked == [] and named.trespassers == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("host", BY_ADDRESS)
def test_a_name_for_what_is_not_the_internet_is_refused(lab, addressed, way, host):
    computed = {"bridge.example": bridge_address, "own.example": own_address}
    address = BY_ADDRESS[host] or computed[host](lab.machine)
    addressed.check(way, host, 80, "AllowedAddresses=")
    if way == "http":
        assert address in addressed.answers[f"http {host} 80"][1]


def test_nobody_was_reached_through_a_public_name(addressed):
    assert addressed.trespassers == []
    assert len(addressed.result["networkUse"]["refusedHosts"]) == len(BY_ADDRESS)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("host", [*SPELLINGS, *NAMED_LOOPBACK])
def test_other_spellings_never_reach_a_resolver(spelled, way, host):
    status, text = spelled.answers[f"{way} {host} 80"]
    if way == "socks":
        assert status in (1, 2, 4), text
    else:
        assert status in (400, 403), text


def test_numbers_as_names_are_recorded_and_ask_nobody(spelled):
    assert spelled.asked == [] and spelled.trespassers == []
    told = {r["SBXCTL_HOST"] for r in spelled.records if r["SBXCTL_VERDICT"] == "refused"}
    numbers = [s for s in SPELLINGS if s.replace(".", "").replace("x", "").isalnum() and s[0].isdigit()]
    assert len(numbers) > 12 and not [s for s in numbers if not any(same_name(s, host) for host in told)], told


def test_raw_addresses_in_socks_are_judged_as_their_text(lab):
    cases = [("socks4", a) for a in ("127.0.0.1", METADATA, "0.0.0.0", FORBIDDEN)]
    cases += [("socks6", a) for a in ("::1", "::ffff:127.0.0.1", "::", UNIQUE, "64:ff9b::7f00:1")]
    lab.forget()
    answers, result = lab.answers(f"""
        print(json.dumps([socks(host, 80, kind=4 if kind == "socks6" else 1)[0] for kind, host in {cases!r}]))
    """)
    assert answers == [2] * len(cases) and lab.trespassers() == []
    rules_named = [r["SBXCTL_RULE"] for r in lab.connections(result["id"])]
    assert len(rules_named) == len(cases) and all(rule.startswith("AllowedNames=") for rule in rules_named), rules_named


@pytest.mark.parametrize("host", ["good.example", "closed.example"])
def test_a_port_that_is_not_allowed_is_refused_whoever_listens(lab, host):
    answers, result = attempt(lab, [(host, DENIED_PORT), (host, 22), (host, 25)])
    assert [status for status, _ in answers.values()] == [403] * 6 + [2] * 3, answers
    assert lab.asked() == [] and lab.seen() == []
    assert all(r["SBXCTL_RULE"].startswith("AllowedPorts=") for r in lab.connections(result["id"]))


def test_a_name_that_changes_its_answer_gains_nothing(lab):
    """First it is public, then private: each answer is judged, and connected to, as it is."""
    for name in ("rebind.example", "rebind-loopback.example"):
        [(status, _)] = attempt(lab, [(name, 80)], ways=("http",))[0].values()
        assert status == 200
        assert lab.asked().count(f"A {name}") == 1, "the address that was judged is the one connected to"
        answers, result = attempt(lab, [(name, 80)])
        assert [status for status, _ in answers.values()] == [403, 403, 2], answers
        records = lab.connections(result["id"])
        assert len(records) == 3 and all(r["SBXCTL_VERDICT"] == "refused" for r in records)
        assert lab.trespassers() == []


def test_failures_are_no_refusals(lab):
    """Each has its own answer: no such name, none that counts, nobody listens."""
    answers, result = attempt(lab, [(name, 80) for name in ("nobody.example", "empty.example", "closed.example")])
    assert [status for status, _ in answers.values()] == [502] * 6 + [4, 4, 5], answers
    use = result["networkUse"]
    assert (use["failed"], use["refused"], use["connections"]) == (9, 0, 9), use
    assert {r["SBXCTL_VERDICT"] for r in lab.connections(result["id"])} == {"failed"}
    assert {r.get("SBXCTL_ADDRESS") for r in lab.connections(result["id"])} == {None, CLOSED}


def test_a_resolver_that_is_silent_costs_time_and_no_more(lab):
    answers, _ = attempt(lab, [("silent.example", 80)], ways=("http",))
    [(status, text)] = answers.values()
    assert status in (502, 504), text


# ---- the administrator's lists


def test_an_address_is_judged_even_if_it_is_listed_as_a_name(lab):
    with lab.machine.configured(f"[Network]\nAllowedNames=* 127.0.0.1 ::1 {PRIVATE} {WEB} ::ffff:127.0.0.1\n"):
        answers, _ = attempt(lab, [(host, 80) for host in ("127.0.0.1", "::1", PRIVATE)])
        assert [status for status, _ in answers.values()] == [403] * 6 + [2] * 3, answers
        assert all("AllowedAddresses=" in text for status, text in answers.values() if status == 403)
        answers, _ = attempt(lab, [(WEB, 80)])
        assert [status for status, _ in answers.values()] == [200, 200, 0], answers
    assert lab.trespassers() == []


def test_addresses_can_be_allowed_and_denied(lab):
    with lab.machine.configured(f"[Network]\nAllowedAddresses=10.99.0.0/24\nDeniedAddresses={WEB} 3ffe::/16\n"):
        targets = [(name, 80) for name in ("private.example", "good.example", "six.example", "both.example")]
        answers, result = attempt(lab, targets, ways=("http",))
        assert [status for status, _ in answers.values()] == [200, 403, 403, 200], answers
        told = {r["SBXCTL_HOST"]: r.get("SBXCTL_RULE") for r in lab.connections(result["id"])}
        assert told["private.example"] is told["both.example"] is None
        assert told["good.example"] == f"DeniedAddresses={WEB}"
        assert told["six.example"] == "DeniedAddresses=3ffe::/16"
        assert {entry["at"] for entry in lab.seen()} == {PRIVATE}


def test_only_listed_names_where_there_is_a_list(lab):
    with lab.machine.configured("[Network]\nAllowedNames=good.example *.files.example\n"):
        targets = [(name, 80) for name in ("good.example", "files.example", "six.example")]
        answers, _ = attempt(lab, targets, ways=("http",))
        assert [status for status, _ in answers.values()] == [200, 403, 403], answers
        assert "AllowedNames=" in answers["http six.example 80"][1]


# ---- what the caller asks for


def test_a_caller_can_narrow_it_to_names(lab):
    targets = [(name, 80) for name in ("good.example", "files.example", "bad.example", WEB)]
    answers, result = attempt(lab, targets, network="--network=good.example,git.example")
    statuses = [status for status, _ in answers.values()]
    assert statuses == [200, 403, 403, 403, 200, 403, 403, 403, 0, 2, 2, 2], answers
    assert "--network=good.example,git.example" in answers["http files.example 80"][1]
    assert result["policy"]["networkNames"] == ["good.example", "git.example"]
    assert {host["name"] for host in result["networkUse"]["refusedHosts"]} == {"files.example", "bad.example", WEB}


def test_the_option_adds_when_it_comes_again(lab):
    answers, result = attempt(lab, [("good.example", 80), ("git.example", 80)], "--network=git.example", ways=("http",),
                              network="--network=good.example")
    assert [status for status, _ in answers.values()] == [200, 200]
    assert result["policy"]["networkNames"] == ["good.example", "git.example"]


@pytest.mark.parametrize("names, rule", [
    ("bad.example", "DeniedNames=bad.example"),
    ("below.bad.example", "DeniedNames=*.bad.example"),
    ("good.example,bad.example", "DeniedNames=bad.example"),
    (METADATA, "AllowedNames="),
    ("2130706433", ""),
    ("good..example", ""),
    ("*", ""),
    ("a.example,a\nb.example", ""),
])
def test_a_name_that_cannot_be_had_is_rejected_before_anybody_is_asked(lab, names, rule):
    done = lab.machine.sbxctl(["run", f"--network={names}", "-c", "print(4)"])
    assert done.status in (64, 125, 126) and done.text == "", done
    assert rule in done.errors and names.split(",")[-1].split("\n")[-1] in done.errors, done.errors


# ---- what is told afterwards


def test_each_connection_is_recorded_with_what_it_did(lab):
    result = lab.run("""
        connect("good.example", 443)
        assert http("good.example", path="/zeros?n=100000")[0] == 200
        socks("good.example", 80)
    """)
    assert result["status"] == "succeeded", result
    # Recorded as they end, which is when all is delivered.
    records = sorted(lab.connections(result["id"]), key=lambda r: r["SBXCTL_PROTOCOL"])
    assert [r["SBXCTL_PROTOCOL"] for r in records] == ["connect", "http", "socks5"]
    for record in records:
        assert record["SBXCTL_HOST"] == "good.example" and record["SBXCTL_ADDRESS"] == WEB
        assert record["SBXCTL_VERDICT"] == "allowed" and record["SBXCTL_UID"] == "1000" and record["SBXCTL_USER"] == "alice"
        assert int(record["SBXCTL_DURATION_USEC"]) < 60_000_000 and len(record["MESSAGE_ID"]) == 32
    assert len({r["MESSAGE_ID"] for r in records}) == 1
    page = records[1]
    assert 100000 < int(page["SBXCTL_BYTES_RECEIVED"]) < 101000 and 0 < int(page["SBXCTL_BYTES_SENT"]) < 1000
    assert [r["SBXCTL_PORT"] for r in records] == ["443", "80", "80"]
    shown = lab.machine.sbxctl(["show", result["id"]])
    assert "good.example" in shown.text, shown
    described = json.loads(lab.machine.sbxctl(["show", "--json", result["id"]]).text)
    assert described["networkUse"] == result["networkUse"]


def test_records_have_a_limit_and_the_count_is_kept(lab):
    found, result = lab.answers("print(json.dumps([http(f'n{i}.bad.example')[0] for i in range(250)]))")
    assert found == [403] * 250
    entries = lab.machine.journal(f"SBXCTL_RUN_ID={result['id']}", "_SYSTEMD_UNIT=sbxctl-helper.service")
    counted = [e for e in entries if "SBXCTL_CONNECTIONS" in e]
    assert len(lab.connections(result["id"])) - len(counted) in (199, 200) and len(counted) == 1
    assert int(counted[0]["SBXCTL_CONNECTIONS"]) == 50
    use = result["networkUse"]
    assert (use["connections"], use["refused"], len(use["refusedHosts"]), use["complete"]) == (250, 250, 64, False), use
