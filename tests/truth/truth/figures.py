"""Numbers out of series."""


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def quantile(values, share):
    """Between order statistics, linearly, as the lab's own."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def time_average(times, values, step=0.01):
    """The mean of a series that holds its value until the next, looked at every `step` as on the wire."""
    total, count, at, now = 0.0, 0, 0, times[0]
    while now <= times[-1]:
        while at + 1 < len(times) and times[at + 1] <= now:
            at += 1
        total += values[at]
        count += 1
        now += step
    return total / count
