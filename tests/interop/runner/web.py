"""HTTP/3 programs: servers for `thalweg get`, clients for `thalweg serve`, and what is asked of them."""

import json
import os
import re
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field

from . import debian, pair, peers
from .cases import KIB, MIB
from .peers import HERE, WORK, Missing

MANY = 300
PARALLEL = 50  # requests of curl at once; with more than the server's limit of streams it opens a second connection
START_TIMEOUT = 30  # seconds until a server answers
PART = MIB  # bytes that are there when a download is interrupted


@dataclass
class Case:
    name: str
    about: str  # what is proved, for docs/interop.md
    files: list  # sizes in bytes
    timeout: int = 60  # seconds
    names: list = field(default_factory=list)  # file names, filled in below


ALL = [
    Case("file", "one small file", [KIB]),
    Case("many", f"{MANY} small files over one connection: Thalweg writes one trace", [2 * KIB] * MANY),
    Case("large", "one file of 10 MiB", [10 * MIB]),
    Case("resume", "an interrupted download continues where it stopped, by a range request", [10 * MIB]),
    Case("head", "HEAD reports the length and sends no body", [KIB]),
    Case("put", "an upload arrives complete", [MIB]),
]
for case in ALL:
    case.names = [f"web-{case.name}-{index:03}" for index in range(len(case.files))]
CASES = {case.name: case for case in ALL}

CERTS = WORK / "certs"
WWW = WORK / "www"


def free_port():
    """A port of 127.0.0.1 that is free for TCP and UDP: these programs cannot say which one the system picked."""
    for _ in range(100):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tcp, \
                socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            tcp.bind(("127.0.0.1", 0))
            try:
                udp.bind(tcp.getsockname())
            except OSError:
                continue
            return tcp.getsockname()[1]
    raise AssertionError("no port is free for both TCP and UDP")


def wait_for_tcp(program, port):
    """Waits until the TCP side of a server accepts; its UDP side is bound by then."""
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline and program.process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"{program.label} does not listen (exit code {program.process.poll()})")


# Servers: `start` runs them on the files of `www` and returns the port.


class Serve:
    """Our own, for the clients."""

    name = "thalweg serve"
    cases = tuple(CASES)
    lacks = {}

    def build(self):
        self.program = peers.program()

    def version(self):
        return f"thalweg {peers.locked('thalweg')}"

    def start(self, stage, www, *options):
        server = stage.start("server", [self.program, "serve", www, "--listen", "127.0.0.1:0", "--cert",
                                        CERTS / "cert.pem", "--key", CERTS / "key.pem", *options], merge=True)
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline and server.process.poll() is None:
            found = re.search(r"https://[^\s/]+:(\d+)", "\n".join(list(server.lines)))
            if found:
                return int(found.group(1))
            time.sleep(0.05)
        raise AssertionError("thalweg serve does not say where it listens")


class Nginx:
    name = "nginx"
    cases = tuple(CASES)
    lacks = {}

    def build(self):
        self.command = debian.program("nginx", "-V", "http_v3_module")

    def version(self):
        text = subprocess.run([*self.command, "-v"], capture_output=True, text=True).stderr
        return text.strip().rpartition(": ")[2].replace("/", " ")

    def start(self, stage, www, plain=False):
        """`plain`: HTTP/1.1 without TLS, as what stands behind a proxy."""
        port = free_port()
        home = stage.folder / "nginx"
        home.mkdir()
        if plain:
            listen = f"listen 127.0.0.1:{port};"
        else:
            listen = f"""listen 127.0.0.1:{port} quic reuseport;
    listen 127.0.0.1:{port} ssl;
    ssl_certificate {CERTS / 'cert.pem'};
    ssl_certificate_key {CERTS / 'key.pem'};
    ssl_protocols TLSv1.3;"""
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        paths = " ".join(f"{kind}_temp_path {home / kind};" for kind in kinds)
        user = "user root;" if os.geteuid() == 0 else ""
        (home / "nginx.conf").write_text(f"""{user}
daemon off;
worker_processes 1;
pid {home / 'pid'};
error_log stderr info;
events {{ worker_connections 512; }}
http {{
  access_log {home / 'access.log'};
  {paths}
  default_type application/octet-stream;
  server {{
    {listen}
    root {www};
  }}
}}
""")
        command = [*self.command, "-e", "stderr", "-p", home, "-c", home / "nginx.conf"]
        wait_for_tcp(stage.start("backend" if plain else "server", command), port)
        return port


