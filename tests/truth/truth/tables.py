"""The rows of each table."""

import re
import tomllib
from pathlib import Path

from .rows import Check, Flow, Row, path, ten_seconds

SHORT_QUEUES = Path(__file__).resolve().parents[3] / "scenarios/beside/short-queues.toml"

# A figure that chance or a race of two flows decides is the median of ten runs.
CHANCE = 10


def table_1():
    """The kernel's TCP alone on a link, and its two controllers beside each other."""

    def row(controller, rate, rtt, name, queue="1 BDP", loss=None, quick=False):
        more = f'loss = "{loss}"' if loss else ""
        flow = Flow("a", "tcp", controller, ten_seconds(rate))
        checks = (Check("a", "completion", 0.05 if loss else 0.02), Check("a", "rtt", 0.05),
                  Check("a", "start_window", 0.15), Check("a", "retransmissions", 0.75, "count", 10))
        return Row("1", f"{controller}, {rate} Mbps, {rtt} ms{name}", path(rate, rtt, queue, more), rtt / 1e3, (flow,),
                   checks, runs=CHANCE if loss else 3, quick=quick)

    for controller in ("reno", "cubic"):
        for rate in (2, 10, 20, 50):
            for rtt in (20, 40, 100, 300):
                yield row(controller, rate, rtt, "", quick=(rate, rtt) == (20, 40) and controller == "cubic"
                          or (rate, rtt) == (10, 100) and controller == "reno")
        for queue in ("0.25", "4"):
            yield row(controller, 20, 40, f", queue {queue} BDP", f"{round(100_000 * float(queue))} B")
        for loss in ("0.1 %", "1 %"):
            yield row(controller, 20, 40, f", loss {loss}", loss=loss)
    flows = tuple(Flow(name, "tcp", name, None) for name in ("cubic", "reno"))
    yield Row("1", "cubic beside reno, 20 Mbps, 40 ms", path(20, 40), 0.04, flows,
              (Check("cubic", "share", 0.05, "points"),), runs=CHANCE, seconds=20)


SQUARE = [(rate, rtt) for rate in (2, 10, 20, 50) for rtt in (20, 40, 100, 300)]
START = 1.2  # seconds: by then both ends of the wire have begun as well


def troubles():
    """What goes wrong on a path of 20 Mbps and 40 ms: name, what the direction of the data and the path have, whether
    chance decides, and further keys of the row."""
    yield "reordering 3 %", 'reorder = { share = "3 %", by = "5 ms" }', "", True, {}
    yield ("six suspensions", "", 'suspend = { at = "2 s", every = "1.5 s", for = "200 ms", times = 6 }', False,
           {"start": START})
    # Not 2 s: the lab probes 5 ms before the end of such an outage, the wire some milliseconds after it, and the next
    # probe comes 500 ms later.
    yield "outage of 2.25 s", "", 'outage = { at = "4 s", for = "2.25 s" }', False, {"start": START}
    yield "bursts of loss", "loss = { burst = { enter = 0.001, leave = 0.2 } }", "", True, {}
    yield "jitter", 'jitter = "5 ms"', "", True, {}
    yield "MTU drops", 'changes = [{ at = "3 s", mtu = "1394 B" }]', "", False, {"start": START, "silent_mtu": True}


def table_2():
    """QUIC of `thalweg serve` and `thalweg get`."""

    def row(controller, rate, rtt, name="", queue="1 BDP", down="", both="", chance=False, runs=3, **more):
        flow = Flow("a", "quic", controller, ten_seconds(rate))
        text = path(rate, rtt, queue, down) + (both + "\n" if both else "")
        quick = (controller, rate, rtt, name) == ("shipped", 20, 40, "")
        return Row("2", f"{controller}, {rate} Mbps, {rtt} ms{name}", text, rtt / 1e3, (flow,),
                   (Check("a", "completion", 0.05 if chance else 0.003),), runs=CHANCE if chance else runs, lab_runs=100,
                   ranges=True, quick=quick, host="linux", **more)

    for rate, rtt in SQUARE:
        yield row("shipped", rate, rtt)
    # Behind 17 packets it depends on chance which of them meets a full queue: the lab's own runs are 5 % apart.
    for queue, runs in (("0.25", CHANCE), ("4", 3)):
        yield row("shipped", 20, 40, f", queue {queue} BDP", f"{round(100_000 * float(queue))} B", runs=runs)
    for loss in ("0.1 %", "1 %"):
        yield row("shipped", 20, 40, f", loss {loss}", down=f'loss = "{loss}"', chance=True)
    for name, down, both, chance, more in troubles():
        yield row("shipped", 20, 40, f", {name}", down=down, both=both, chance=chance, **more)
    for rate, rtt in ((20, 40), (10, 100), (2, 300)):
        yield row("cubic", rate, rtt)
    yield row("cubic", 20, 40, ", loss 1 %", down='loss = "1 %"', chance=True)
    for name, down, both, chance, more in troubles():
        if name in ("reordering 3 %", "outage of 2.25 s"):
            yield row("cubic", 20, 40, f", {name}", down=down, both=both, chance=chance, **more)


