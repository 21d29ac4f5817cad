"""Requests that a proxy and a server might read in two ways. What the lab's recorder got tells: it is one whole request, or
nothing; and whatever a script sends or a server answers, the next connection is served."""

import json
import re

import pytest
from network_lab import RAW_PORT, WEB, internet, lab

HOST = f"raw.example:{RAW_PORT}"
# What must never arrive as a request of its own, or at all.
SECOND = f"GET http://{HOST}/smuggled HTTP/1.1\r\nHost: {HOST}\r\n\r\n"


def post(*fields, body="", version="HTTP/1.1", host=f"Host: {HOST}"):
    head = [f"POST http://{HOST}/one {version}", *([host] if host else []), *fields]
    return "\r\n".join(head) + "\r\n\r\n" + body


def get(*fields, target=f"http://{HOST}/one", version="HTTP/1.1", host=f"Host: {HOST}"):
    return "\r\n".join([f"GET {target} {version}", *([host] if host else []), *fields]) + "\r\n\r\n"


CHUNKED = "Transfer-Encoding: chunked"
# Nothing of these may pass.
REFUSED = {
    "length and chunked": post("Content-Length: 5", CHUNKED, body="0\r\n\r\n" + SECOND),
    "chunked and length": post(CHUNKED, "Content-Length: 5", body="0\r\n\r\n" + SECOND),
    "two lengths": post("Content-Length: 0", f"Content-Length: {len(SECOND)}", body=SECOND),
    "the same length twice": post("Content-Length: 2", "Content-Length: 2", body="ok"),
    "a list of lengths": post("Content-Length: 2, 2", body="ok"),
    "a length with a sign": post("Content-Length: +2", body="ok"),
    "a negative length": post("Content-Length: -2", body="ok"),
    "a hexadecimal length": post("Content-Length: 0x2", body="ok"),
    "an empty length": post("Content-Length: ", body=SECOND),
    "a length that overflows": post("Content-Length: 18446744073709551618", body="ok"),
    "a length within quotes": post('Content-Length: "2"', body="ok"),
    "another coding": post("Transfer-Encoding: identity", body=SECOND),
    "a coding before chunked": post("Transfer-Encoding: gzip, chunked", body="0\r\n\r\n"),
    "a coding after chunked": post("Transfer-Encoding: chunked, identity", body="0\r\n\r\n" + SECOND),
    "chunked twice": post("Transfer-Encoding: chunked, chunked", body="0\r\n\r\n" + SECOND),
    "two codings in two fields": post(CHUNKED, "Transfer-Encoding: identity", body="0\r\n\r\n" + SECOND),
    "a coding that is nearly chunked": post("Transfer-Encoding: xchunked", body="0\r\n\r\n" + SECOND),
    "a vertical tab before chunked": post("Transfer-Encoding:\x0bchunked", body="0\r\n\r\n" + SECOND),
    "a quoted coding": post('Transfer-Encoding: "chunked"', body="0\r\n\r\n" + SECOND),
    "chunked in HTTP/1.0": post(CHUNKED, version="HTTP/1.0", body="0\r\n\r\n" + SECOND),
    "a space before the colon": post("Transfer-Encoding : chunked", "Content-Length: 5", body="0\r\n\r\n" + SECOND),
    "a space before a field": post(" Transfer-Encoding: chunked", "Content-Length: 5", body="0\r\n\r\n"),
    "a tab before the colon": post("Content-Length\t: 5", body="0\r\n\r\n"),
    "an underscore is no hyphen": None,
    "a folded field": get("X-One: a", " Host: other.example"),
    "a folded coding": post("Transfer-Encoding:\r\n chunked", body="0\r\n\r\n" + SECOND),
    "a bare line feed": get("X-One: a\nContent-Length: 5"),
    "line feeds alone": get().replace("\r\n", "\n"),
    "a bare carriage return": get("X-One: a\rContent-Length: 5"),
    "a NUL in a value": get("X-One: a\0b"),
    "a NUL in a name": get("X-\0One: a"),
    "a control character": get("X-One: a\x01b"),
    "no colon": get("X-One"),
    "an empty name": get(": a"),
    "a name that is no token": get("X(One): a"),
    "two hosts": get(f"Host: {HOST}"),
    "two different hosts": get("Host: other.example"),
    "no host": get(host=None),
    "a tab in the request line": get().replace(" HTTP", "\tHTTP", 1),
    "two spaces in the request line": get().replace(" http", "  http", 1),
    "a space in the path": get(target=f"http://{HOST}/one two"),
    "a line feed in the path": get(target=f"http://{HOST}/one\nX: y"),
    "a fragment": get(target=f"http://{HOST}/one#two"),
    "a user": get(target=f"http://alice:secret@{HOST}/one"),
    "a relative target": get(target="/one"),
    "a star": get(target="*"),
    "another scheme": get(target=f"ftp://{HOST}/one"),
    "https without a tunnel": get(target=f"https://{HOST}/one"),
    "no host in the target": get(target="http:///one"),
    "an odd port": get(target="http://raw.example:081x/one"),
    "a port that overflows": get(target=f"http://raw.example:{65536 + RAW_PORT}/one"),
    "HTTP/2.0": get(version="HTTP/2.0"),
    "HTTP/1.2x": get(version="HTTP/1.1x"),
    "HTTP/0.9": f"GET http://{HOST}/one\r\n\r\n",
    "HTTP/2's preface": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a line break in a CONNECT": f"CONNECT raw.example\r\nX: y:{RAW_PORT} HTTP/1.1\r\n\r\n",
    "CONNECT without a port": "CONNECT raw.example HTTP/1.1\r\nHost: raw.example\r\n\r\n",
    "CONNECT to a URL": f"CONNECT http://{HOST}/ HTTP/1.1\r\nHost: {HOST}\r\n\r\n",
    "an encoded line break in the name": get(target=f"http://raw.example%0d%0aX:y:{RAW_PORT}/one"),
    "a head without end": "GET http://" + HOST + "/" + "a" * (64 << 10),
    "too many fields": get(*["X: y"] * 200),
    "a TLS hello": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + "\0" * 500 + "\r\n\r\n",
}
del REFUSED["an underscore is no hyphen"]
# Of these one request may arrive, whole, and nothing of what came after it.
ONE = {
    "a second request behind": get() + SECOND,
    "more than the length": post("Content-Length: 2", body="ok" + SECOND),
    "more than the last chunk": post(CHUNKED, body="2\r\nok\r\n0\r\n\r\n" + SECOND),
    "a request as a trailer": post(CHUNKED, body="2\r\nok\r\n0\r\nX: y\r\n\r\n" + SECOND),
    "a framing trailer": post(CHUNKED, body=f"2\r\nok\r\n0\r\nContent-Length: {len(SECOND)}\r\nHost: other.example\r\n\r\n" + SECOND),
    "an extension of a chunk": post(CHUNKED, body="2;a=b\r\nok\r\n0\r\n\r\n"),
    "another host in the field": get(host="Host: other.example"),
    "a length that goes by hop": post("Connection: Content-Length", "Content-Length: 2", body="ok" + SECOND),
    "a host that goes by hop": get("Connection: Host"),
    "a coding that goes by hop": post("Connection: Transfer-Encoding", CHUNKED, body="0\r\n\r\n" + SECOND),
    "an upgrade": get("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"),
    "kept alive": get("Connection: keep-alive", "Keep-Alive: timeout=100", "Proxy-Connection: keep-alive") + SECOND,
    "credentials for the proxy": get("Proxy-Authorization: Basic c2VjcmV0"),
    "a length with a GET": get("Content-Length: 2") + "ok" + SECOND,
    "HTTP/1.0": get(version="HTTP/1.0"),
    "coding in capitals": post("transfer-encoding: CHUNKED", body="2\r\nok\r\n0\r\n\r\n" + SECOND),
}
# A body that ends badly: its head has gone, but nothing that the server could read as the body's end, or as a request.
UNFINISHED = {
    "a size that is no number": post(CHUNKED, body="x\r\nok\r\n0\r\n\r\n"),
    "a size with a prefix": post(CHUNKED, body="0x2\r\nok\r\n0\r\n\r\n"),
    "a size with a sign": post(CHUNKED, body="+2\r\nok\r\n0\r\n\r\n"),
    "a size that overflows": post(CHUNKED, body="10000000000000002\r\nok\r\n0\r\n\r\n"),
    "a size that ends in a line feed": post(CHUNKED, body="2\nok\r\n0\r\n\r\n"),
    "a size with a space": post(CHUNKED, body="2 \r\nok\r\n0\r\n\r\n"),
    "a chunk without its end": post(CHUNKED, body="2\r\nokXX0\r\n\r\n"),
    "a chunk that ends in a line feed": post(CHUNKED, body="2\r\nok\n0\r\n\r\n"),
    "an endless size": post(CHUNKED, body="0" * 100000),
    "an endless extension": post(CHUNKED, body="2;" + "a" * 100000),
    "a body that ends early": post("Content-Length: 100", body="ok"),
}

