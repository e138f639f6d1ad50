"""The wire's side of a row: runs behind `thalweg emulate`, and what is read from them."""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from lab_results import quantile

from . import capture, lab, quic
from .trace import INFINITE

ENDS = Path(__file__).resolve().parent.parent / "tcp.py"
REDUCED = {"reno": 0.5, "cubic": 717 / 1024}  # what a loss leaves of the window
PORT = 5001


def plan(row, scratch, folder, seed, program):
    flows = []
    for number, (flow, offset) in enumerate(zip(row.flows, row.starts(seed))):
        one = {"name": flow.name, "stack": flow.stack, "size": flow.size, "congestion": flow.controller,
               "port": PORT + number, "offset": offset}
        if flow.stack == "quic":
            one |= quic.commands(program, flow, scratch, folder, PORT + number)
        flows.append(one)
    settle = row.start or (1.0 if any(flow.stack == "quic" for flow in row.flows) else 0.1)
    return {"flows": sorted(flows, key=lambda one: one["offset"]), "seconds": row.seconds, "ecn": row.ecn,
            "folder": str(scratch), "settle": settle, "linger": row.rtt + 0.3}


def in_memory(prefix):
    """A temporary folder in memory, where there is a file system in it: whoever writes to a disk waits for it now and
    then."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(prefix=prefix, dir=memory if memory.is_dir() else None)


def run(program, row, folder, seed):
    """One run: what was measured, and what the emulator says of it."""
    with in_memory("truth-") as scratch:
        scratch = Path(scratch)
        try:
            return carried_out(program, row, scratch, folder.parent, seed)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            for file in scratch.iterdir():
                if file.is_file() and file.suffix != ".pcapng":
                    shutil.copy(file, folder)


def carried_out(program, row, scratch, folder, seed, timeout=120):
    (scratch / "plan.json").write_text(json.dumps(plan(row, scratch, folder, seed, program)))
    (scratch / "path.toml").write_text(f"[path.link]\n{row.path}")
    ends = f"{sys.executable} -I -S {ENDS}"
    command = [program, "emulate", scratch / "path.toml", "--path", "link", "--seed", str(seed), "--realtime",
               "--quiet", "--json", scratch / "report.json", "--server", f"{ends} serve {scratch / 'plan.json'}"]
    if row.silent_mtu:
        command.append("--no-icmp")
    if row.capture:
        command += ["--pcapng", scratch / "packets.pcapng"]
    command += ["--", *ends.split(), "fetch", scratch / "plan.json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return None, {"valid": False, "invalid_because": [f"the run took longer than {timeout:g} s"]}
    if done.returncode in (125, 126, 127):
        # Nothing was emulated, which is no run to throw away.
        raise RuntimeError(f"thalweg emulate ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    if not (scratch / "report.json").exists() or done.returncode:
        return None, {"valid": False, "invalid_because": [f"status {done.returncode}: {done.stderr.strip()[-500:]}"]}
    report = json.loads((scratch / "report.json").read_text())
    if why := stalled(row, report):
        report["invalid_because"].append(why)
        report["valid"] = False
    if not report["valid"]:
        return None, report
    try:
        return measured(program, row, scratch, report), report
    except (OSError, KeyError, TypeError, ValueError, IndexError, StopIteration, subprocess.CalledProcessError) as error:
        return None, {**report, "valid": False, "invalid_because": [f"nothing to read: {error!r}"]}


def stalled(row, report):
    """Why a run behind a short queue does not count: programs that stop for longer than the queue is long send a burst
    that overflows it. The emulator's verdict is about the link, and about 99 % of the wake-ups. Shares of two flows
    count: both meet the same."""
    late, queue = report["wake_ups"]["p999_us"] / 1e6, row.short_queue
    if queue is None or len(row.flows) > 1 or late <= queue:
        return None
    return (f"programs were woken {late * 1e3:.1f} ms late or more, one time in 1000; the queue is "
            f"{queue * 1e3:.1f} ms long")


def measured(program, row, folder, report):
    noted = json.loads((folder / "client.json").read_text())
    found = {}
    for flow in row.flows:
        one = noted[flow.name]
        mine = found[flow.name] = {"bytes": one["bytes"]}
        if flow.size is None:
            mine["goodput"] = one["bytes"] * 8 / one["seconds"]
        elif one["bytes"] >= flow.size:
            mine["completion"] = one["seconds"]
            mine["goodput"] = one["bytes"] * 8 / one["seconds"]
        if flow.stack == "tcp":
            mine |= of_tcp(flow, samples(folder, flow.name))
        else:
            mine |= quic.measured(program, folder)
    down = report["paths"][0]["down"]
    found["link"] = {"dropped": sum(down["dropped"].values()), "marked": down["marked"]}
    if row.capture:
        waits = capture.sojourns(folder / "packets.pcapng", row.rtt / 2)
        found["link"]["sojourn_p95"] = quantile(waits, 0.95)
    lab.shares(row, found)
    return found


def samples(folder, name):
    """TCP_INFO of a flow: a dictionary per look."""
    noted = json.loads((folder / f"{name}.info").read_text())
    return [dict(zip(noted["names"], one)) for one in noted["samples"]]


def of_tcp(flow, looks):
    last = next(look for look in reversed(looks) if look["rtt_us"])
    # Until everything was acknowledged: what comes then is silence.
    done = next((at for at, look in enumerate(looks) if flow.size is not None and look["acked"] > flow.size), None)
    active = looks[:done] if done else looks
    rtts = [look["rtt_us"] / 1e6 for look in active if look["rtt_us"]]
    return {"rtt": sum(rtts) / len(rtts), "retransmissions": last["total_retrans"],
            "min_rtt": last["min_rtt_us"] / 1e6, "rwnd_limited": last["rwnd_limited_us"] / 1e6,
            "sndbuf_limited": last["sndbuf_limited_us"] / 1e6, "start_window": end_of_start(flow.controller, looks)}


def end_of_start(controller, looks):
    """Segments in the window when slow start first ended: the threshold that HyStart sets is the window, the one that
    a loss sets is a share of it."""
    for look in looks:
        if look["ssthresh"] < INFINITE:
            lossless = look["total_retrans"] == 0 and look["lost"] == 0 and look["ca_state"] < 2
            return look["ssthresh"] if lossless else look["ssthresh"] / REDUCED[controller]
    return None
