"""The peers: how each is built, run and named, and what it is known to lack.

`asks_for_v2`: as a client it can start in version 1 and ask for version 2; `upgrades_to_v2`: as a server it switches.
Where one side lacks its half of this compatible version negotiation (RFC 9368), the client of `v2` starts in version 2.
`tells_where`: the signal at which it writes to its log where it stands, if it has one.
`slow_traces`: its qlog doubles its work, so it writes one only in the cases through the relay.
`on_request`: only run if named, as it takes minutes to build.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
ROOT = HERE.parent.parent
WORK = HERE / ".work"


class Missing(Exception):
    """A tool that this machine does not have."""


def tool(name, package):
    path = shutil.which(name)
    if path is None:
        raise Missing(f"{name} is not installed (Debian package {package})")
    return path


def python():
    """The interpreter that runs the runner."""
    return Path(sys.executable)


def build(command, cwd, env=None):
    print("  $", " ".join(map(str, command)), flush=True)
    environment = {**os.environ, **(env or {})}
    subprocess.run(command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, check=True)


def venv(name, requirements):
    """Installs pinned Python packages into a folder of their own; returns its folder of programs."""
    folder = WORK / name
    stamp = folder / "installed.txt"
    if not stamp.exists() or stamp.read_text() != requirements.read_text():
        try:
            build([tool("python3", "python3"), "-m", "venv", "--clear", folder], HERE)
        except subprocess.CalledProcessError as error:
            raise Missing("python3 cannot make a venv (Debian package python3-venv)") from error
        build([folder / "bin" / "python", "-m", "pip", "install", "--quiet", "-r", requirements], HERE)
        stamp.write_text(requirements.read_text())
    return folder / "bin"


def cargo_program(workspace, name, *options):
    """Builds a program of a workspace with the dev profile and returns its path.

    No package is named: cargo would choose the features of what it needs by that package alone, and build much of the
    tree again beside what `cargo test --workspace` has built.
    """
    cargo = tool("cargo", "rustup")
    build([cargo, "build", "--quiet", "--bin", name, *options], workspace)
    metadata = subprocess.run(
        [cargo, "metadata", "--format-version=1", "--no-deps", "--offline"], cwd=workspace,
        stdin=subprocess.DEVNULL, capture_output=True, check=True,
    )
    return Path(json.loads(metadata.stdout)["target_directory"]) / "debug" / name


def program():
    """The `thalweg` program."""
    return cargo_program(ROOT, "thalweg")


def locked(package):
    """The version of a crate in peers/Cargo.lock."""
    text = (ROOT / "peers" / "Cargo.lock").read_text()
    match = re.search(rf'name = "{package}"\nversion = "([^"]+)"', text)
    return match.group(1) if match else "?"


class Peer:
    """What most peers have in common."""

    lacks = {}
    asks_for_v2, upgrades_to_v2 = False, False
    tells_where = None
    slow_traces = False
    on_request = False


class Thalweg(Peer):
    name = "thalweg"
    asks_for_v2, upgrades_to_v2 = True, True

    def build(self):
        self.command = [cargo_program(ROOT / "peers", "thalweg-interop")]

    def version(self):
        return f"thalweg {locked('thalweg')}"


class Quinn(Peer):
    name = "quinn"
    lacks = {"v2": "quinn knows QUIC version 1 only"}

    def build(self):
        self.command = [cargo_program(ROOT / "peers", "quinn-peer")]

    def version(self):
        return f"quinn {locked('quinn')} (quinn-proto {locked('quinn-proto')}, h3 {locked('h3')})"


class QuicGo(Peer):
    name = "quic-go"  # no RFC 9368: its client starts in version 2
    tells_where = signal.SIGQUIT

    def build(self):
        program = WORK / "quic-go-peer"
        build([tool("go", "golang"), "build", "-o", program, "."], HERE / "quic-go", {"GOFLAGS": "-buildvcs=false"})
        self.command = [program]

    def version(self):
        return "quic-go " + re.search(r"quic-go/quic-go (v\S+)", (HERE / "quic-go" / "go.mod").read_text()).group(1)


class Aioquic(Peer):
    name = "aioquic"
    lacks = {"ecn": "aioquic neither marks its packets nor reads the marks of others"}
    asks_for_v2, upgrades_to_v2 = True, True
    tells_where = signal.SIGUSR1
    slow_traces = True

    def build(self):
        self.command = [venv("venv", HERE / "aioquic" / "requirements.txt") / "python", HERE / "aioquic" / "peer.py"]

    def version(self):
        return (HERE / "aioquic" / "requirements.txt").read_text().split()[0].replace("==", " ")


class Quiche(Peer):
    name = "quiche"
    lacks = {
        "v2": "quiche knows QUIC version 1 only",
        "ecn": "quiche neither marks its packets nor reads the marks of others",
        "keyupdate": "quiche follows the key updates of others and begins none",
        "zerortt": "the peer's program offers no early data",
        "chacha20": "BoringSSL has no switch for the suites of TLS 1.3",
    }
    on_request = True

    def build(self):
        tool("cmake", "cmake")
        tool("c++", "g++")
        # Reported only after minutes of building otherwise.
        if "LIBCLANG_PATH" not in os.environ and not list(Path("/usr/lib").glob("llvm-*/lib/libclang[.-][s0-9]*")):
            raise Missing("libclang is not installed (Debian package libclang-dev)")
        self.command = [cargo_program(ROOT / "peers", "quiche-peer", "--features", "quiche-peer/stack")]

    def version(self):
        return f"quiche {locked('quiche')}"


class S2n(Peer):
    name = "s2n-quic"
    lacks = {
        "http3": "s2n-quic's HTTP/3 is not published as a crate",
        "v2": "s2n-quic knows QUIC version 1 only",
        "retry": "the peer's program sends no Retry",
        "resumption": "the peer's program keeps no sessions",
        "zerortt": "s2n-quic has no 0-RTT",
        "keyupdate": "s2n-quic begins a key update only when a key is used up",
        "chacha20": "the peer's program offers the suites that s2n-quic offers by default",
    }
    on_request = True

    def build(self):
        tool("cmake", "cmake")
        self.command = [cargo_program(ROOT / "peers", "s2n-peer", "--features", "s2n-peer/stack")]

    def version(self):
        return f"s2n-quic {locked('s2n-quic')}"


OURS = Thalweg.name
ALL = {peer.name: peer for peer in (Thalweg(), Quinn(), QuicGo(), Aioquic(), Quiche(), S2n())}
