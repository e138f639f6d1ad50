"""Numbers out of series over time."""


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
