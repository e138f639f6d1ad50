"""The wire against the lab, figure by figure, on a diagonal: docs/truth.svg."""

from math import floor, log10

SIZE, LEFT, BOTTOM, TOP, RIGHT = 640, 64, 48, 16, 200
# Metric, name, unit of the axis, color. All axes are decades, so that different units share them.
SERIES = (("completion", "completion, s", 1, "#2a7de1"), ("rtt", "mean RTT, ms", 1e3, "#d9822b"),
          ("start_window", "end of the start, segments", 1, "#1f9d55"),
          ("retransmissions", "retransmitted", 1, "#b5369f"), ("sojourn_p95", "sojourn p95, ms", 1e3, "#7a6ff0"),
          ("goodput", "goodput, Mbps", 1e-6, "#c23b3b"))
STYLE = """svg { font: 12px system-ui, sans-serif; background: #fff; color: #222; }
@media (prefers-color-scheme: dark) { svg { background: #161616; color: #ddd; } }
text { fill: currentColor; } .axis { stroke: currentColor; opacity: .25; }
.equal { stroke: currentColor; opacity: .6; }"""


def points(found):
    """The checks of measured rows that the picture shows, with their rows."""
    for one in found:
        for check in one.checks() if one.is_measured() else []:
            if check["lab"] and check["wire"] and check["metric"] in [entry[0] for entry in SERIES]:
                yield check, one.row


def draw(found):
    scales = {metric: (scale, color) for metric, _, scale, color in SERIES}
    marks = [(check, row, *scales[check["metric"]]) for check, row in points(found)]
    if not marks:
        return None
    values = [value * scale for check, _, scale, _ in marks for value in (check["lab"], check["wire"])]
    low, high = floor(log10(min(values))), floor(log10(max(values))) + 1
    inner = SIZE - LEFT - 16

    def x(value):
        return LEFT + (log10(max(value, 10**low)) - low) / (high - low) * inner

    def y(value):
        return TOP + inner - (log10(max(value, 10**low)) - low) / (high - low) * inner

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE + RIGHT} {TOP + inner + BOTTOM}" role="img">',
             "<title>Figures on the wire against those of the lab</title>", f"<style>{STYLE}</style>"]
    for decade in range(low, high + 1):
        at = 10**decade
        parts.append(f'<path class="axis" d="M{x(at):.1f} {TOP}V{TOP + inner}M{LEFT} {y(at):.1f}H{LEFT + inner}"/>')
        parts.append(f'<text x="{x(at):.1f}" y="{TOP + inner + 16}" text-anchor="middle">{at:g}</text>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(at) + 4:.1f}" text-anchor="end">{at:g}</text>')
    parts.append(f'<path class="equal" d="M{LEFT} {TOP + inner}L{LEFT + inner} {TOP}"/>')
    parts.append(f'<text x="{LEFT + inner / 2}" y="{TOP + inner + 38}" text-anchor="middle">lab</text>')
    middle = TOP + inner / 2
    parts.append(f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">wire</text>')
    for check, row, scale, color in marks:
        across, up = x(check["lab"] * scale), y(check["wire"] * scale)
        left, right = (x(value * scale) for value in check["lab_range"])
        bottom, top = (y(value * scale) for value in check["wire_range"])
        parts.append(f'<g stroke="{color}" fill="{color if check["holds"] else "none"}"><title>{row.name}: '
                     f'{check["metric"].replace("_", " ")}</title>'
                     f'<path d="M{left:.1f} {up:.1f}H{right:.1f}M{across:.1f} {bottom:.1f}V{top:.1f}"/>'
                     f'<circle cx="{across:.1f}" cy="{up:.1f}" r="3"/></g>')
    shown = {check["metric"] for check, _, _, _ in marks}
    for place, (_, name, _, color) in enumerate(entry for entry in SERIES if entry[0] in shown):
        at = TOP + 12 + 18 * place
        parts.append(f'<circle cx="{SIZE + 6}" cy="{at - 4}" r="4" fill="{color}"/>'
                     f'<text x="{SIZE + 16}" y="{at}">{name}</text>')
    parts.append(f'<text x="{SIZE}" y="{TOP + 12 + 18 * len(shown) + 8}">hollow: outside the tolerance</text>')
    return "\n".join(parts) + "\n</svg>\n"


def write(file, found):
    text = draw(found)
    if text:
        file.write_text(text)
