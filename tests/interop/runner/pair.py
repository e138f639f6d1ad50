"""Runs one case between one client and one server on loopback, and judges it."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

from .cases import Observed
from .peers import HERE, OURS, WORK

UNSUPPORTED = 127
START_TIMEOUT = 10  # seconds until a server listens
EVIDENCE_TIMEOUT = 3  # seconds for the server to report the connections that the client closed
STOP_TIMEOUT = 5  # seconds between SIGTERM and SIGKILL


@dataclass
class Result:
    client: str
    server: str
    case: str
    status: str  # passed, failed, skipped
    reason: str = ""
    seconds: float = 0.0


class Unsupported(Exception):
    def __init__(self, name):
        self.name = name


class Program:
    """A child process whose standard output is read line by line."""

    def __init__(self, label, command, env, logs):
        self.label = label
        self.lines = []
        self.changed = threading.Condition()
        self.errors = open(logs / f"{label}.err", "wb")
        self.output = open(logs / f"{label}.out", "w", encoding="utf-8")
        self.process = subprocess.Popen(
            [str(part) for part in command], env={**os.environ, **env}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=self.errors, text=True,
        )
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.output.write(line)
            with self.changed:
                self.lines.append(line.strip())
                self.changed.notify_all()
        with self.changed:
            self.changed.notify_all()

    def matching(self, prefix):
        return [line for line in self.lines if line.startswith(prefix)]

    def wait_for(self, prefix, count, seconds):
        """Waits until `count` lines start with `prefix`; returns whether they came."""
        deadline = time.monotonic() + seconds
        with self.changed:
            while len(self.matching(prefix)) < count:
                left = deadline - time.monotonic()
                if left <= 0 or (self.process.poll() is not None and not self.reader.is_alive()):
                    break
                self.changed.wait(min(left, 0.1))
            return len(self.matching(prefix)) >= count

    def stop(self):
        """SIGTERM, then SIGKILL, to this child alone; returns its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                self.process.kill()
        code = self.process.wait()
        self.reader.join(STOP_TIMEOUT)
        self.output.close()
        self.errors.close()
        return code


def evidence(program):
    """The `INTEROP conn=...` lines as dicts, in the order of the connections."""
    lines = program.matching("INTEROP conn=")
    found = [dict(word.split("=", 1) for word in line.split()[1:]) for line in lines]
    return sorted(found, key=lambda line: int(line["conn"]))


def listening(program, prefix, name):
    if not program.wait_for(f"{prefix} listening=", 1, START_TIMEOUT):
        if program.process.poll() == UNSUPPORTED:
            raise Unsupported(name)
        raise AssertionError(f"{program.label} does not listen (exit code {program.process.poll()})")
    return program.matching(f"{prefix} listening=")[0].split("=", 1)[1]


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if sys.version_info >= (3, 11) else hashlib.sha256(
            file.read()).hexdigest()


def run(client, server, case):
    """The result of one case; the logs stay under .work/logs."""
    logs = WORK / "logs" / f"{client.name}-to-{server.name}" / case.name
    shutil.rmtree(logs, ignore_errors=True)
    (logs / "downloads").mkdir(parents=True)
    started = time.monotonic()
    programs = []
    try:
        attempt(client, server, case, logs, programs)
        status, reason = "passed", ""
    except Unsupported as lack:
        peer = {client.name: client, server.name: server}[lack.name]
        if lack.name == OURS:
            status, reason = "failed", "ours lacks it"
        else:
            status, reason = "skipped", f"peer lacks it: {peer.lacks.get(case.name, f'{peer.name} exits with 127')}"
    except AssertionError as problem:
        status, reason = "failed", str(problem)
    finally:
        for program in programs:
            program.stop()
        shutil.rmtree(logs / "downloads", ignore_errors=True)
    return Result(client.name, server.name, case.name, status, reason, time.monotonic() - started)


def attempt(client, server, case, logs, programs):
    certs, downloads = WORK / "certs", logs / "downloads"
    compatible = client.asks_for_v2 and server.upgrades_to_v2
    common = {"TESTCASE": case.name, "V2START": "compatible" if compatible else "direct"}

    def start(label, command, env):
        programs.append(Program(label, command, env, logs))
        return programs[-1]

    serving = start("server", [*server.command, "server"], {
        **common, "LISTEN": "127.0.0.1:0", "WWW": str(WORK / "www"),
        "CERT": str(certs / "cert.pem"), "KEY": str(certs / "key.pem"),
    })
    address = listening(serving, "INTEROP", server.name)
    relay = None
    if case.relay is not None:
        options = [f"--{key}={value}" for key, value in case.relay.items()]
        relay = start("relay", [sys.executable, HERE / "relay.py", address, *options], {})
        address = listening(relay, "RELAY", "relay")
    fetching = start("client", [*client.command, "client"], {
        **common, "SERVER": address, "CA": str(certs / "ca.pem"), "DOWNLOADS": str(downloads),
        "REQUESTS": " ".join(f"https://localhost:{address.rsplit(':', 1)[1]}/{name}" for name in case.names),
    })
    try:
        code = fetching.process.wait(case.timeout)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"client did not end within {case.timeout} s") from None
    if code == UNSUPPORTED:
        raise Unsupported(client.name)
    serving.wait_for("INTEROP conn=", case.connections, EVIDENCE_TIMEOUT)
    server_died = serving.process.poll() is not None
    for program in reversed(programs):
        program.stop()
    problems = []
    if code != 0:
        problems.append(f"client exits with {code}")
    if server_died:
        problems.append(f"server ended by itself with {serving.process.returncode}")
    problems += compare(case, downloads)
    wire = json.loads(relay.matching("RELAY {")[0].removeprefix("RELAY ")) if relay else None
    observed = Observed(evidence(fetching), evidence(serving), wire, compatible)
    for side, lines in (("client", observed.client), ("server", observed.server)):
        if len(lines) != case.connections:
            problems.append(f"{side} reports {len(lines)} connections, expected {case.connections}")
    if not problems:
        problems += case.check(observed)
    if problems:
        raise AssertionError("; ".join(problems))


def compare(case, downloads):
    for name in case.names:
        if not (downloads / name).exists():
            return [f"{name} was not downloaded"]
        if digest(downloads / name) != digest(WORK / "www" / name):
            return [f"{name} differs from the original"]
    return []