SEND = """
answers = {}
for name, text in json.loads(CASES).items():
    with dial() as s:
        try:
            s.sendall(text.encode("latin-1"))
            s.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        answers[name] = read_all(s).decode("latin-1")
print(json.dumps([answers, http("good.example")[0]]))
"""
FORBIDDEN_FIELDS = {"connection", "keep-alive", "proxy-connection", "proxy-authorization", "upgrade", "te", "http2-settings"}


def exchange(lab, cases):
    """For each case what the script got, and what the recorder did; each has a path of its own."""
    numbered = {name: text.replace("/one", f"/{number}", 1) for number, (name, text) in enumerate(cases.items())}
    lab.forget()
    (answers, after), _ = lab.answers(f"CASES = {json.dumps(numbered)!r}\n" + SEND)
    assert after == 200
    lab.machine.wait_for(lambda: lab.open_connections() == 0, 20, "the recorder")
    received = [entry["raw"] for entry in lab.seen() if entry.get("raw")]
    by_path = {name: [raw for raw in received if raw.startswith((f"POST /{n} ", f"GET /{n} "))] for n, name in enumerate(cases)}
    assert sum(map(len, by_path.values())) == len(received), received
    return {name: (answers[name], by_path[name]) for name in cases}


def one_request(raw):
    """Its fields and body, by the strictest reading of RFC 9112; fails if that is not all there is."""
    head, separator, rest = raw.partition("\r\n\r\n")
    assert separator, raw
    line, *fields = head.split("\r\n")
    assert re.fullmatch(r"(GET|POST) /[^ ]* HTTP/1\.[01]", line), line
    assert all(re.fullmatch(r"[A-Za-z0-9-]+:[ \t]?[\x20-\x7e\t]*", field) for field in fields), fields
    pairs = [(name.lower(), value.strip()) for name, value in (field.split(":", 1) for field in fields)]
    values = dict(pairs)
    assert [name for name, _ in pairs].count("host") == 1 and values["host"] == HOST, pairs
    assert values.pop("connection") == "close" and not FORBIDDEN_FIELDS & set(values), pairs
    if "transfer-encoding" in values:
        assert "content-length" not in values and values["transfer-encoding"].lower() == "chunked"
        assert re.fullmatch(r"(?s)(2(;[^\r\n]*)?\r\nok\r\n)?0\r\n(?:[^\r\n]+\r\n)*\r\n", rest), rest
    else:
        assert len(rest) == int(values.get("content-length", 0)), raw
    return pairs, rest


