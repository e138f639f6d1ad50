"""How long packets waited, from a capture of both ends."""

import struct

PACKET, INTERFACE = 6, 1
CLIENT, SERVER = 0, 1


def packets(file):
    """(interface, seconds, bytes, whether it was delivered) of each packet."""
    data = file.read_bytes()
    at = 0
    while at + 12 <= len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if kind == PACKET:
            interface, high, low, size, _ = struct.unpack_from("<IIIII", data, at + 8)
            yield interface, (high << 32 | low) / 1e9, data[at + 28:at + 28 + min(size, 100)], size
        at += length


def sojourns(file, delay):
    """Seconds from when the server's packets came to the path until they had left the queue, for all that arrived."""
    sent, found = {}, []
    for interface, at, head, size in packets(file):
        if head[0] >> 4 != 4:
            continue
        source = head[12:16]
        from_server = source == bytes((10, 12, 0, 1))
        if not from_server:
            continue
        # The path may mark a packet: neither that byte nor the checksum of the header tells packets apart.
        key = (size, head[4:6], head[20:64])
        if interface == SERVER:
            sent.setdefault(key, []).append(at)
        elif key in sent and sent[key]:
            found.append(at - sent[key].pop(0) - delay)
    return found