RIVALS = ("quinn", "noq", "quiche", "quic-go", "aioquic", "nginx")


def table_3():
    """Servers of other stacks, with `thalweg get` as their client. The lab has some of them."""
    troubled = {name: (down, both, chance, more) for name, down, both, chance, more in troubles()}
    six = [(20, 40, "", "", "", False, {}), (10, 100, "", "", "", False, {}), (2, 300, "", "", "", False, {}),
           (20, 40, ", loss 1 %", 'loss = "1 %"', "", True, {}),
           *((20, 40, f", {name}", *troubled[name]) for name in ("reordering 3 %", "outage of 2.25 s"))]
    for rate, rtt, name, down, both, chance, more in six:
        for server in RIVALS:
            flow = Flow("a", "quic", "shipped", ten_seconds(rate), server)
            yield Row("3", f"{server}, {rate} Mbps, {rtt} ms{name}",
                      path(rate, rtt, "1 BDP", down) + (both + "\n" if both else ""), rtt / 1e3, (flow,),
                      (Check("a", "completion", 0.05),), runs=CHANCE if chance else 3, lab_runs=20, host="linux",
                      **more)


DISCIPLINES = {
    "tail drop": "",
    "CoDel": 'aqm = "codel"',
    "PIE": 'aqm = "pie"',
    "FQ-CoDel": 'aqm = "fq-codel"',
    "Predict": 'aqm = "predict"',
}


def table_4():
    """Queue disciplines, with the kernel's cubic and ECN."""
    for rtt in (25, 100, 310):
        for count in (1, 4):
            for name, aqm in DISCIPLINES.items():
                size = ten_seconds(20) // count
                flows = tuple(Flow(f"f{n}", "tcp", "cubic", size) for n in range(count))
                checks = (Check("link", "sojourn_p95", 0.15), Check("link", "completion_mean", 0.10),
                          Check("link", "dropped", 0.75, "count", 10), Check("link", "marked", 0.75, "count", 10))
                queue = None if aqm else "1 BDP"
                yield Row("4", f"{name}, {rtt} ms, {count} flow{'s' * (count > 1)}", path(20, rtt, queue, aqm),
                          rtt / 1e3, flows, checks, runs=3 if count == 1 else CHANCE, lab_runs=20, ecn=True,
                          capture=True, quick=(rtt, count, name) == (25, 1, "tail drop"))


def table_5():
    """Queues of a few packets: the kernel's cubic alone, and beside Thalweg's QUIC as shipped."""

    def row(rate, rtt, queue, beside):
        # At least two packets, as a queue in time has.
        limit = f"{max(3000, round(rate * 1e6 / 8 * int(queue.split()[0]) / 1e3))} B" if queue.endswith("ms") else queue
        tcp, quic = Flow("tcp", "tcp", "cubic", None), Flow("quic", "quic", "shipped", None)
        name = f"{rate} Mbps, {rtt} ms, queue {queue}, {'beside ours' if beside else 'alone'}"
        check = Check("tcp", "share", 0.08, "points") if beside else Check("tcp", "goodput", 0.10)
        # The longest queue in time of these: where a wake-up takes longer than the queue is long, which happens several
        # times a minute beside compilers, one more loss decides the run.
        quick = (rate, rtt, queue, beside) == (10, 60, "8 packets", False)
        return Row("5", name, path(rate, rtt, limit), rtt / 1e3, (tcp, quic) if beside else (tcp,), (check,),
                   runs=CHANCE, seconds=10, lab_runs=0 if beside else 20, quick=quick)

    for rate, rtt in ((20, 50), (20, 100), (10, 60)):
        for queue in ("2 ms", "3 ms", "6 ms", "4 packets", "8 packets"):
            yield row(rate, rtt, queue, False)
            yield row(rate, rtt, queue, True)
    for label in (path["label"] for path in tomllib.loads(SHORT_QUEUES.read_text())["vary"]["path.link"]):
        rate, rtt, queue = re.fullmatch(r"(\d+) Mbps, (\d+) ms, (\d+ ms)", label).groups()
        if int(rate) > 20:
            yield row(int(rate), int(rtt), queue, True)


TABLES = {"1": table_1, "2": table_2, "3": table_3, "4": table_4, "5": table_5}
ORDER = ("1", "5", "4", "2", "3")


def rows(names):
    return [row for name in ORDER if name in names for row in TABLES[name]()]