class Haproxy:
    name = "HAProxy"
    cases = tuple(CASES)
    lacks = {}

    def build(self):
        self.command = debian.program("haproxy", "-vv", "+QUIC")
        self.behind = Nginx()
        self.behind.build()

    def version(self):
        text = subprocess.run([*self.command, "-v"], capture_output=True, text=True).stdout
        return "HAProxy " + text.split()[2]

    def start(self, stage, www):
        port, behind = free_port(), self.behind.start(stage, www, plain=True)
        pem = stage.folder / "haproxy.pem"
        pem.write_text((CERTS / "cert.pem").read_text() + (CERTS / "key.pem").read_text())
        config = stage.folder / "haproxy.cfg"
        config.write_text(f"""global
  limited-quic
  log stderr local0
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
frontend files
  bind quic4@127.0.0.1:{port} ssl crt {pem} alpn h3
  bind 127.0.0.1:{port} ssl crt {pem} alpn h2,http/1.1
  default_backend nginx
backend nginx
  server nginx 127.0.0.1:{behind}
""")
        wait_for_tcp(stage.start("server", [*self.command, "-db", "-f", config]), port)
        pem.unlink()
        return port


def venv():
    """Caddy and hypercorn from packages, at the versions of packages/requirements.txt."""
    return peers.venv("programs-venv", HERE / "packages" / "requirements.txt")


class Caddy:
    name = "Caddy"
    cases = tuple(CASES)
    lacks = {}

    def build(self):
        self.command = [venv() / "caddy"]

    def version(self):
        return "Caddy " + subprocess.run([*self.command, "version"], capture_output=True, text=True).stdout.split()[0]

    def start(self, stage, www):
        port = free_port()
        config = stage.folder / "Caddyfile"
        config.write_text(f"""{{
  admin off
  auto_https off
  persist_config off
  default_bind 127.0.0.1
  log {{
    output stderr
  }}
}}
https://localhost:{port} {{
  tls {CERTS / 'cert.pem'} {CERTS / 'key.pem'}
  root * {www}
  file_server
}}
""")
        home = {"HOME": str(stage.folder), "XDG_DATA_HOME": str(stage.folder), "XDG_CONFIG_HOME": str(stage.folder)}
        command = [*self.command, "run", "--adapter", "caddyfile", "--config", config]
        wait_for_tcp(stage.start("server", command, home), port)
        return port


class Hypercorn:
    name = "hypercorn"
    cases = tuple(CASES)
    lacks = {"resume": "its application does not implement ranges"}

    def build(self):
        self.command = [venv() / "hypercorn"]

    def version(self):
        text = (HERE / "packages" / "requirements.txt").read_text()
        return "hypercorn " + re.search(r"hypercorn\S*==(\S+)", text).group(1)

    def start(self, stage, www):
        port = free_port()
        server = stage.start("server", [
            *self.command, "--workers", "0", "--quic-bind", f"127.0.0.1:{port}", "--bind", f"127.0.0.1:{port}",
            "--certfile", CERTS / "cert.pem", "--keyfile", CERTS / "key.pem", "files:app",
        ], {"PYTHONPATH": str(HERE / "packages"), "PYTHONDONTWRITEBYTECODE": "1", "WWW": str(www)})
        wait_for_tcp(server, port)
        return port


