"""The cases: what is fetched, over what, and what evidence must be there for the case to count as passed."""

from dataclasses import dataclass, field
from typing import Callable

KIB, MIB = 1 << 10, 1 << 20


@dataclass
class Observed:
    """What was reported about one run."""

    client: list  # evidence lines of the client, one dict per connection
    server: list  # the same of the server
    wire: dict | None  # the relay's counts, if the case goes through it
    compatible: bool  # v2: the client starts in version 1 and the server upgrades (RFC 9368)

    def last(self):
        """The evidence of the last connection, from both sides."""
        return [("client", self.client[-1]), ("server", self.server[-1])]


def no_check(_):
    return []


@dataclass
class Case:
    name: str
    about: str  # what is proved, for docs/interop.md
    files: list  # sizes in bytes
    check: Callable = no_check
    connections: int = 1
    relay: dict | None = None  # None: client and server talk directly
    timeout: int = 30  # seconds for the client
    names: list = field(default_factory=list)  # file names, filled in below


def expect(observed, key, wanted, describe):
    """Every side that knows `key` of the last connection must say what is wanted, and at least one side must know."""
    problems, known = [], 0
    for side, line in observed.last():
        if key in line:
            known += 1
            if not wanted(line[key]):
                problems.append(f"{side} says {key}={line[key]}, expected {describe}")
    if not known:
        problems.append(f"neither side can tell {key}")
    return problems


def seen(condition, text):
    return [] if condition else [f"on the wire: {text}"]


def check_multiplexing(observed):
    count = str(len(CASES["multiplexing"].files))
    return expect(observed, "streams", lambda v: v == count, f"{count} on one connection")


def check_retry(observed):
    wire = observed.wire
    return (
        expect(observed, "retry", lambda v: v == "1", "1")
        + seen(wire["down"]["kinds"].get("retry", 0) > 0, "no Retry packet")
        + seen(wire["up"]["tokens"] > 0, "no Initial packet with a token")
    )


def check_resumption(observed):
    first = [line for line in (observed.client[0], observed.server[0]) if line.get("resumed") == "1"]
    problems = ["the first connection claims to be resumed"] if first else []
    return problems + expect(observed, "resumed", lambda v: v == "1", "1")


def check_zerortt(observed):
    return (
        check_resumption(observed)
        + expect(observed, "early_data", lambda v: v == "accepted", "accepted")
        + seen(observed.wire["up"]["kinds"].get("0rtt", 0) > 0, "no 0-RTT packet")
    )


def check_v2(observed):
    versions = observed.wire["up"]["versions"]
    wanted = ["0x00000001", "0x6b3343cf"] if observed.compatible else ["0x6b3343cf"]
    return expect(observed, "version", lambda v: v == "0x6b3343cf", "0x6b3343cf") + seen(
        versions == wanted, f"client used {versions}, expected {wanted}"
    )


def check_ecn(observed):
    def positive(value):
        return int(value) > 0

    return (
        expect(observed, "ecn_sent", positive, "marked packets")
        + expect(observed, "ecn_received", positive, "marked packets")
        + expect(observed, "ecn_acked", positive, "ECN counts in ACK frames")
    )


def check_loss(observed):
    up, down = observed.wire["up"], observed.wire["down"]
    return seen(up["dropped"] > 0 and down["dropped"] > 0, "the relay dropped nothing in one direction")


ALL = [
    Case("handshake", "a connection in version 1 and a small file", [KIB],
         lambda o: expect(o, "version", lambda v: v == "0x00000001", "0x00000001")),
    Case("transfer", "three files at once over one connection", [2 * MIB, 3 * MIB, 5 * MIB]),
    Case("multiplexing", "500 small files on 500 streams of one connection", [32] * 500, check_multiplexing),
    Case("retry", "the server answers with Retry; the client comes back with the token; both seen by the relay", [KIB],
         check_retry, relay={}),
    Case("resumption", "a second connection resumes the session of the first", [5 * KIB, 10 * KIB], check_resumption,
         connections=2),
    Case("zerortt", "the second connection sends requests in 0-RTT packets (seen by the relay) and the server accepts them",
         [KIB] + [32] * 20, check_zerortt, connections=2, relay={}),
    Case("http3", "files over HTTP/3", [5 * KIB, 500 * KIB, MIB],
         lambda o: expect(o, "alpn", lambda v: v == "h3", "h3")),
    Case("keyupdate", "1-RTT keys change during the transfer", [3 * MIB],
         lambda o: expect(o, "key_updates", lambda v: int(v) > 0, "at least 1")),
    Case("chacha20", "TLS_CHACHA20_POLY1305_SHA256 is negotiated", [3 * MIB],
         lambda o: expect(o, "cipher", lambda v: v == "0x1303", "0x1303")),
    Case("v2", "the connection uses QUIC version 2, by compatible version negotiation where both sides implement it",
         [100 * KIB], check_v2, relay={}),
    Case("ecn", "packets carry ECT(0), and ACK frames report the counts", [MIB], check_ecn),
    Case("transferloss", "2 MB through a relay that drops 3 % of the datagrams in each direction", [2 * MIB],
         check_loss, relay={"loss": 0.03, "seed": 7}, timeout=60),
]

for case in ALL:
    case.names = [f"{case.name}-{index:03}" for index in range(len(case.files))]

CASES = {case.name: case for case in ALL}
