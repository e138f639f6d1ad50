"""Whether a row holds: medians of valid runs on the wire beside the lab's, or, where flows begin alike, the median over
pairs of runs of the same seed."""

from math import inf
from statistics import median

from lab_results import quantile


def value(run, check):
    return run.get(check.subject, {}).get(check.metric)


def values(runs, check):
    return [found for run in runs if (found := value(run, check)) is not None]


def pairs(row, lab, runs, check):
    """What the lab's run of a seed and that on the wire have, where their flows begin alike."""
    if not row.begins_alike:
        return []
    both = [(value(lab[seed], check), value(wire, check)) for seed, wire in runs.items() if seed in lab]
    return [pair for pair in both if None not in pair]


def distance(check, lab, wire):
    """The difference of shares, else wire ÷ lab, which is infinite of nothing in the lab."""
    if check.kind == "points":
        return wire - lab
    return wire / lab if lab else inf if wire else 1.0


def judge(row, lab, runs):
    """A dictionary per check. `runs` are the figures of valid runs on the wire by their seeds."""
    found, wire = [], list(runs.values())
    for check in row.checks:
        ours, theirs = values(lab.values(), check), values(wire, check)
        one = {"subject": check.subject, "metric": check.metric}
        if not ours and not theirs:
            # Neither has it, such as the end of a start that never ended.
            found.append({**one, "lab": None, "wire": None, "holds": True})
            continue
        if not lab and theirs:
            # The lab has no such stack: there is nothing to agree with.
            found.append({**one, "lab": None, "wire": median(theirs), "holds": True})
            continue
        if not ours or not theirs:
            found.append({**one, "lab": ours and median(ours) or None,
                          "wire": theirs and median(theirs) or None, "holds": False})
            continue
        a, b = median(ours), median(theirs)
        spans = {"lab_range": [min(ours), max(ours)], "wire_range": [min(theirs), max(theirs)]}
        one |= {"lab": a, "wire": b, **spans}
        if couples := pairs(row, lab, runs, check):
            # A start that ends a round later changes all that follows, and which of two values most runs have. Runs
            # that begin alike are compared one by one, therefore.
            one["apart"] = median(distance(check, *pair) for pair in couples)
            within = holds(check, one["apart"], median(theirs - ours for ours, theirs in couples))
            found.append({**one, "holds": len(couples) == len(runs) and within})
        else:
            found.append({**one, "holds": holds(check, distance(check, a, b), b - a)})
    return found


def holds(check, apart, difference):
    """Whether two figures this distance and this difference apart agree."""
    if check.kind == "points":
        return abs(apart) <= check.tolerance
    if check.kind == "count":
        return abs(difference) <= check.least or check.tolerance <= apart <= 1 / check.tolerance
    return abs(apart - 1) <= check.tolerance


def bound(check):
    """The tolerance in words."""
    if check.kind == "points":
        return f"± {check.tolerance * 100:g} points"
    if check.kind == "count":
        return f"× {check.tolerance:g}–{1 / check.tolerance:.2f} or ± {check.least:g}"
    return f"± {check.tolerance * 100:g} %"


# What each run of the wire is looked up by in the lab's own range: metric, by how much the range is widened.
RANGES = (("completion", 0.01), ("packets_lost", 0), ("packets_spurious", 0), ("ptos", 0), ("longest_gap", 0))
ENOUGH = 0.85  # of all runs


def inside(lab, wire, metric, widened):
    """How many runs lie between the lab's 5th and 95th percentile, and of how many."""
    found = [run[flow][metric] for run in lab.values() for flow in run if metric in run[flow]]
    if not found:
        return 0, 0
    low, high = quantile(found, 0.05) * (1 - widened), quantile(found, 0.95) * (1 + widened)
    values = [run[flow][metric] for run in wire for flow in run if metric in run[flow]]
    return sum(low <= value <= high for value in values), len(values)


def ranges(measured):
    """Over all rows that ask for it: metric, runs inside, runs."""
    found = []
    for metric, widened in RANGES:
        pairs = [inside(one.lab, [run["figures"] for run in one.kept["runs"]], metric, widened)
                 for one in measured if one.row.ranges and one.is_measured()]
        within, count = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
        if count:
            found.append({"metric": metric, "inside": within, "runs": count, "holds": within >= ENOUGH * count})
    return found


def orders(measured):
    """Which of two servers is faster on a path, where the runs of neither side overlap: pairs that lab and wire see
    alike, and those that they do not, by name."""
    alike, unlike, paths = 0, [], {}
    for one in measured:
        if one.row.rival and one.lab and one.is_measured():
            server, _, where = one.row.name.partition(", ")
            paths.setdefault(where, []).append((server, one.checks()[0]))
    for where, found in paths.items():
        for number, (first, a) in enumerate(found):
            for second, b in found[:number]:
                lab, wire = (order(a[kind], b[kind]) for kind in ("lab_range", "wire_range"))
                if lab and wire and lab == wire:
                    alike += 1
                elif lab and wire:
                    unlike.append(f"{first} and {second}, {where}")
    return alike, unlike


def order(a, b):
    """-1 if all of the first are below all of the second, 1 if above, 0 if they overlap."""
    return -1 if a[1] < b[0] else 1 if b[1] < a[0] else 0
