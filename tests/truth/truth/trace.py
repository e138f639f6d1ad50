"""TCP_INFO of a flow as a qlog trace (version 0.3), so that `thalweg qlog` shows TCP of the kernel beside QUIC.

Of each look that differs from the one before there is an event `recovery:metrics_updated`, and of each change of state
`recovery:congestion_state_updated`. Linux counts its window in segments; the trace has bytes.
"""

import json

from .rows import MSS

INFINITE = 0x7FFFFFFF  # the threshold of a flow whose slow start has not ended
# tcpi_ca_state (linux/tcp.h): what reduces the window is one state of qlog, however Linux came to it.
REDUCING = {2: "CWR", 3: "Recovery", 4: "Loss"}


def state(look):
    """The state of congestion control, in the words of qlog."""
    if look["ca_state"] in REDUCING:
        return "recovery"
    return "slow_start" if look["window"] < look["ssthresh"] else "congestion_avoidance"


def metrics(look):
    """The values of a look in the names and units of qlog: bytes and milliseconds."""
    mss = look.get("mss") or MSS
    in_flight = look["unacked"] - look["sacked"] - look["lost"] + look["retrans"]
    values = {"congestion_window": look["window"] * mss, "bytes_in_flight": max(0, in_flight) * mss}
    if look["ssthresh"] < INFINITE:
        values["ssthresh"] = look["ssthresh"] * mss
    # Before the first sample both are zero, and the smallest is all ones.
    if look["rtt_us"]:
        values |= {"smoothed_rtt": look["rtt_us"] / 1e3, "rtt_variance": look["rttvar_us"] / 1e3}
        if look["min_rtt_us"] <= look["rtt_us"]:
            values["min_rtt"] = look["min_rtt_us"] / 1e3
    return values


def events(looks):
    """Time in milliseconds since the first look, name and data of each event."""
    begin = looks[0]["t"] if looks else 0.0
    last_state, last_values = None, None
    for at, look in enumerate(looks):
        now, new, values = (look["t"] - begin) * 1e3, state(look), metrics(look)
        if new != last_state:
            yield now, "recovery:congestion_state_updated", {**({"old": last_state} if last_state else {}), "new": new}
        if values != last_values or at + 1 == len(looks):
            yield now, "recovery:metrics_updated", values
        last_state, last_values = new, values


def text(title, looks):
    """The trace as a sequence of JSON records."""
    header = {"qlog_version": "0.3", "qlog_format": "JSON-SEQ", "title": title,
              "trace": {"title": title, "vantage_point": {"type": "server"}, "common_fields": {"time_format": "relative"}}}
    records = [header, *({"time": round(time, 3), "name": name, "data": data} for time, name, data in events(looks))]
    return "".join(f"\x1e{json.dumps(record, separators=(',', ':'))}\n" for record in records)


def write(path, title, looks):
    path.write_text(text(title, looks))
