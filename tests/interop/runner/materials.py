"""Materials of every run: a certificate authority, a certificate for localhost, and the files to serve."""

import random
import subprocess

from .cases import ALL
from .peers import WORK, tool

EXTENSIONS = """subjectAltName=DNS:localhost,IP:127.0.0.1
basicConstraints=CA:FALSE
keyUsage=digitalSignature
extendedKeyUsage=serverAuth
"""


def prepare(cases=ALL):
    certificates()
    files(cases)


def certificates():
    """P-256, good for ten days, made anew if older than that."""
    openssl = tool("openssl", "openssl")
    certs = WORK / "certs"
    certs.mkdir(parents=True, exist_ok=True)

    def call(*arguments):
        command = [openssl, *arguments]
        return subprocess.run(command, cwd=certs, stdin=subprocess.DEVNULL, capture_output=True, text=True)

    if (certs / "cert.pem").exists() and call("x509", "-in", "cert.pem", "-checkend", "3600", "-noout").returncode == 0:
        return
    (certs / "extensions").write_text(EXTENSIONS)
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-sha256"]
    for arguments in (
        ["req", "-x509", *key, "-days", "10", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=interop authority",
         "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign"],
        ["req", "-new", *key, "-keyout", "key.pem", "-out", "request.pem", "-subj", "/CN=localhost"],
        ["x509", "-req", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "10",
         "-sha256", "-extfile", "extensions", "-out", "cert.pem"],
    ):
        done = call(*arguments)
        if done.returncode != 0:
            raise RuntimeError(f"openssl {arguments[0]} failed: {done.stderr}")


def files(cases):
    """Random bytes, the same on every machine."""
    www = WORK / "www"
    www.mkdir(parents=True, exist_ok=True)
    for case in cases:
        for name, size in zip(case.names, case.files):
            file = www / name
            if not file.exists() or file.stat().st_size != size:
                file.write_bytes(random.Random(name).randbytes(size))
