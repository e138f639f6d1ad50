"""The lab's side of a row: a scenario, its runs, and what is read from them."""

import hashlib
import json
import subprocess

from . import figures, rivals

# Where the kernel has another name. HyStart is part of its cubic, and reno has none.
POLICIES = {"reno": 'controller = "new-reno", start = "standard"'}


def flow_text(flow, start):
    lines = ["[[flow]]", f'name = "{flow.name}"', 'path = "link"']
    if start:
        lines += [f'start = "{start:g} s"', "phase = false"]
    if flow.stack == "tcp":
        lines.append('stack = "tcp"')
    elif flow.server != "thalweg":
        lines.append(f'stack = "{rivals.IN_LAB[flow.server]}"')
    if flow.controller != "shipped":
        policies = POLICIES.get(flow.controller, f'controller = "{flow.controller}"')
        lines.append(f"policies = {{ {policies} }}")
    size = f"{flow.size} B" if flow.size is not None else "endless"
    lines.append(f'transfer = {{ download = "{size}" }}')
    return lines


def scenario(row, seed=None):
    """The scenario of a row, or of one seed of a row whose flows begin alike."""
    starts = [row.start for _ in row.flows] if seed is None else row.starts(seed)
    lines = [f'title = "{row.name}"', 'question = "What does the wire do?"',
             # Servers of other stacks have no null cipher.
             f"seeds = {1 if seed else row.lab_runs or row.runs}", f'crypto = "{"real" if row.rival else "null"}"',
             f'record = "{"all" if any(flow.stack == "tcp" for flow in row.flows) else "none"}"']
    if row.seconds:
        # All flows end then, whenever they began.
        lines += [f'time_limit = "{row.seconds:g} s"']
    else:
        lines += ['time_limit = "200 s"']
    if not row.is_kernel:
        # What made both sides agree on every third row of tables 2 and 5.
        lines.append('host_delay = "200 us"')
    lines += ["", "[path.link]", row.path.rstrip()]
    for flow, start in zip(row.flows, starts):
        lines += ["", *flow_text(flow, start)]
        if host := row.host_of(flow):
            lines.append(f'host = "{host}"')
        if flow.stack == "tcp":
            lines.append('tcp = { profile = "linux"' + (", ecn = true" if row.ecn else "") + " }")
        else:
            # As `thalweg get`.
            lines.append("transport = { client_connection_id = 0 }")
    return "\n".join(lines) + "\n"


def run(program, row, folder, threads):
    """Runs the scenario, what is there already excepted; the figures of each seed, and what it decided,
    as a hash of all runs. Nothing of a stack that the lab does not have."""
    if row.rival and not rivals.IN_LAB[row.rival]:
        return {}, ""
    if row.rival:
        program = rivals.lab_program()
    if not row.begins_alike:
        return carried_out(program, row, folder, scenario(row), threads)
    found, decisions = {}, hashlib.sha256()
    for seed in range(1, row.runs + 1):
        one = folder / f"lab-{seed}"
        one.mkdir(exist_ok=True)
        values, decided = carried_out(program, row, one, scenario(row, seed), threads, "--seed", str(seed))
        found |= values
        decisions.update(decided.encode())
    return found, decisions.hexdigest()[:16]


def carried_out(program, row, folder, text, threads, *options):
    file, out = folder / "lab.toml", folder / "lab"
    file.write_text(text)
    command = [program, "lab", "run", file, "--out", out, "--quiet", "--threads", str(threads), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if not (out / "results.json").exists():
        raise RuntimeError(f"{row.name}: the lab failed: {done.stderr.strip()[-2000:]}")
    manifest = json.loads((out / "manifest.json").read_text())
    found = {}
    for item in manifest["runs"]:
        key = manifest["points"][item["point"]]["key"][:16]
        found[item["seed"]] = measured(row, out, key, item["seed"])
    decisions = " ".join(item["decisions_hash"] for item in manifest["runs"])
    return found, hashlib.sha256(decisions.encode()).hexdigest()[:16]


def measured(row, out, key, seed):
    record = json.loads((out / "runs" / key / f"{seed}.json").read_text())["record"]
    file = out / "recordings" / key / f"{seed}.json"
    recording = json.loads(file.read_text()) if file.exists() else {"series": []}
    found = {}
    for flow, part in zip(row.flows, record["flows"]):
        values = {name: numbers[0] for name, numbers in part["values"].items()}
        series = {one["name"]: one for one in recording["series"] if one["subject"] == flow.name}
        mine = found[flow.name] = {name: values[name] for name in (
            "completion", "goodput", "retransmissions", "packets_lost", "packets_spurious", "ptos", "longest_gap")
            if name in values}
        if flow.stack == "tcp" and "srtt" in series:
            srtt = series["srtt"]
            mine["rtt"] = figures.time_average(srtt["t"], srtt["v"])
            mine["start_window"] = end_of_start(series["window"])
    link = next(part["values"] for part in record["links"] if part["name"] == "link.down")
    found["link"] = {name: link[metric][0] for name, metric in (
        ("dropped", "link_dropped"), ("marked", "link_marked"), ("sojourn_p95", "sojourn_p95")) if metric in link}
    shares(row, found)
    return found


def end_of_start(window):
    """Segments in the window when slow start first ended; none if it never did."""
    after = next((t for t, state in window["states"] if state not in ("slow start", "application limited")), None)
    if after is None:
        return None
    before = [v for t, v in zip(window["t"], window["v"]) if t < after]
    at = [v for t, v in zip(window["t"], window["v"]) if t == after]
    state = next(state for t, state in window["states"] if t == after)
    # HyStart leaves the window as it is; a loss reduces it at once.
    value = at[0] if at and state == "congestion avoidance" else before[-1] if before else None
    return value and value / 1448


def shares(row, found):
    total = sum(found[flow.name].get("goodput", 0) for flow in row.flows)
    if len(row.flows) > 1 and total:
        for flow in row.flows:
            found[flow.name]["share"] = found[flow.name].get("goodput", 0) / total
    done = [found[flow.name]["completion"] for flow in row.flows if "completion" in found[flow.name]]
    if len(done) == len(row.flows):
        found["link"]["completion_mean"] = sum(done) / len(done)
