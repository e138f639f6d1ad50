"""Tables of the book whose shape is their own: the C4 test draft, one slot at a time, drawn worlds, repairs of PRR.

A maker takes the description of a table, the results of its scenarios by name, and the root of the repository.
"""
import json
import re

from figures_tables import Cell, label, markdown
from lab_results import by_run, geometric_mean, mean, quantile, ratios

# Mean seconds, and RTT in ms or load in per cent, of C4, BBR and CUBIC in draft-huitema-ccwg-c4-test-04.
TIMES = {
    "alone": "4.54 / 4.69 / 4.48", "alone_200": "1.13 / 1.22 / 1.15", "alone_1_5M": "21.9 / 21.7 / 21.5",
    "alone_512k": "16.4 / 16.2 / 16.2", "low_and_up": "7.67 / 7.51 / 8.03", "drop_and_back": "7.58 / 7.63 / 7.63",
    "blackhole": "5.63 / 5.81 / 5.70", "short_long": "18.0 / 42.4 / 21.4", "satellite": "7.09 / 7.45 / 6.70",
    "bbloat": "13.0 / 13.0 / 12.6", "wifi_bad": "3.82 / 5.56 / 4.09", "wifi_fade": "5.07 / 5.42 / 5.36",
    "wifi_suspension": "4.55 / 4.62 / 4.60", "ecn": "4.55 / 4.67 / 4.46",
}
RTTS = {
    "alone": "104 / 96 / 130", "alone_200": "59 / 46 / 54", "alone_1_5M": "54 / 55 / 86", "alone_512k": "67 / 95 / 95",
    "low_and_up": "111 / 117 / 119", "drop_and_back": "120 / 121 / 130", "blackhole": "128 / 146 / 168",
    "short_long": "193 / 194 / 305", "satellite": "601 / 692 / 610", "bbloat": "99 / 85 / 229",
    "wifi_bad": "121 / 66 / 94", "wifi_fade": "142 / 126 / 137", "wifi_suspension": "13 / 13 / 27",
    "ecn": "84 / 89 / 122",
}
LOADS = {
    ("vs", "bbr"): "78 / 47 / 78", ("vs", "c4"): "51 / 24 / 35", ("vs", "cubic"): "51 / 18 / 41",
    ("vs_lg", "c4"): "51 / 29 / 36", ("vs_lg2", "c4"): "55 / 56 / 40", ("vs_lg", "bbr"): "64 / 50 / 81",
    ("vs_lg2", "bbr"): "72 / 67 / 41", ("vs_lg", "cubic"): "55 / 18 / 48", ("vs_lg2", "cubic"): "67 / 81 / 57",
    ("bbloat", "c4"): "51 / 20 / 35", ("bbloat", "bbr"): "79 / 48 / 86", ("bbloat", "cubic"): "59 / 15 / 53",
    ("wifi_bad", "bbr"): "60 / 73 / 75", ("wifi_bad", "c4"): "46 / 46 / 51", ("wifi_bad", "cubic"): "43 / 67 / 38",
    ("after", "c4"): "34 / 20 / 26", ("before", "c4"): "60 / 48 / 69",
}
# Mean latency of frames, and the 90th percentile of its maximum, in ms.
LATENCIES = {
    "media": "33.5 / 33.4 / 33.5 (43.5 / 43.5 / 43.5)", "media10": "45.7 / 45.0 / 47.8 (87.5 / 71.1 / 92.2)",
    "media_600fr": "33.6 / 33.5 / 33.6 (43.5 / 43.5 / 43.5)", "media_short_long": "101 / 134 / 101 (112 / 334 / 109)",
    "media_wb": "84.8 / 89.2 / 82.2 (317 / 307 / 263)", "media_wf": "81.0 / 87.2 / 84.6 (291 / 346 / 323)",
    "media_ws": "23.0 / 21.6 / 22.1 (198 / 196 / 198)", "media_ecn": "34.5 / 34.5 / 34.7 (51.0 / 51.0 / 51.0)",
}

def named(opened, name):
    """The results of the scenario whose file has this name."""
    return next(results for scenario, results in opened.items() if scenario.rsplit("/", 1)[-1] == name)


BOLD = "Means that print as the best are bold."


def bold(text, best):
    """Bold if its mean prints as the best does."""
    return f"**{text}**" if text.startswith(best) else text


def published(columns, rows):
    """Figures to the right, and a last column that may hold words."""
    return markdown(columns, rows, right=True, last="---|")


def columns_of(rows):
    names = []
    for row in rows.values():
        names += [name for name in row if name not in names]
    return names


def runs(seeds):
    """Of how many runs figures are: "30 runs", or by scenario."""
    if len({count for _, count in seeds}) == 1:
        return f"{seeds[0][1]} runs"
    return " and ".join(f"{count} runs (`{name}`)" for name, count in seeds)


