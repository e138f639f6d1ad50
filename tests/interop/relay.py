#!/usr/bin/env python3
"""A UDP relay between one client and one server: drops datagrams by a seeded coin and notes what the path can see.

usage: relay.py SERVER_HOST:PORT [--loss SHARE] [--delay SECONDS] [--overtaken SHARE] [--rebind SECONDS] [--seed N]
                [--capture FILE]
`--delay` is for each direction; a datagram of the share `--overtaken` takes twice as long, so that those behind it come
first. `--rebind` gives the client another port at the server every so often, as a NAT that forgets does; what the server
sends to the old one is lost.
Prints `RELAY listening=HOST:PORT`, and on SIGTERM one `RELAY {json}` line with its counts. The capture
has every datagram once, as the client's side of the path would show it; those that were dropped carry a comment.
"""

import argparse
import heapq
import itertools
import json
import random
import selectors
import signal
import socket
import time

from runner import pcapng

BUFFER = 4 << 20
V2 = 0x6B3343CF
# What the two type bits of a long header mean (RFC 9000 section 17.2, RFC 9369 section 3.2).
TYPES = {
    False: ("initial", "0rtt", "handshake", "retry"),
    True: ("retry", "initial", "0rtt", "handshake"),
}


def varint(data, at):
    """The variable-length integer at `at` and the offset behind it."""
    length = 1 << (data[at] >> 6)
    return int.from_bytes(data[at : at + length], "big") & ((1 << (8 * length - 2)) - 1), at + length


def long_headers(data):
    """(type, version, has_token) of each packet with a long header in a datagram."""
    at = 0
    while at + 7 <= len(data) and data[at] & 0x80:
        version = int.from_bytes(data[at + 1 : at + 5], "big")
        if version == 0:
            yield "version_negotiation", 0, False
            return
        kind = TYPES[version == V2][(data[at] >> 4) & 3]
        at += 5
        for _ in range(2):  # destination and source connection ID
            at += 1 + data[at]
        token = 0
        if kind == "initial":
            token, at = varint(data, at)
            at += token
        yield kind, version, token > 0
        if kind == "retry":
            return
        length, at = varint(data, at)
        at += length


class Side:
    """One direction and what was seen on it."""

    def __init__(self, loss, delay, overtaken, seed, record):
        self.loss = loss
        self.delay = delay
        self.overtaken = overtaken
        self.record = record  # called with the client's address, each datagram and why it was dropped, if it was
        self.coin = random.Random(seed)
        self.datagrams = 0
        self.dropped = 0
        self.late = 0
        self.kinds = {}
        self.versions = []
        self.tokens = 0

    def passes(self, data):
        self.datagrams += 1
        try:
            for kind, version, token in long_headers(data):
                self.kinds[kind] = self.kinds.get(kind, 0) + 1
                self.tokens += token
                if version and f"0x{version:08x}" not in self.versions:
                    self.versions.append(f"0x{version:08x}")
        except IndexError:
            self.kinds["malformed"] = self.kinds.get("malformed", 0) + 1
        if self.loss and self.coin.random() < self.loss:
            self.dropped += 1
            return False
        return True

    def takes(self):
        """How long the next datagram takes, seconds."""
        if not self.overtaken or self.coin.random() >= self.overtaken:
            return self.delay
        self.late += 1
        return 2 * self.delay

    def summary(self):
        return {
            "datagrams": self.datagrams, "dropped": self.dropped, "late": self.late, "kinds": self.kinds, "versions": self.versions,
            "tokens": self.tokens,
        }


def udp():
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        sock.setsockopt(socket.SOL_SOCKET, option, BUFFER)
    sock.bind(("127.0.0.1", 0))
    sock.setblocking(False)
    return sock


def recorder(writer, front, upwards):
    """Writes datagrams between a client and the relay into a capture, if there is one."""
    def record(client, data, comment=""):
        ends = (client, front) if upwards else (front, client)
        writer.packet(time.time_ns(), pcapng.ipv4_udp(*ends, data), comment)

    return record if writer else lambda *_: None


class Late:
    """Datagrams under way; of those due at once, the first to come is the first to go."""

    def __init__(self):
        self.waiting = []
        self.numbers = itertools.count()

    def add(self, seconds, deliver):
        heapq.heappush(self.waiting, (time.monotonic() + seconds, next(self.numbers), deliver))

    def wait(self):
        """Seconds until the next one is due; None if there is none."""
        return max(0.0, self.waiting[0][0] - time.monotonic()) if self.waiting else None

    def deliver(self):
        while self.waiting and self.waiting[0][0] <= time.monotonic():
            heapq.heappop(self.waiting)[2]()


def forward(source, side, late, send, client=None):
    for _ in range(64):  # a bounded burst, so that the other direction gets its turn
        try:
            data, sender = source.recvfrom(65535)
        except (BlockingIOError, ConnectionRefusedError):
            return

        def deliver(data=data, sender=sender):
            dropped = ""
            try:
                send(data, sender)
            except (BlockingIOError, ConnectionRefusedError) as error:
                side.dropped += 1
                dropped = f"dropped by the relay: {error}"
            side.record(client or sender, data, dropped)

        if not side.passes(data):
            side.record(client or sender, data, "dropped by the relay: loss")
        elif side.delay:
            late.add(side.takes(), deliver)
        else:
            deliver()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server")
    parser.add_argument("--loss", type=float, default=0.0)
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--overtaken", type=float, default=0.0)
    parser.add_argument("--rebind", type=float)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--capture", metavar="FILE")
    arguments = parser.parse_args()
    host, _, port = arguments.server.rpartition(":")
    server = (host, int(port))
    front = udp()
    writer = pcapng.Writer(arguments.capture, "relay") if arguments.capture else None
    way = (arguments.loss, arguments.delay, arguments.overtaken)
    up = Side(*way, arguments.seed, recorder(writer, front.getsockname(), True))
    down = Side(*way, arguments.seed + 1, recorder(writer, front.getsockname(), False))
    selector = selectors.DefaultSelector()
    late = Late()
    backs = {}  # one socket towards the server for each client address, and when it was bound
    rebound = 0

    def from_client(data, client):
        nonlocal rebound
        back, bound = backs.get(client, (None, 0.0))
        if back is None or (arguments.rebind and time.monotonic() - bound >= arguments.rebind):
            if back is not None:
                rebound += 1
                selector.unregister(back)
                back.close()
            back = udp()
            selector.register(back, selectors.EVENT_READ, client)
            backs[client] = (back, time.monotonic())
        back.sendto(data, server)

    def stop(*_):
        raise SystemExit

    signal.signal(signal.SIGTERM, stop)
    selector.register(front, selectors.EVENT_READ, None)
    print("RELAY listening=%s:%d" % front.getsockname(), flush=True)
    try:
        while True:
            for key, _ in selector.select(late.wait()):
                if key.fileobj.fileno() < 0:
                    continue  # closed by a rebinding a moment ago
                if key.data is None:
                    forward(front, up, late, from_client)
                else:
                    forward(key.fileobj, down, late, lambda data, _, client=key.data: front.sendto(data, client),
                            key.data)
            late.deliver()
    finally:
        if writer:
            writer.close()
        print("RELAY " + json.dumps({"up": up.summary(), "down": down.summary(), "rebound": rebound}), flush=True)


if __name__ == "__main__":
    main()
