#!/usr/bin/env python3
"""Captures the UDP datagrams of one port on loopback as pcapng. Needs CAP_NET_RAW, as tcpdump does.

usage: capture.py FILE PORT
Prints `CAPTURE ready` and, on SIGTERM, one `CAPTURE {json}` line with its counts; exit code 126 if it is not permitted.
The kernel's send offload puts many datagrams into one packet on loopback; they are split here, as a path shows them.
"""

import ctypes
import json
import signal
import socket
import struct
import sys

from runner import pcapng

NOT_PERMITTED = 126
ETH_P_IP = 0x0800
ETHERNET = 14  # bytes of the link header
# struct virtio_net_hdr: flags, gso_type, hdr_len, gso_size, csum_start, csum_offset
VNET_HEADER = struct.Struct("=BBHHHH")
GSO_UDP_L4 = 5
BUFFER = 64 << 20
TICK = 0.02  # seconds between looks whether it is over
SO_ATTACH_FILTER, SO_RCVBUFFORCE, SO_TIMESTAMPNS = 26, 33, 35
SOL_PACKET, PACKET_STATISTICS, PACKET_VNET_HDR = 263, 6, 15


def port_filter(port):
    """Classic BPF: IPv4, UDP, and this source or destination port."""
    load_half, load_byte, jump_equal, index_header, load_half_indexed, give = 0x28, 0x30, 0x15, 0xB1, 0x48, 0x06
    program = [
        (load_half, 0, 0, 12), (jump_equal, 0, 8, ETH_P_IP), (load_byte, 0, 0, 23), (jump_equal, 0, 6, pcapng.UDP),
        (index_header, 0, 0, 14), (load_half_indexed, 0, 0, 14), (jump_equal, 2, 0, port),
        (load_half_indexed, 0, 0, 16), (jump_equal, 0, 1, port), (give, 0, 0, 0xFFFFFFFF), (give, 0, 0, 0),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program), len(program)


def listen(port):
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)  # protocol 0: nothing arrives before the filter is there
    code, length = port_filter(port)
    memory = ctypes.create_string_buffer(code)
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HL", length, ctypes.addressof(memory)))
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    sock.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
    except PermissionError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
    sock.bind(("lo", ETH_P_IP))  # of IP, as opposed to all protocols, loopback shows each packet once
    return sock


def datagrams(packet, size):
    """The IP packets of one send: one, or with offload one for every `size` bytes of payload."""
    head = 4 * (packet[0] & 15) + 8
    if not size or len(packet) <= head + size:
        return [packet]
    found = []
    for at in range(head, len(packet), size):
        payload = packet[at : at + size]
        one = bytearray(packet[:head]) + payload
        struct.pack_into(">H", one, 2, len(one))
        struct.pack_into(">H", one, head - 4, 8 + len(payload))
        found.append(bytes(one))
    return found


def main():
    path, port = sys.argv[1], int(sys.argv[2])
    try:
        sock = listen(port)
    except PermissionError:
        print("no packet capture: raw sockets are not permitted here", file=sys.stderr)
        sys.exit(NOT_PERMITTED)
    writer = pcapng.Writer(path, "lo")
    over = []
    signal.signal(signal.SIGTERM, lambda *_: over.append(True))
    sock.settimeout(TICK)
    print("CAPTURE ready", flush=True)
    count = 0

    while True:
        last = bool(over)  # before the look: what has arrived by now is still taken
        try:
            data, notes, _, _ = sock.recvmsg(1 << 17, 64)
        except TimeoutError:
            if last:
                break
            continue
        seconds, nanoseconds = struct.unpack("=qq", notes[0][2][:16])
        _, kind, _, size, _, _ = VNET_HEADER.unpack_from(data)
        for one in datagrams(data[VNET_HEADER.size + ETHERNET :], size if kind & 0x7F == GSO_UDP_L4 else 0):
            count += 1
            writer.packet(seconds * 1_000_000_000 + nanoseconds, one)
    _, missed = struct.unpack("=II", sock.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    writer.close()
    print("CAPTURE " + json.dumps({"datagrams": count, "missed": missed}), flush=True)


if __name__ == "__main__":
    main()
