"""QUIC on the wire: `thalweg serve` and `thalweg get`, and what their traces say."""


def commands(program, flow, folder, port):
    site = folder.parent / "site"
    site.mkdir(exist_ok=True)
    file = site / "file"
    size = flow.size if flow.size is not None else 1 << 30
    if not file.exists() or file.stat().st_size != size:
        with open(file, "wb") as out:
            out.truncate(size)
    traces = folder / "qlog"
    policies = [] if flow.controller == "shipped" else ["--policies", f"controller={flow.controller}"]
    server = [program, "serve", site, "--listen", f"[::]:{port}", "--no-tcp", "--workers", "1", "--qlog", traces,
              *policies]
    client = [program, "get", "-q", "-k", "--quic-only", "--no-tickets", "--retries", "0", "-o", "-", *policies,
              f"https://server:{port}/file"]
    return {"server": [str(word) for word in server], "client": [str(word) for word in client]}


def measured(folder, flow):
    return {}
