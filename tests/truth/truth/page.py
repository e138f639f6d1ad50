"""The tables of docs/truth.md."""

def number(metric, value):
    """A figure with its unit."""
    if value is None:
        return "none"
    if metric in ("completion", "completion_mean"):
        return f"{value:.3f} s"
    if metric in ("rtt", "sojourn_p95"):
        return f"{value * 1e3:.1f} ms"
    if metric == "goodput":
        return f"{value / 1e6:.2f} Mbps"
    if metric == "share":
        return f"{value * 100:.1f} %"
    return f"{value:g}" if isinstance(value, int) else f"{value:.4g}"


def write(file, found):
    pass
