"""A test CA and the server certificate that it signed, made by openssl when they are not there yet."""

import os
import ssl
import subprocess


def make(directory, domain):
    os.makedirs(directory, exist_ok=True)

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=directory, check=True, stdin=subprocess.DEVNULL, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc"]
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "3650", "-subj", "/CN=CA of the E2B stand-in")
    openssl("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", f"/CN={domain}")
    with open(os.path.join(directory, "names"), "w", encoding="ascii") as names:
        names.write(f"subjectAltName=DNS:{domain},DNS:*.{domain},DNS:localhost,IP:127.0.0.1,IP:::1\n")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "3650",
            "-extfile", "names", "-out", "server.pem")


def one_context(directory, protocols):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.path.join(directory, "server.pem"), os.path.join(directory, "server.key"))
    context.set_alpn_protocols(protocols)
    return context


def server_context(directory, domain, settings):
    if not os.path.exists(os.path.join(directory, "server.pem")):
        make(directory, domain)
    context = one_context(directory, ["h2", "http/1.1"])
    older = one_context(directory, ["http/1.1"])

    def choose(connection, name, chosen):
        if not settings["http2"]:
            connection.context = older

    context.sni_callback = choose
    return context
