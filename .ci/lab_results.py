"""What a folder of results of the lab holds: values of every run, by point."""
import json
import re
from pathlib import Path


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
        self.runs = {}
        for run in manifest["runs"]:
            self.runs[run["point"], run["seed"]] = runs[run["seed"], run["wire_hash"], run["decisions_hash"]]

    def values(self, point, flow, metric):
        """One value per run, in the order of seeds; infinite where a run failed."""
        found = []
        for (at, _), record in sorted(self.runs.items()):
            if at == point:
                part = next(part for part in record["flows"] if part["name"] == flow)
                found.append(part["values"].get(metric, [float("inf")])[0])
        return found

    def axes(self, point):
        """The values of a point by axis."""
        parts = re.split(r", (?![^(]*\))", self.points[point])  # Policies have commas within brackets.
        return dict(part.split(" = ", 1) for part in parts if " = " in part)


def mean(values):
    return sum(values) / len(values)


def quantile(values, share):
    """Between order statistics, linearly, as the lab's own."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    if ordered[high] == float("inf"):
        return ordered[high] if at > low else ordered[low]
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])