def test_what_can_be_read_in_two_ways_reaches_no_server(lab):
    for name, (answer, received) in exchange(lab, {**REFUSED, "good": get()}).items():
        if name == "good":
            assert len(received) == 1 and answer.startswith("HTTP/1.1 200 "), (name, answer, received)
        else:
            assert received == [], (name, received)
            assert re.match(r"HTTP/1\.[01] (4\d\d|501|505) ", answer) or answer == "", (name, answer)


def test_one_connection_carries_one_request(lab):
    for name, (answer, received) in exchange(lab, ONE).items():
        assert len(received) <= 1, (name, received)
        assert "smuggled" not in "".join(received), (name, received)
        if received:
            one_request(received[0])
            assert answer.startswith("HTTP/1.1 200 ") and answer.count("HTTP/1.") == 1, (name, answer)
        else:
            assert answer.startswith("HTTP/1.1 4"), (name, answer)


def test_ordinary_requests_are_among_those_that_pass(lab):
    names = ["a second request behind", "more than the length", "more than the last chunk", "another host in the field",
             "kept alive", "credentials for the proxy", "an upgrade", "coding in capitals", "HTTP/1.0"]
    for name, (_, received) in exchange(lab, {name: ONE[name] for name in names}).items():
        assert len(received) == 1, name


def test_a_body_that_ends_badly_is_never_made_whole(lab):
    for name, (answer, received) in exchange(lab, {**UNFINISHED, "good": get()}).items():
        if name == "good":
            continue
        assert len(received) <= 1, (name, received)
        for raw in received:
            head, _, body = raw.partition("\r\n\r\n")
            assert not body.endswith("0\r\n\r\n") and len(body) < 70000, (name, body[-100:])
        assert answer.count("HTTP/1.") <= 1, (name, answer)


