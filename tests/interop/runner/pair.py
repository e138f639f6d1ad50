"""Runs one case between one client and one server on loopback, and judges it."""

import hashlib
import json
import subprocess
import time
from dataclasses import dataclass

from .cases import Observed
from .peers import HERE, OURS, WORK, python
from .program import evidence
from .stage import Stage

UNSUPPORTED = 127
START_TIMEOUT = 10  # seconds until a server listens
EVIDENCE_TIMEOUT = 3  # seconds for the server to report the connections that the client closed


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


def listening(program, prefix, name):
    if not program.wait_for(f"{prefix} listening=", 1, START_TIMEOUT):
        if program.process.poll() == UNSUPPORTED:
            raise Unsupported(name)
        raise AssertionError(f"{program.label} does not listen (exit code {program.process.poll()})")
    return program.matching(f"{prefix} listening=")[0].split("=", 1)[1]


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def run(client, server, case):
    """The result of one case; the logs of a success stay under .work/logs, those of a failure under .work/failed."""
    name = f"{client.name}-to-{server.name}/{case.name}"
    started = time.monotonic()
    stage = Stage(WORK / "logs" / name)
    try:
        attempt(client, server, case, stage)
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
        stage.stop()
    stage.settle(name, reason if status == "failed" else "")
    return Result(client.name, server.name, case.name, status, reason, time.monotonic() - started)


def attempt(client, server, case, stage):
    certs, downloads = WORK / "certs", stage.downloads
    compatible = client.asks_for_v2 and server.upgrades_to_v2
    common = {"TESTCASE": case.name, "V2START": "compatible" if compatible else "direct"}

    def traces(peer):
        return {"QLOGDIR": ""} if peer.slow_traces and case.relay is None else {}

    serving = stage.start("server", [*server.command, "server"], {
        **common, **traces(server), "LISTEN": "127.0.0.1:0", "WWW": str(WORK / "www"),
        "CERT": str(certs / "cert.pem"), "KEY": str(certs / "key.pem"),
    })
    address = listening(serving, "INTEROP", server.name)
    relay = None
    if case.relay is not None:
        options = [f"--{key}={value}" for key, value in case.relay.items()]
        relay = stage.start("relay", [python(), HERE / "relay.py", address, *options,
                                      f"--capture={stage.folder / 'packets.pcapng'}"])
        address = listening(relay, "RELAY", "relay")
    else:
        stage.capture(address.rsplit(":", 1)[1])
    fetching = stage.start("client", [*client.command, "client"], {
        **common, **traces(client), "SERVER": address, "CA": str(certs / "ca.pem"), "DOWNLOADS": str(downloads),
        "REQUESTS": " ".join(f"https://localhost:{address.rsplit(':', 1)[1]}/{name}" for name in case.names),
    })
    try:
        code = fetching.process.wait(case.timeout)
    except subprocess.TimeoutExpired:
        stage.load.stop()
        stage.ask_where((fetching, client), (serving, server))
        raise AssertionError(f"client did not end within {case.timeout} s; {stage.load.summary()}") from None
    if code == UNSUPPORTED:
        raise Unsupported(client.name)
    serving.wait_for("INTEROP conn=", case.connections, EVIDENCE_TIMEOUT)
    server_died = serving.process.poll() is not None
    problems = compare(case, downloads)
    stage.stop()
    if code != 0:
        problems.append(f"client exits with {code}")
    if server_died:
        problems.append(f"server ended by itself with {serving.process.returncode}")
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