class PeerServer:
    """The server of a foreign peer of `run`, over HTTP/3; `run` has what else there is to see."""

    cases = ("many",)
    lacks = {}

    def __init__(self, peer):
        self.peer, self.name = peer, peer.name
        self.traces = {"QLOGDIR": ""} if peer.slow_traces else {}

    def build(self):
        if "http3" in self.peer.lacks:
            raise Missing(self.peer.lacks["http3"])
        self.peer.build()

    def version(self):
        return self.peer.version()

    def start(self, stage, www):
        server = stage.start("server", [*self.peer.command, "server"], {
            "TESTCASE": "http3", **self.traces, "LISTEN": "127.0.0.1:0", "WWW": str(www),
            "CERT": str(CERTS / "cert.pem"), "KEY": str(CERTS / "key.pem"),
        })
        return int(pair.listening(server, "INTEROP", self.name).rpartition(":")[2])


# Clients: `fetch` gets the files of a case into the stage's downloads, and raises AssertionError if something is wrong.


def ended(program, seconds, about):
    """Waits for a client; its exit code must be 0."""
    try:
        code = program.process.wait(seconds)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"{about} did not end within {seconds} s") from None
    program.reader.join(5)
    assert code == 0, f"{about} exits with {code}"


class Get:
    """Our own, for the servers."""

    name = "thalweg get"
    cases = ("file", "many", "large", "resume")
    lacks = {}

    def build(self):
        self.program = peers.program()

    def command(self, stage, port, names, *options):
        urls = [f"https://localhost:{port}/{name}" for name in names]
        trust = ["--ca", CERTS / "ca.pem"]
        # A lost connection is a failure here, not something to mend.
        fixed = ["--quic-only", "--json", "--retries", "0", *trust, "--dir", stage.downloads]
        return [self.program, "get", *fixed, *options, *urls]

    def fetch(self, stage, port, case):
        options = []
        if case.name == "resume":
            self.interrupt(stage, port, case)
            options = ["--resume"]
        client = stage.start("client", self.command(stage, port, case.names, *options))
        ended(client, case.timeout, self.name)
        reports = [json.loads(line) for line in client.lines if line.startswith("{")]
        assert len(reports) == len(case.names), f"{len(reports)} reports for {len(case.names)} files"
        others = {report["protocol"] for report in reports} - {"h3"}
        assert not others, f"spoke {', '.join(others)}"
        if case.name == "resume":
            begun = reports[0]["resumed_from"]
            assert begun >= PART, f"began at byte {begun}, expected {PART} or more"

    def interrupt(self, stage, port, case):
        """Begins the download slowly, and stops it when PART is there."""
        first = stage.start("interrupted", self.command(stage, port, case.names, "--limit-rate", "20 Mbps"))
        part = stage.downloads / (case.names[0] + ".part")
        deadline = time.monotonic() + case.timeout
        while not part.exists() or part.stat().st_size < 2 * PART:
            assert first.process.poll() is None, f"the first download ended with {first.process.returncode}"
            assert time.monotonic() < deadline, f"the first download brought less than {2 * PART} bytes"
            time.sleep(0.02)
        first.process.send_signal(signal.SIGINT)
        first.process.wait(case.timeout)


