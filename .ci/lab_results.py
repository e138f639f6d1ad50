"""Results of the lab: the values of every run by point, their statistics, and figures as the book prints them."""
import json
import re
from collections import Counter
from functools import lru_cache
from math import comb, exp, isinf, log
from pathlib import Path

NEVER = float("inf")
# Metrics that describe and do not judge: no value of them is the worst. Of all others less is better.
NEITHER = ("max_window", "congestion_events", "recovery_", "reverse_packets", "model_")
# Of these more is better, so that a failed run counts as nothing.
MORE = ("goodput", "link_use", "success", "completed", "competing_share", "share", "bytes")


class Results:
    """A folder that `thalweg lab run --out` has written."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.results = json.loads((self.folder / "results.json").read_text())
        manifest = json.loads((self.folder / "manifest.json").read_text())
        self.points, self.seeds = self.results["points"], self.results["seeds"]
        runs = {}
        for file in self.folder.glob("runs/*/[0-9]*.json"):
            record = json.loads(file.read_text())
            runs[record["seed"], record["record"]["wire_hash"], record["record"]["decisions_hash"]] = record["record"]
        self.by_point = {}
        for run in manifest["runs"]:
            record = runs[run["seed"], run["wire_hash"], run["decisions_hash"]]
            self.by_point.setdefault(run["point"], {})[run["seed"]] = record
        self.names = axes_of(self.points)
        self.parsed = [parse(text, self.names) for text in self.points]

    def values(self, point, flow, metric):
        """One value per run, in the order of seeds; infinite where a run failed."""
        found = []
        for _, record in sorted(self.by_point[point].items()):
            part = next(part for part in record["flows"] if part["name"] == flow)
            found.append(part["values"].get(metric, [NEVER])[0])
        return found

    def axes(self, point):
        """The values of a point by axis."""
        return self.parsed[point]

    def values_of(self, axis):
        """The values of an axis in the order of the points."""
        return list(dict.fromkeys(axes[axis] for axes in self.parsed if axis in axes))

    def where(self, **wanted):
        """The points with these values, in order. An axis that a point does not have is no matter: a rival has no policies."""
        has = lambda axes: all(axes.get(axis, value) == value for axis, value in wanted.items())  # noqa: E731
        return [at for at, axes in enumerate(self.parsed) if has(axes)]


def axes_of(points):
    """The names of axes: what stands before " = " in a third of the points. Labels may have commas and equal signs, too."""
    found = [re.findall(r"(?:^|, )([\w.-]+(?: [\w.-]+)?) = ", text) for text in points]
    counts = Counter(name for names in found for name in dict.fromkeys(names))
    return [name for name, count in counts.items() if count * 3 >= len(points)]


def parse(text, names):
    """The values of a point by axis. Axes that a point does not have are left out."""
    starts = sorted((found.start() + (2 if found[0].startswith(",") else 0), found.end(), name) for name in names
                    if (found := re.search(rf"(?:^|, ){re.escape(name)} = ", text)))
    ends = [begin - 2 for begin, _, _ in starts[1:]] + [len(text)]
    return {name: text[begin:end] for (_, begin, name), end in zip(starts, ends)}


def mean(values):
    return sum(values) / len(values)


def geometric_mean(values):
    return exp(mean([log(value) for value in values]))


def quantile(values, share):
    """Between order statistics, linearly, as the lab's own."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    if isinf(ordered[high]):
        return ordered[high] if at > low else ordered[low]
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


MISSES = 0.05  # of a 95 % interval


def rank(count, share, misses):
    """How many of the smallest values lie below a quantile so surely that it is false with at most `misses`."""
    below = 0.0
    for k in range(count):
        below += comb(count, k) * share**k * (1 - share) ** (count - k)
        if below > misses:
            return k
    return count


@lru_cache(None)
def ranks(count, share):
    """The places between which a quantile lies with 95 %, as the lab counts them: at most 2.5 % beyond either end, and
    where no value lies beyond an end so surely, the last one is the end and the other has what is left of the 5 %;
    None with too few values."""
    below, above = rank(count, share, MISSES / 2), rank(count, 1 - share, MISSES / 2)
    if share > 0.5 and above == 0 and share**count < MISSES:
        below, above = rank(count, share, MISSES - share**count), 1
    elif share < 0.5 and below == 0 and (1 - share) ** count < MISSES:
        below, above = 1, rank(count, 1 - share, MISSES - (1 - share) ** count)
    return (below - 1, count - above) if below > 0 and above > 0 else None


def interval(values, share=0.5):
    """The 95 % interval of a quantile, between order statistics; None with too few values."""
    found = ranks(len(values), share)
    ordered = sorted(values)
    return found and (ordered[found[0]], ordered[found[1]])


def by_run(results, point, subject, metric, statistic="p50"):
    """A value per seed: the statistic of a metric of a flow, a link or the run (`run`)."""
    found = {}
    for seed, record in sorted(results.by_point[point].items()):
        if subject == "run":
            values, never = record["values"].get(metric), 0
        else:
            # A run that panicked has no parts.
            parts = (part for part in record["flows"] + record["links"] if part["name"] == subject)
            part = next(parts, {"values": {}})
            values = part["values"].get(metric)
            never = sum(count for name, count in dict(part.get("never") or {}).items() if name == metric)
        if values or never:
            values = (values or []) + [NEVER] * never
            found[seed] = {"mean": mean, "max": max, "min": min, "sum": sum}.get(
                statistic, lambda values: quantile(values, float(statistic[1:]) / 100))(values)
        elif record.get("failed") and not metric.startswith(NEITHER):
            found[seed] = 0.0 if metric.startswith(MORE) else NEVER
    return found


def ratio(first, second):
    """Second over first: of two zeros neither is larger, and something is endlessly more than nothing."""
    if first == second:
        return 1.0
    return second / first if first else NEVER


def ratios(first, second):
    """Of the seeds that both have, without those on which neither came to an end."""
    both = [(first[seed], second[seed]) for seed in second if seed in first]
    return [ratio(one, other) for one, other in both if not (isinf(one) and isinf(other))]