def alone(opened):
    """Rows of one flow: by row and by controller, the completions and the mean round-trip times."""
    rows, seeds = {}, []
    for name in ("alone", "satellite"):
        results = named(opened, name)
        seeds.append((name, results.seeds))
        for point, text in enumerate(results.points):
            # The names of controllers have commas.
            where, who = text.split("policies = ")
            row = re.search(r"link = ([^,]*)", where)
            values = [results.values(point, "main", metric) for metric in ("completion", "rtt_mean")]
            rows.setdefault(row[1] if row else "satellite", {})[who.replace(", resumed", "; resumed")] = values
    return rows, runs(seeds)


def beside(opened):
    """Rows of two flows: by row and rival and by controller, the loads and the completions."""
    rows, seeds = {}, []
    for name in ("beside", "beside-c4"):
        results = named(opened, name)
        seeds.append((name, results.seeds))
        for point, text in enumerate(results.points):
            found = re.search(r"link = ([^,]*),.* main\.policies = (.*?)(?:, other\.policies = (.*))?$", text)
            # Of the second scenario every rival is C4, and the axis has the name of its only flow with policies to
            # vary.
            found = found or re.search(r"link = ([^,]*),.* policies = (.*)()$", text)
            row, who, rival = found.groups()
            values = [results.values(point, "main", metric) for metric in ("competing_share", "completion")]
            rows.setdefault((row, rival or "c4"), {})[who] = values
    return rows, runs(seeds)


def c4(_spec, opened, _root):
    """Tables of the rows of one flow, and of two."""
    rows, seeds = alone(opened)
    names = [name for name in columns_of(rows) if not name.endswith("; resumed")]
    times, delays = [], []
    for row, cells in rows.items():
        # Where the path is known, a window comes with what is known.
        of = lambda name: cells.get(f"{name}; resumed") or cells[name]  # noqa: E731
        best = f"{min(mean(of(name)[0]) for name in names):#.3g} "
        shown = []
        for name in names:
            text = f"{mean(of(name)[0]):#.3g} ({quantile(of(name)[0], 0.9):#.3g})"
            shown.append(bold(text, best))
        times.append([f"`{row}`", *shown, TIMES.get(row, "")])
        delays.append([f"`{row}`", *(f"{mean(of(name)[1]) * 1e3:.0f}" for name in names), RTTS.get(row, "")])
    parts = [f"Completion of one flow in s, mean and (90th percentile) of {seeds}. {BOLD}\n"]
    parts.append(published(["row", *names, "published C4 / BBR / CUBIC"], times))
    parts.append(f"Mean of the flow's round-trip samples in ms, mean of {seeds}.\n")
    parts.append(published(["row", *names, "published"], delays))
    rows, seeds = beside(opened)
    names = columns_of(rows)
    loads = []
    for (row, rival), cells in rows.items():
        shown = [f"{mean(cells[name][0]) * 100:.0f} ({mean(cells[name][1]):#.3g} s)" for name in names]
        loads.append([f"`{row}`, {rival}", *shown, LOADS.get((row, rival), "")])
    parts.append(f"Load of the flow beside another in %, and its mean completion, means of {seeds}.\n")
    parts.append(published(["row, rival", *names, "published load"], loads))
    return "\n".join(parts)


def short(figure):
    """A decimal where that is the third digit."""
    return f"{figure:.1f}" if figure < 100 else f"{figure:.0f}"


def c4_calls(_spec, opened, _root):
    """Tables of the rows of calls."""
    results = named(opened, "media")
    rows = {}
    for point, text in enumerate(results.points):
        row, who = re.search(r"link = ([^,]*), policies = (.*)$", text).groups()
        rows.setdefault(row, {})[who] = lambda metric, point=point: results.values(point, "main", metric)
    names = columns_of(rows)

    def worse(of, metric):
        """Of audio and the first video the worse, in each run: what the draft judges."""
        return [max(both) * 1e3 for both in zip(of(f"audio_delay_{metric}"), of(f"video_delay_{metric}"))]

    judged, whole = [], []
    for row, cells in rows.items():
        best = f"{short(min(mean(worse(cells[name], 'mean')) for name in names))} "
        shown = []
        for name in names:
            longest = quantile(worse(cells[name], "max"), 0.9)
            text = f"{short(mean(worse(cells[name], 'mean')))} ({short(longest)})"
            shown.append(bold(text, best))
        judged.append([f"`{row}`", *shown, LATENCIES.get(row, "")])
        shown = []
        for name in names:
            delay, missing = mean(cells[name]("call_delay_mean")) * 1e3, mean(cells[name]("frames_missing")) * 100
            shown.append(f"{short(delay)} ({missing:.1f})")
        whole.append([f"`{row}`", *shown])
    seeds = runs([("media", results.seeds)])
    worst = "Latency of the frames of audio or of the first video, whichever is worse"
    parts = [f"{worst}, in ms: mean and (90th percentile of the maximum) of {seeds}. {BOLD}\n"]
    parts.append(published(["row", *names, "published C4 / BBR / CUBIC"], judged))
    parts.append(f"Mean latency of the frames of all tracks in ms, and (% of frames that never arrived), of {seeds}.\n")
    parts.append(markdown(["row", *names], whole, right=True))
    return "\n".join(parts)