class Curl:
    name = "curl"
    cases = ("file", "many", "large", "resume", "head", "put")
    lacks = {}

    def build(self):
        self.program = debian.program("curl", "--version", " HTTP3 ")

    def version(self):
        text = subprocess.run([*self.program, "--version"], capture_output=True, text=True).stdout.split()
        parts = [word for word in text if word.startswith(("OpenSSL/", "ngtcp2/", "nghttp3/"))]
        return f"curl {text[1]} ({', '.join(parts)})"

    def fetch(self, stage, port, case):
        out = "INTEROP conn=1 code=%{http_code} version=%{http_version} connects=%{num_connects}\\n"
        urls = [f"https://localhost:{port}/{name}" for name in case.names]
        options = {
            "many": ["--parallel", "--parallel-max", str(PARALLEL)],
            "resume": ["--continue-at", "-"],
            "head": ["--head"],
            "put": ["--upload-file", WWW / case.names[0]],
        }.get(case.name, [])
        if case.name == "resume":
            (stage.downloads / case.names[0]).write_bytes((WWW / case.names[0]).read_bytes()[:PART])
        if case.name != "put":
            options = [*options, "--remote-name-all", "--output-dir", stage.downloads]
        client = stage.start("client", [
            *self.program, "--http3-only", "--ipv4", "--cacert", CERTS / "ca.pem", "--no-progress-meter",
            "--write-out", out, *options, *urls,
        ])
        ended(client, case.timeout, self.name)
        lines = [dict(word.split("=", 1) for word in line.split()[1:]) for line in client.matching("INTEROP conn=")]
        assert len(lines) == len(urls), f"{len(lines)} answers for {len(urls)} requests"
        codes = {"resume": {"206"}, "put": {"201", "204"}}.get(case.name, {"200"})
        for line in lines:
            assert line["version"] == "3", f"spoke HTTP/{line['version']}"
            assert line["code"] in codes, f"status {line['code']}, expected {' or '.join(sorted(codes))}"
        connects = sum(int(line["connects"]) for line in lines)
        assert connects == 1, f"made {connects} connections"
        if case.name == "head":
            told = (stage.downloads / case.names[0]).read_text().lower().splitlines()
            assert f"content-length: {case.files[0]}" in told, f"no Content-Length of {case.files[0]} in {told}"


class PeerClient:
    """The client of a foreign peer of `run`, over HTTP/3."""

    cases = ("many",)
    lacks = {}

    def __init__(self, peer):
        self.peer, self.name = peer, peer.name
        self.traces = {"QLOGDIR": ""} if peer.slow_traces else {}

    build, version = PeerServer.build, PeerServer.version

    def fetch(self, stage, port, case):
        client = stage.start("client", [*self.peer.command, "client"], {
            "TESTCASE": "http3", **self.traces, "SERVER": f"127.0.0.1:{port}", "CA": str(CERTS / "ca.pem"),
            "DOWNLOADS": str(stage.downloads),
            "REQUESTS": " ".join(f"https://localhost:{port}/{name}" for name in case.names),
        })
        ended(client, case.timeout, self.name)


# One run.


def connections(stage, ours):
    """How many connections our side had: it writes one trace for each."""
    return len(list((stage.folder / "qlog" / ours).glob("*.sqlog")))


def run(client, server, case):
    """The result of one case of one pair, one of which is ours."""
    name = f"{client.name}-to-{server.name}/{case.name}".replace(" ", "-")
    reason = server.lacks.get(case.name) or client.lacks.get(case.name)
    if reason:
        return pair.Result(client.name, server.name, case.name, "skipped", reason)
    started = time.monotonic()
    stage = pair.Stage(WORK / "logs" / name)
    problem = ""
    try:
        attempt(client, server, case, stage)
    except AssertionError as found:
        problem = str(found)
    finally:
        stage.stop()
    stage.settle(name, problem)
    status = "failed" if problem else "passed"
    return pair.Result(client.name, server.name, case.name, status, problem, time.monotonic() - started)


def attempt(client, server, case, stage):
    site, options = WWW, []
    if case.name == "put":
        site, options = stage.folder / "site", ["--allow-upload"]
        site.mkdir()
    port = server.start(stage, site, *options)
    stage.capture(port)
    client.fetch(stage, port, case)
    ours, role = ("client", client) if isinstance(client, Get) else ("server", server)
    if case.name == "put":
        same = pair.digest(site / case.names[0]) == pair.digest(WWW / case.names[0])
        assert same, "what arrived differs from the original"
    elif case.name != "head":
        for problem in pair.compare(case, stage.downloads):
            raise AssertionError(problem)
    stage.stop(keep_downloads=True)  # the last lines of the traces are written then
    if case.name == "many":
        count = connections(stage, ours)
        assert count == 1, f"{role.name} has traces of {count} connections, expected 1"


def servers(foreign):
    return {server.name: server for server in (Nginx(), Haproxy(), Caddy(), Hypercorn(), *map(PeerServer, foreign))}


def clients(foreign):
    return {client.name: client for client in (Curl(), *map(PeerClient, foreign))}