SOCKS_NAMES = [b"raw.example\r\nX: y", b"raw.example\0.bad.example", b"\xff\xfe", b"", b"raw.example/", b"a b", b"raw.example:80",
               b"%s", b"..", b"-", b"*", b"*.example", b"[::1]", b"\x1b[2J"]


def test_no_name_in_socks_is_more_than_a_name(lab):
    lab.forget()
    found, result = lab.answers(f"""
        def ask(name):
            with dial() as s:
                s.sendall(b"\\5\\1\\0")
                s.recv(2)
                s.sendall(b"\\5\\1\\0\\3" + bytes([len(name)]) + name + struct.pack(">H", {RAW_PORT}))
                s.shutdown(socket.SHUT_WR)
                return list(read_all(s)[:2])
        print(json.dumps([ask(name) for name in {SOCKS_NAMES!r}]))
    """)
    assert all(answer == [] or answer[0] == 5 and answer[1] in (1, 2, 4, 8) for answer in found), found
    assert lab.seen() == [] and lab.asked() == []
    for record in lab.connections(result["id"]):
        assert record["SBXCTL_HOST"].isprintable() and record["SBXCTL_VERDICT"] in ("refused", "failed"), record


MALFORMED_SOCKS = [
    b"\5", b"\5\0", b"\5\1", b"\5\1\2", b"\5\xff" + bytes(range(1, 255)), b"\5\1\0\5\2\0\1\x7f\0\0\1\0\x50",
    b"\5\1\0\5\3\0\1\x7f\0\0\1\0\x50", b"\5\1\0\5\1\0\2\x7f\0\0\1\0\x50", b"\5\1\0\5\1\1\3\1a\0\x50", b"\5\1\0\4\1\0\x50\x7f\0\0\1\0",
    b"\4\1\0\x50\x7f\0\0\1\0", b"\5\1\0\5\1\0\3\xffshort", b"\5\1\0\5\1\0\4\0", b"\5\2\0\1\5\xff\0\1", b"\5" * 1000, b"\0" * 1000,
]


def test_malformed_socks_is_answered_or_closed(lab):
    lab.forget()
    found, _ = lab.answers(f"""
        def ask(data):
            with dial() as s:
                try:
                    s.sendall(data)
                    s.shutdown(socket.SHUT_WR)
                except OSError:
                    pass
                return read_all(s).hex()
        print(json.dumps([[ask(data) for data in {MALFORMED_SOCKS!r}], http("good.example")[0]]))
    """)
    answers, after = found
    assert after == 200 and not [a for a in answers if a.startswith("05000500")], answers
    # BIND and UDP ASSOCIATE: command not supported.
    assert answers[5][4:8] == answers[6][4:8] == "0507", answers
    assert answers[3] == "05ff", answers
    assert {entry["at"] for entry in lab.seen()} == {WEB}


# ---- what a server answers

# Two lengths mislead nobody but the script: no other answer follows.
WHOLE = ["/connection", "/early", "/two-lengths"]
BROKEN = ["/nothing", "/half", "/no-http", "/bad-status", "/bare-lf", "/folded", "/long-head", "/many-fields"]


def test_a_server_cannot_answer_in_two_ways(lab):
    found, _ = lab.answers(f"""
        answers = {{path: raw(f"GET http://{HOST}{{path}} HTTP/1.1\\r\\nHost: {HOST}\\r\\n\\r\\n".encode()).decode("latin-1")
                   for path in {BROKEN + WHOLE + ["/continues"]!r}}}
        print(json.dumps([{{path: text[:2000] for path, text in answers.items()}}, len(answers["/continues"]), http("good.example")[0]]))
    """)
    answers, continues, after = found
    assert after == 200
    for path in BROKEN:
        assert re.match(r"HTTP/1\.1 50[24] ", answers[path]) or answers[path] == "", (path, answers[path])
    kept = answers["/connection"].lower()
    assert "\r\nx-kept: 2\r\n" in kept and "x-hop" not in kept and "keep-alive" not in kept
    assert kept.count("\r\nconnection: close\r\n") == 1
    assert answers["/early"].startswith("HTTP/1.1 413 ")
    # The answers before the last are no way to fill anything.
    assert continues < 4 << 20
