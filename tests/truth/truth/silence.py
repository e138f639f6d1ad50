"""The longest silence of a download, from the client's trace: the longest time in which no byte came that the
application could read, from its first bytes to its last. The lab's `longest_gap` is the same."""

import json


def longest(file, stream=0):
    """Seconds between two packets that made the stream longer without a hole; 0 if there are no two."""
    read, waiting, last, most = 0, {}, None, 0.0
    with open(file, encoding="utf-8") as records:
        for line in records:
            # Most records are others, and to parse them all takes as long as the transfer.
            if "packet_received" not in line or '"stream"' not in line:
                continue
            record = json.loads(line.lstrip("\x1e"))
            before = read
            for frame in record["data"]["frames"]:
                if frame["frame_type"] == "stream" and frame["stream_id"] == stream:
                    begin, end = frame["offset"], frame["offset"] + frame["raw"]["payload_length"]
                    if begin <= read:
                        read = max(read, end)
                    else:
                        waiting[begin] = max(end, waiting.get(begin, 0))
            if read > before:
                # What waited behind the hole; some of it overlaps what came.
                for begin in sorted(waiting):
                    if begin > read:
                        break
                    read = max(read, waiting.pop(begin))
                if last is not None:
                    most = max(most, record["time"] - last)
                last = record["time"]
    return most / 1e3
