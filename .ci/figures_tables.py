"""Cells and tables of the book: what .ci/figures.toml describes, from results of the lab."""
import sys
from math import isinf

from lab_results import by_run, geometric_mean, interval, mean, quantile, ratios

SCALES = {"%": 100, "ms": 1e3, "us": 1e6, "MB": 1e-6, "kB": 1e-3, "Mbps": 1e-6, "kbps": 1e-3}


class Cell:
    """A metric of a flow, a link or the run, in a unit, or its ratio to that of another point."""

    KEYS = {"of", "metric", "stat", "seeds", "unit", "digits", "interval", "over", "excess", "where", "bare", "less"}

    def __init__(self, spec):
        if unknown := set(spec) - self.KEYS:
            sys.exit(f"a cell has unknown keys: {', '.join(sorted(unknown))}")
        self.subject, self.metric = spec.get("of", "run"), spec["metric"]
        self.statistic, self.seeds = spec.get("stat", "p50"), spec.get("seeds", "p50")
        self.unit, self.digits = spec.get("unit", ""), spec.get("digits", 3)
        self.over, self.less, self.where = spec.get("over"), spec.get("less"), spec.get("where", {})
        self.excess = spec.get("excess", False)
        self.interval = spec.get("interval", True)
        self.scale, self.bare = SCALES.get(self.unit, 1), spec.get("bare", False)

    def values(self, results, axes):
        """A value per seed, or a ratio or a difference per seed."""
        own = by_run(results, only(results, {**axes, **self.where}), self.subject, self.metric, self.statistic)
        if self.over is None and self.less is None:
            return list(own.values())
        base = only(results, {**axes, **self.where, **(self.over or self.less)})
        other = by_run(results, base, self.subject, self.metric, self.statistic)
        if self.less is None:
            return ratios(other, own)
        return [value if isinf(value) else value - other[seed] for seed, value in own.items() if seed in other]

    def number(self, value):
        if isinf(value):
            return "∞" if self.over is not None else "never"
        if self.excess:
            return f"{value * 100 - 100:+.0f}".replace("-", "−").replace("+0", "0").replace("−0", "0")
        if self.over is not None:
            return f"{value:.{self.digits - 1}f}"
        value *= self.scale
        if value == round(value) or abs(value) >= 10 ** (self.digits - 1):
            return f"{value:,.0f}".replace("-", "−")
        text = f"{value:#.{self.digits}g}".replace("-", "−")
        # A count at the median of an even number of seeds.
        return text if self.unit or "_over_" in self.metric else text.rstrip("0").rstrip(".")

    def middle(self, values):
        if self.seeds in ("mean", "max", "min"):
            return {"mean": mean, "max": max, "min": min}[self.seeds](values)
        return quantile(values, float(self.seeds[1:]) / 100)

    def text(self, values):
        if not values:
            return "–"
        middle = self.number(self.middle(values))
        ends = None
        if self.interval and self.seeds.startswith("p"):
            ends = interval(values, float(self.seeds[1:]) / 100)
        unit = {"%": " %", "": ""}.get(self.unit, f" {self.unit}")
        unit = " %" if self.excess else "" if self.over is not None else unit
        unit = "" if self.bare or middle in ("never", "∞") else unit
        if ends is None:
            return middle + unit
        low, high = map(self.number, ends)
        return f"{middle}{unit}" if low == high == middle else f"{middle}{unit} [{low}, {high}]"

    def of(self, results, axes):
        return self.text(self.values(results, axes))


def only(results, wanted):
    """The one point with these values: an axis that is not among them would make any of several stand for all."""
    found = results.where(**wanted)
    if len(found) != 1:
        sys.exit(f"{results.folder}: {len(found)} points have {wanted}; name one value of each axis of {results.names}")
    return found[0]


def markdown(head, rows, right=False, last=None):
    """A table. Figures may stand to the right; the `last` column has a rule of its own, as it may hold words."""
    rule = "--:|" if right else "---|"
    lines = ["| " + " | ".join(line) + " |\n" for line in (head, *rows)]
    lines.insert(1, "|---|" + rule * (len(head) - 2) + (last or rule) + "\n")
    return "".join(lines)