def choices(spec, opened, _root):
    """One slot at a time: completion over that of the shipped policies, and the paths where it differs."""
    results, = opened.values()
    paths = results.values_of("path")
    rows = []
    for choice in results.values_of("policies"):
        if choice == "shipped":
            continue
        over = {}
        for path in paths:
            base, own = (results.where(path=path, policies=name)[0] for name in ("shipped", choice))
            values = [by_run(results, at, spec["of"], "completion") for at in (base, own)]
            over[path] = quantile(ratios(*values), 0.5)
        differs = [f"{path} {value:.3f}" for path, value in over.items() if abs(value - 1) > spec["beyond"]]
        rows.append([f"`{choice}`", f"{geometric_mean(list(over.values())):.3f}", ", ".join(differs) or "–"])
    return markdown(["choice", "mean", "where it differs"], rows)


def repairs(spec, opened, _root):
    """What reductions differ in, a row for each metric: ratios to the first of them."""
    results, = opened.values()
    base = spec["base"]
    others = [name for name in results.values_of("reduction") if name != base]
    rows = []
    for name, (metric, statistic) in spec["metrics"].items():
        cell = Cell({"of": spec["of"], "metric": metric, "stat": statistic, "over": {"reduction": base}})
        rows.append([name, *(cell.of(results, {"reduction": other}) for other in others)])
    return markdown([f"over `{base}`", *(f"`{name}`" for name in others)], rows)


def drawn(spec, _opened, _root):
    """Figures of drawn worlds, as `thalweg lab draw --json` writes them: over all, and by kind of path."""
    found = json.loads((spec["folder"] / "drawn.json").read_text())
    single, shared = found["single"], found["shared"]
    worlds = [world for world in found["worlds"] if world["class"] == "single"]
    dead = sum(bool(world.get("dead")) for world in found["worlds"])

    def share(value):
        return f"{value * 100:.1f} %"

    def ends(figure, text):
        low, high = figure["interval"]["low"], figure["interval"]["high"]
        return " to ".join("open" if end is None else text(end) for end in (low, high))

    def ratio(value):
        return f"{value:.3f}"

    within, over = single["within"], single["over_reference"]
    rows = [
        [f"downloads within 1.5 times the cold floor, of {within['runs']}", share(within["value"]), ends(within, share)],
        [f"completion over `start=hystart++`, geometric mean of {over['runs']}", ratio(over["value"]), ends(over, ratio)],
        ["least share that rivals keep", f"{shared['least']:.2f}", f"less on at most {share(shared['less_at_most'])} of such paths"],
        ["tenth percentile of that share", f"{shared['tenth']['value']:.2f}", ends(shared["tenth"], "{:.2f}".format)],
        ["its median", f"{shared['median']['value']:.2f}", ""],
        ["connections that died, runs that never completed", str(dead), ""],
    ]
    kinds = {}
    for world in worlds:
        kinds.setdefault(world["kind"], []).append(world)
    by_kind = [[f"`{kind}`", str(len(those)), f"{geometric_mean([world['ratio'] for world in those]):.2f}",
                f"{max(world['ratio'] for world in those):.2f}"] for kind, those in kinds.items()]
    command = f"thalweg lab draw --single {len(worlds)} --shared {len(found['worlds']) - len(worlds)}"
    return (f"`{command}`, {found['runs']:,} runs:\n\n" + published(["", "figure", "95 % interval"], rows)
            + "\nCompletion over that with `start=hystart++`, by kind of single path:\n\n"
            + markdown(["kind", "paths", "geometric mean", "largest"], by_kind, right=True))


def mixed(spec, opened, _root):
    """All combinations of round trips together: every run is an observation."""
    results, = opened.values()
    pacings, queues = results.values_of("pacing"), results.values_of("aqm")
    link, mean_of = ({"of": spec["link"], "metric": "sojourn_max", "unit": "ms"}, {"metric": "completion_mean", "unit": "s", "interval": False})
    rows = []
    for aqm in queues:
        row = [label((aqm,), spec.get("labels", {}))]
        for pacing in pacings:
            texts = []
            for cell in (Cell(link), Cell(mean_of), Cell({**mean_of, "over": {"aqm": queues[0]}})):
                values = []
                for at in results.where(pacing=pacing, aqm=aqm):
                    values += cell.values(results, {axis: value for axis, value in results.axes(at).items() if axis != "mark"})
                texts.append(cell.text(values))
            row.append(", ".join(texts))
        rows.append(row)
    return markdown(["queue", *(f"pacing {pacing}" for pacing in pacings)], rows)
