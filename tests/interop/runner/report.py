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


def columns(results, known):
    """The cases of `known` that were run."""
    return [case for case in known if any(result.case == case.name for result in results)]


def line(result):
    """A result as it is reported while the others still run."""
    text = f"{result.status:8} {result.client} → {result.server} {result.case} ({result.seconds:.1f} s)"
    return text + (f": {result.reason}" if result.reason else "")


def terminal(results, known=cases.ALL):
    """A plain table for logs."""
    names = [case.name for case in columns(results, known)]
    width = max([22, *(len(f"{client} → {server}") + 2 for client, server in rows(results))])
    lines = ["client → server".ljust(width) + " ".join(names)]
    for (client, server), row in rows(results).items():
        cells = (MARKS[row[name].status] if name in row else " " for name in names)
        lines.append(f"{client} → {server}".ljust(width) + " ".join(c.center(len(n)) for c, n in zip(cells, names)))
    return "\n".join(lines)


def summary(results):
    count = {status: sum(r.status == status for r in results) for status in MARKS}
    return f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped"


def table(results, known, versions, missing, about, level="##"):
    """The lines of a table in Markdown: what was run, what came of it, and what each case proves."""
    shown = columns(results, known)
    out = [
        *about, "", "Versions: " + ", ".join(versions) + ".", "",
        "| client | server | " + " | ".join(case.name for case in shown) + " |",
        "|---|---|" + ":-:|" * len(shown),
    ]
    for (client, server), row in rows(results).items():
        cells = (MARKS[row[case.name].status] if case.name in row else "" for case in shown)
        out.append(f"| {client} | {server} | " + " | ".join(cells) + " |")
    out += ["", "**" + summary(results) + "**", "", f"{level} What a case proves", ""]
    out += [f"- `{case.name}`: {case.about}" for case in shown]
    for title, status in (("Gaps", "skipped"), ("Failures", "failed")):
        chosen = [r for r in results if r.status == status]
        out += ["", f"{level} {title}", ""]
        out += [f"- {r.client} → {r.server}, `{r.case}`: {r.reason}" for r in chosen] or ["None."]
    if missing:
        out += ["", f"{level} Not run", ""] + [f"- {name}: {reason}" for name, reason in missing.items()]
    return out


def markdown(results, versions, missing, command):
    """docs/interop.md with the table of the peers; the other sections are added by what makes them."""
    about = [
        f"`{command}` wrote this page on {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}; do not edit it.",
        "",
        "✓ passed, ✗ failed, – the peer lacks the case (see Gaps). Every run is on loopback. Every downloaded file is",
        "compared with the original by SHA-256. A case counts only if the endpoints report that the behavior under test",
        "really happened; the relay between them confirms it where it can.",
    ]
    return "\n".join(["# Interoperability", "", *table(results, cases.ALL, versions, missing, about)]) + "\n"


def section(file, heading, lines):
    """Puts a section into a Markdown file, in place of its last version or at the end."""
    text = file.read_text(encoding="utf-8") if file.exists() else "# Interoperability\n"
    before, _, after = text.partition(f"\n{heading}\n")
    following = after.find("\n## ")
    parts = [before.rstrip(), "\n".join([heading, "", *lines])]
    if following >= 0:
        parts.append(after[following:].strip())
    file.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
