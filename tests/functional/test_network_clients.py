"""A granted network as scripts use it: what people fetch things with works, unchanged, over http and https. Over either engine."""

import json

import pytest
from network_lab import internet, lab

RUN = "import subprocess, sys\ndef sh(*words):\n    subprocess.run(words, check=True)\n"
# Each prints what it got, and nothing else on stdout.
HELLO = {
    "requests": "import requests\nprint(requests.get('{url}').text, end='')",
    "urllib": "import urllib.request\nprint(urllib.request.urlopen('{url}').read().decode(), end='')",
    "httpx": "import httpx\nprint(httpx.get('{url}').text, end='')",
    "curl": RUN + "sh('curl', '-sS', '{url}')",
    "wget": RUN + "sh('wget', '-q', '-O', '-', '{url}')",
}
PACKAGES = {
    "git": RUN + "sh('git', 'clone', '--quiet', '{scheme}://git.example/demo.git')\nprint(open('demo/answer').read(), end='')",
    "pip": RUN + """
sh(sys.executable, '-m', 'pip', 'install', '--quiet', '--index-url', '{scheme}://pypi.example/simple/',
   '--trusted-host', 'pypi.example', '--target', 'packages', 'demo')
sys.path.insert(0, 'packages')
import demo
print(demo.answer)
""",
    "npm": RUN + """
sh('npm', 'install', '--silent', '--registry={scheme}://npm.example/npm-{scheme}/', 'demo')
sh('node', '-p', 'require("demo")')
""",
}
SCHEMES = ("http", "https")


def output_of(lab, script):
    result = lab.run(script)
    assert result["status"] == "succeeded", result
    return result["stdout"]["text"], result["networkUse"]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("client", HELLO)
def test_a_page_comes(lab, client, scheme):
    text, use = output_of(lab, HELLO[client].format(url=f"{scheme}://good.example/hello"))
    assert text == "hello from good.example\n"
    port = 443 if scheme == "https" else 80
    assert [(host["name"], host["port"]) for host in use["hosts"]] == [("good.example", port)]
    assert use["refused"] == use["failed"] == 0 and use["connections"] == 1 and use["complete"]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("client", PACKAGES)
def test_a_package_comes(lab, client, scheme):
    text, use = output_of(lab, PACKAGES[client].format(scheme=scheme))
    assert text.split()[-1] == "4", text
    name = {"pip": "pypi"}.get(client, client) + ".example"
    # npm asks for nothing but its registry, pip for no newer version of itself.
    assert {host["name"] for host in use["hosts"]} == {name} and use["refused"] == 0, use


@pytest.mark.parametrize("scheme", SCHEMES)
def test_node_fetches_where_its_version_honours_the_variables(lab, scheme):
    """From Node 24 on (and 22.21) fetch looks at NODE_USE_ENV_PROXY; an older one finds no way, and takes none beside it."""
    lab.forget()
    text, use = output_of(lab, RUN + f"""
sh('node', '-p', 'process.versions.node')
sh('node', '-e', 'fetch("{scheme}://good.example/hello").then(a => a.text(), e => e.cause.code + "\\\\n").then(t => process.stdout.write(t))')
""")
    version, answer = text.splitlines()
    if tuple(map(int, version.split("."))) >= (24,):
        assert answer == "hello from good.example" and use["connections"] == 1
    else:
        assert answer in ("ENOTFOUND", "EAI_AGAIN") and use["connections"] == 0 and lab.seen() == []


def test_curl_goes_by_socks_with_names_resolved_outside(lab):
    script = RUN + "sh('curl', '-sS', '--noproxy', '', '--proxy', 'socks5h://127.0.0.1:3128', 'https://good.example/hello')"
    text, use = output_of(lab, script)
    assert text == "hello from good.example\n" and use["connections"] == 1


def test_a_redirect_to_another_host_is_followed_through_the_proxy(lab):
    url = "http://good.example/redirect?to=https://files.example/hello"
    text, use = output_of(lab, HELLO["requests"].format(url=url))
    assert text == "hello from files.example\n"
    assert [(host["name"], host["port"]) for host in use["hosts"]] == [("good.example", 80), ("files.example", 443)]


@pytest.mark.parametrize("name", ["six.example", "chain.example", "late.example", "both.example"])
def test_a_name_is_resolved_outside_whatever_its_answer_is_made_of(lab, name):
    """IPv6 alone, a chain of aliases, an answer after a second, and a private address beside a public one."""
    text, _ = output_of(lab, HELLO["curl"].format(url=f"https://{name}/hello"))
    assert text == f"hello from {name}\n"
    assert lab.trespassers() == []


def test_what_is_sent_up_arrives_whole(lab):
    found, result = lab.answers("""
        import hashlib, requests
        body = os.urandom(3 << 20)
        digest = hashlib.sha256(body).hexdigest()
        def pieces():
            for at in range(0, len(body), 100001):
                yield body[at:at + 100001]
        answers = [requests.put(f"{scheme}://good.example/up", data=data).json()
                   for scheme, data in (("http", body), ("http", pieces()), ("https", body))]
        print(json.dumps([answers, len(body), digest]))
    """)
    answers, size, digest = found
    assert answers == [{"size": size, "sha256": digest}] * 3
    assert result["networkUse"]["bytesSent"] > 3 * size


def test_an_upload_may_wait_for_100_continue(lab):
    script = RUN + """
open('body', 'wb').write(bytes(2 << 20))
sh('curl', '-sS', '-H', 'Expect: 100-continue', '--expect100-timeout', '20', '-T', 'body', 'http://good.example/up')
"""
    text, _ = output_of(lab, script)
    assert json.loads(text)["size"] == 2 << 20


def test_other_programs_are_told_of_the_proxy_in_their_own_words(lab):
    found, _ = lab.answers("print(json.dumps(dict(os.environ)))")
    proxy = "http://127.0.0.1:3128"
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        assert found[name] == found[name.upper()] == proxy
    assert found["no_proxy"] == found["NO_PROXY"] == "localhost,127.0.0.1,::1"
    assert found["npm_config_proxy"] == found["npm_config_https_proxy"] == proxy
    assert found["NODE_USE_ENV_PROXY"] == "1"
    for scheme in ("http", "https"):
        assert f"-D{scheme}.proxyHost=127.0.0.1 -D{scheme}.proxyPort=3128" in found["JAVA_TOOL_OPTIONS"]
    assert "PIP_RETRIES" not in found


def test_a_run_without_network_has_no_proxy(lab):
    result = lab.run("", network=None)
    assert result["status"] == "failed" and "http_proxy" in result["stderr"]["text"], result
    result = lab.machine.run_json(["-c", """
import socket
try:
    socket.create_connection(("127.0.0.1", 3128), 5)
except ConnectionRefusedError:
    print("refused")
"""])
    assert result["stdout"]["text"] == "refused\n", result
    assert result.get("networkUse") is None
