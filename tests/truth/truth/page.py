"""The tables of docs/truth.md."""

import textwrap
from statistics import median

from . import judge

TITLES = {"completion": "completion, s", "completion_mean": "mean completion, s", "rtt": "mean RTT, ms",
          "start_window": "window at the end of the start, segments", "retransmissions": "retransmitted",
          "sojourn_p95": "sojourn p95, ms", "goodput": "goodput, Mbps", "share": "share, %", "dropped": "dropped",
          "marked": "marked"}
SCALES = {"rtt": 1e3, "sojourn_p95": 1e3, "goodput": 1e-6, "share": 1e2}
PLACES = {"completion": 3, "completion_mean": 3, "rtt": 1, "sojourn_p95": 1, "goodput": 2, "share": 1}
UNITS = {"completion": " s", "completion_mean": " s", "rtt": " ms", "sojourn_p95": " ms", "goodput": " Mbps",
         "share": " %"}


def plain(metric, value):
    """A figure without its unit."""
    if value is None:
        return "none"
    return f"{value * SCALES.get(metric, 1):.{PLACES.get(metric, 0)}f}"


def number(metric, value):
    """A figure with its unit."""
    return plain(metric, value) + (UNITS.get(metric, "") if value is not None else "")


def distance(check):
    """The median over pairs of runs, where a row is judged by it."""
    if "apart" not in check:
        return ""
    return f"; {check['apart'] * 100:+.1f}" if check["metric"] == "share" else f"; × {check['apart']:.2f}"


def cell(check):
    lab = "–" if check["lab"] is None and check["holds"] else plain(check["metric"], check["lab"])
    text = f"{lab}; {plain(check['metric'], check['wire'])}{distance(check)}"
    return text if check["holds"] else f"**{text}**"


def columns(found):
    """The metrics of rows that share a table, in their order."""
    return list(dict.fromkeys(check.metric for one in found for check in one.row.checks))


def table(found):
    """One row for each that was measured: the lab's median and the wire's, bold where they disagree."""
    metrics = columns(found)
    lines = ["| row | " + " | ".join(TITLES[metric] for metric in metrics) + " | holds |",
             "|---|" + "---|" * (len(metrics) + 1)]
    for one in found:
        if not one.is_measured():
            lines.append(f"| {one.row.name} | " + " | ".join("" for _ in metrics) + " | not measured |")
            continue
        checks = {check["metric"]: check for check in one.checks()}
        cells = [cell(checks[metric]) if metric in checks else "" for metric in metrics]
        holds = "yes" if all(check["holds"] for check in checks.values()) else "**no**"
        lines.append(f"| {one.row.name} | " + " | ".join(cells) + f" | {holds} |")
    return "\n".join(lines)


def bounds(found):
    """The tolerances, in words."""
    said = {}
    for one in found:
        for check in one.row.checks:
            texts = said.setdefault(TITLES[check.metric].split(",")[0], [])
            text = judge.bound(check)
            if text not in texts:
                texts.append(text)
    return "; ".join(f"{name} {' or '.join(texts)}" for name, texts in said.items())


def errors(found):
    """How far wire and lab are apart, as shares of the lab's figure."""
    return [abs(check["wire"] / check["lab"] - 1) for one in found if one.is_measured() for check in one.checks()
            if check["lab"] and check["wire"] is not None and check["metric"] != "share"]


def summary(found):
    done = [one for one in found if one.is_measured()]
    hold = [one for one in done if all(check["holds"] for check in one.checks())]
    runs = sum(len(one.kept["runs"]) for one in found)
    thrown = sum(len(one.kept["thrown_away"]) for one in found)
    days = sorted({run["day"] for one in found for run in one.kept["runs"]})
    apart = errors(found)
    text = f"{len(done)} of {len(found)} rows measured, {len(hold)} hold. {runs} valid runs, {thrown} thrown away"
    if days:
        text += f", {days[0]}" + (f" to {days[-1]}" if days[-1] != days[0] else "")
    if apart:
        text += f". The median distance of a figure from the lab's is {median(apart) * 100:.1f} %"
    return text + "."


def replaced(text, name, made):
    """The text of a page with this between the marks of `name`."""
    begin, end = f"<!-- {name} --write -->", f"<!-- end of {name.split(':')[0]} -->"
    before, rest = text.split(begin, 1)
    _, after = rest.split(end, 1)
    return before + begin + "\n" + made + "\n" + end + after


def write_line(file, found):
    """One line for readers who come first to `file`: how many rows were measured, and how far both sides are apart."""
    done = [one for one in found if one.is_measured()]
    apart = median(errors(found)) * 100
    line = (f"The lab is checked against the wire: over {len(done)} of {len(found)} rows, the median distance of a "
            f"figure from the lab's is {apart:.1f} % ([The lab beside the wire](docs/truth.md)).")
    file.write_text(replaced(file.read_text(), "truth: tests/truth/run", "\n".join(textwrap.wrap(line, 118))))


def write(file, by_table, extra):
    """Puts each table between its marks."""
    text = file.read_text()
    for name, found in by_table.items():
        prose = [summary(found), f"Tolerances: {bounds(found)}.", *extra.get(name, [])]
        parts = ["\n".join(textwrap.wrap(part, 120, break_on_hyphens=False)) for part in prose] + [table(found)]
        text = replaced(text, f"truth {name}: tests/truth/run {name}", "\n" + "\n\n".join(parts) + "\n")
    file.write_text(text)
