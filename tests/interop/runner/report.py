"""The tables: to the terminal, and to docs/interop.md."""

import datetime

from . import cases

MARKS = {"passed": "✓", "failed": "✗", "skipped": "–"}


def rows(results):
    """(client, server) -> {case: result}, in the order of the runs."""
    table = {}
    for result in results:
        table.setdefault((result.client, result.server), {})[result.case] = result
    return table


def terminal(results):
    """A plain table for logs."""
    names = [case.name for case in cases.ALL if any(r.case == case.name for r in results)]
    lines = ["client → server".ljust(22) + " ".join(names)]
    for (client, server), row in rows(results).items():
        cells = (MARKS[row[name].status] if name in row else " " for name in names)
        lines.append(f"{client} → {server}".ljust(22) + " ".join(c.center(len(n)) for c, n in zip(cells, names)))
    return "\n".join(lines)


def summary(results):
    count = {status: sum(r.status == status for r in results) for status in MARKS}
    return f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped"


def markdown(results, versions, missing, command):
    """The whole of docs/interop.md."""
    names = [case.name for case in cases.ALL if any(r.case == case.name for r in results)]
    out = [
        "# Interoperability",
        "",
        f"Written by `{command}` on {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}; do not edit.",
        "",
        "Versions: " + ", ".join(versions) + ".",
        "",
        "✓ passed, ✗ failed, – the peer lacks the case (see the gaps below). Every run is on loopback; every downloaded",
        "file is compared with the original by SHA-256; and a case counts only if the endpoints, and where it can tell",
        "the relay between them, report that what the case is about really happened.",
        "",
        "| client | server | " + " | ".join(names) + " |",
        "|---|---|" + ":-:|" * len(names),
    ]
    for (client, server), row in rows(results).items():
        cells = (MARKS[row[name].status] if name in row else "" for name in names)
        out.append(f"| {client} | {server} | " + " | ".join(cells) + " |")
    out += ["", "**" + summary(results) + "**", "", "## What a case proves", ""]
    out += [f"- `{case.name}`: {case.about}" for case in cases.ALL if case.name in names]
    for title, status in (("Gaps", "skipped"), ("Failures", "failed")):
        chosen = [r for r in results if r.status == status]
        out += ["", f"## {title}", ""]
        out += [f"- {r.client} → {r.server}, `{r.case}`: {r.reason}" for r in chosen] or ["None."]
    if missing:
        out += ["", "## Not run", ""] + [f"- {name}: {reason}" for name, reason in missing.items()]
    return "\n".join(out) + "\n"
