"""QUIC on the wire: `thalweg serve` or the server of another stack, `thalweg get`, and what our traces say."""

import json
import subprocess

from . import rivals, silence


def commands(program, flow, scratch, folder, port):
    """What the server's end and the client's end run; traces go to `scratch`, the file lies beside the row's runs."""
    site, downloads = folder / "site", scratch / "downloads"
    site.mkdir(exist_ok=True)
    downloads.mkdir(exist_ok=True)
    file = site / "file"
    size = flow.size if flow.size is not None else 1 << 30
    if not file.exists() or file.stat().st_size != size:
        with open(file, "wb") as out:
            out.truncate(size)
    policies = [] if flow.controller == "shipped" else ["--policies", f"controller={flow.controller}"]
    # A trace of a flow without an end is of no use, and costs time at real-time priority.
    traces = [] if flow.size is None else ["--qlog", scratch / "qlog"]
    if flow.server != "thalweg":
        # The certificate is for another name, and an address has none.
        server = rivals.command(flow.server, f"10.12.0.1:{port}", site, scratch)
        client = [program, "get", "-q", "-k", "--quic-only", "--no-tickets", "--retries", "0", "--json", "-o",
                  downloads / flow.name, f"https://10.12.0.1:{port}/file"]
        return {"server": [str(word) for word in server], "client": [str(word) for word in client], "loud": True}
    server = [program, "serve", site, "--listen", f"[::]:{port}", "--no-tcp", "--workers", "1", *traces, *policies]
    # IPv4, because the lab counts its headers.
    client = [program, "get", "-q", "-k", "--quic-only", "--no-tickets", "--retries", "0", *traces, *policies,
              *(["-o", "-"] if flow.size is None else ["--json", "-o", downloads / flow.name]),
              f"https://10.12.0.1:{port}/file"]
    return {"server": [str(word) for word in server], "client": [str(word) for word in client]}


def measured(program, folder):
    """What both traces of a transfer count."""
    # After a long silence the client asks by a second connection whether the server lives: its traces are shorter.
    files = sorted(folder.glob("qlog/*.sqlog"), key=lambda file: file.stat().st_size)
    if not files:
        # A flow without an end has no trace.
        return {}
    done = subprocess.run([program, "qlog", "--json", *files], capture_output=True, text=True, check=True)
    traces = {trace["vantage_point"]: trace for trace in map(json.loads, done.stdout.splitlines())}
    server = traces["server"]
    client = [file for file in files if file.stem.endswith("_client")][-1]
    return {"longest_gap": silence.longest(client),
            "ptos": sum(trace["loss"]["probe_timeouts"] for trace in traces.values()),
            "packets_lost": server["loss"]["packets"], "packets_spurious": server["loss"]["spurious"],
            "min_rtt": server["rtt"]["min_ms"] / 1e3, "rtt": server["rtt"]["median_ms"] / 1e3}
