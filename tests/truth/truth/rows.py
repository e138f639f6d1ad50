"""What a row is: a path, the flows on it, and what has to agree between the lab and the wire."""

import hashlib
import json
import random
import re
from dataclasses import asdict, dataclass

MSS = 1448  # bytes of data in 1,500, with timestamps


@dataclass(frozen=True)
class Check:
    """A figure that the lab foretells. `subject` is a flow, or `link` for the direction of the data."""

    subject: str
    metric: str
    tolerance: float
    # "ratio": wire ÷ lab within 1 ± tolerance; "points": the difference of two shares, at most so much.
    # "count": wire ÷ lab within tolerance and its inverse, or not further apart than `least`.
    kind: str = "ratio"
    least: float = 0


@dataclass(frozen=True)
class Flow:
    name: str
    stack: str  # "tcp" or "quic"
    controller: str  # "reno", "cubic"; for QUIC also "shipped"
    size: int | None  # bytes; None is as long as the row runs
    server: str = "thalweg"  # whose server sends, if it is not ours


@dataclass(frozen=True)
class Row:
    table: str
    name: str
    path: str  # TOML: what is in [path.link]
    rtt: float  # seconds, of the fixed delays
    flows: tuple[Flow, ...]
    checks: tuple[Check, ...]
    runs: int = 3
    lab_runs: int = 0  # 0: as many as on the wire, with the same seeds; so it is where flows begin alike
    seconds: float | None = None  # how long flows without a size run
    host: str = ""  # the lab's model of both computers of a flow of QUIC; "": programs are never late
    ecn: bool = False
    capture: bool = False  # whether packets are captured, for their time in the queue
    ranges: bool = False  # whether each run has to lie in the lab's own range
    quick: bool = False
    start: float = 0  # seconds on the path's clock until the flows begin, where something happens at a certain time
    silent_mtu: bool = False  # too large packets are dropped without a message, as in the lab

    @property
    def rate(self):
        """Mbps of the direction of the data."""
        return float(re.search(r'down = \{ rate = "([\d.]+) Mbps"', self.path)[1])

    def starts(self, seed):
        """When each flow of a run begins, in seconds: within a round trip of the others, as the lab's flows do."""
        dice = random.Random(seed)
        return [dice.uniform(0, self.rtt) if len(self.flows) > 1 else 0.0 for _ in self.flows]

    @property
    def is_kernel(self):
        """Whether all is the kernel, and no program decides when a packet leaves."""
        return all(flow.stack == "tcp" for flow in self.flows)

    def host_of(self, flow):
        """The lab's model of both computers of a flow."""
        return "kernel" if flow.stack == "tcp" else self.host

    @property
    def begins_alike(self):
        """Whether the lab's flows are to begin when those on the wire are, as several are: who is first decides how
        long the starts of the others last. On the wire a program of QUIC begins 2 to 6 ms later, as captures show."""
        return len(self.flows) > 1

    @property
    def short_queue(self):
        """Seconds that a queue given in bytes or packets is long; of another, None."""
        given = re.search(r'queue = "([\d.]+) (B|packets)"', self.path)
        return float(given[1]) * (8 if given[2] == "B" else 8 * 1500) / (self.rate * 1e6) if given else None

    def described(self):
        """Its fields; a server is one only where it is another's."""
        fields = asdict(self)
        for flow in fields["flows"]:
            if flow["server"] == "thalweg":
                del flow["server"]
        return fields

    @property
    def rival(self):
        """Whose server sends, if it is not ours."""
        return next((flow.server for flow in self.flows if flow.server != "thalweg"), None)

    def fingerprint(self):
        """Results of another row of this name are not results of this one."""
        kept = {name: value for name, value in self.described().items()
                if name in ("path", "flows", "seconds", "ecn", "capture", "rtt", "start", "silent_mtu")
                and (value or name not in ("start", "silent_mtu"))}
        return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]


def direction(rate, one_way, queue=None, more=""):
    parts = [f'rate = "{rate} Mbps"', f'delay = "{one_way} ms"']
    if queue:
        parts.append(f'queue = "{queue}"')
    if more:
        parts.append(more)
    return "{ " + ", ".join(parts) + " }"


def path(rate, rtt, queue="1 BDP", more=""):
    """A path whose directions are alike; its queue and what goes wrong are in the direction of the data."""
    one_way = f"{rtt / 2:g}"
    return f"up   = {direction(rate, one_way)}\ndown = {direction(rate, one_way, queue, more)}\n"


def ten_seconds(rate):
    """Bytes that fill a link for ten seconds."""
    return int(rate * 1e6 / 8 * 10 * MSS / 1500)