def listed(value):
    return value if isinstance(value, list) else [value]


def combinations(results, axes, fixed):
    """Every combination of the values of some axes that has points, in their order."""
    return list(dict.fromkeys(
        tuple(results.axes(at)[axis] for axis in axes) for at in results.where(**fixed)
    ))


def chosen(all_, wanted, names):
    """Those that are wanted, in the order in which they are, or all."""
    if wanted is None:
        return all_
    picked = [tuple(listed(value)) for value in wanted]
    if missing := [value for value in picked if value not in all_]:
        sys.exit(f"no point has {' and '.join(names)} = {missing[0]}; there are {', '.join(map(str, all_[:40]))}")
    return picked


def label(values, labels, code=True):
    text = ", ".join(values)
    return labels.get(text, f"`{text}`" if code else text)


def bold(cells, middles, way):
    """Bold where the first figure prints as the best of the row."""
    known = [middle for middle in middles if middle is not None and not isinf(middle)]
    if not known or all(cell == cells[0] for cell in cells):
        return cells
    best = cells[middles.index(min(known) if way == "least" else max(known))].split(" [")[0]
    return [f"**{cell}**" if cell.split(" [")[0] == best else cell for cell in cells]


def joined(cells, results, axes):
    """What stands in one place of a table, and the figure of its first cell; None where there is none."""
    values = [cell.values(results, axes) for cell in cells]
    text = ", ".join(cell.text(those) for cell, those in zip(cells, values))
    return text, cells[0].middle(values[0]) if values[0] else None


def body(spec, results, fixed):
    """One table: a row for each value of `row`; a column for each value of `column`, or for each of `cells`."""
    row_axes, labels = listed(spec["row"]), spec.get("labels", {})
    code, code_above = spec.get("code_rows", True), spec.get("code_columns", True)
    rows = chosen(combinations(results, row_axes, fixed), spec.get("rows"), row_axes)
    lines, figures = [], []
    if "column" in spec:
        column_axes = listed(spec["column"])
        columns = chosen(combinations(results, column_axes, fixed), spec.get("columns"), column_axes)
        cells = [Cell(cell) for cell in listed(spec["cell"])]
        head = [spec.get("head", ", ".join(row_axes)), *(label(column, labels, code_above) for column in columns)]
        for row in rows:
            texts, middles = [], []
            for column in columns:
                axes = {**fixed, **dict(zip(row_axes, row)), **dict(zip(column_axes, column))}
                if not results.where(**axes):
                    texts.append("–")
                    middles.append(None)
                    continue
                text, middle = joined(cells, results, axes)
                texts.append(text)
                middles.append(middle)
            if way := spec.get("best"):
                texts = bold(texts, middles, way)
            lines.append([label(row, labels, code), *texts])
            figures.append(middles)
        made = [cells[0]] * len(columns)
    else:
        made = [[Cell(cell) for cell in listed(cell)] for cell in spec["cells"].values()]
        head = [spec.get("head", ", ".join(row_axes)), *spec["cells"]]
        for row in rows:
            axes = {**fixed, **dict(zip(row_axes, row))}
            parts = [joined(cells, results, axes) for cells in made]
            lines.append([label(row, labels, code), *(text for text, _ in parts)])
            figures.append([middle for _, middle in parts])
        made = [cells[0] for cells in made]
    if name := spec.get("geometric_mean"):
        columns = [[line[at] for line in figures] for at in range(len(made))]
        means = [made[at].number(geometric_mean(column)) if all(column) else "" for at, column in enumerate(columns)]
        lines.append([name, *means])
    return markdown(head, lines, spec.get("right", False))


def generic(spec, results):
    fixed = spec.get("where", {})
    split = spec.get("split")
    if split is None:
        return body(spec, results, fixed)
    values = split.get("values") or results.values_of(split["axis"])
    texts = split.get("texts", {})
    return "\n".join(
        f"{texts.get(value, f'`{value}`')}:\n\n" + body(spec, results, {**fixed, split["axis"]: value}) for value in values
    )
