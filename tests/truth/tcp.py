#!/usr/bin/env python3
"""Flows behind `thalweg emulate`: TCP of the kernel, with a log of what it thinks, and QUIC of `thalweg` beside it.

usage: tcp.py serve PLAN.json    at the server's end: answers each flow with its bytes
       tcp.py fetch PLAN.json    at the client's end: asks for all flows and notes when the last byte came

The plan is in the folder of the run, and what is noted goes beside it: `client.json`, and `NAME.info` for each flow of
TCP, which has TCP_INFO every 10 ms. Both ends need little: what computes at real-time priority makes others late.
"""

import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time

STEP = 0.01  # seconds between two looks at TCP_INFO
CHUNK = bytes(1 << 18)
# Neither the receive window nor the send buffer may be what limits a flow. The receive buffer begins as Linux has it
# and grows as far as any row needs: a receiver whose window has room to grow acknowledges every segment, which one with
# a large buffer from the start does for as long as a row lasts (tcp_grow_window).
SETTINGS = {
    "tcp_rmem": "4096 131072 134217728",
    "tcp_wmem": "4096 4194304 134217728",
    # A flow must not begin with the threshold that another of the same run has left.
    "tcp_no_metrics_save": "1",
}

# struct tcp_info (linux/tcp.h): what is kept of it, after eight bytes of flags.
HEAD = struct.Struct("=8B24I4Q6I4Q2I2Q2I")
NAMES = ("t", "ca_state", "window", "ssthresh", "rtt_us", "rttvar_us", "unacked", "sacked", "lost", "retrans",
         "total_retrans", "acked", "min_rtt_us", "notsent", "rwnd_limited_us", "sndbuf_limited_us", "busy_us",
         "dsack_dups", "reord_seen", "pacing_rate", "delivered_ce", "mss")


def look(connection, now):
    """TCP_INFO of a connection, in the order of NAMES."""
    raw = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    x = HEAD.unpack(raw[:HEAD.size].ljust(HEAD.size, b"\0"))
    i, q, s, b = x[8:32], x[32:36], x[36:42], x[42:46]
    return (now, x[1], i[18], i[17], i[15], i[16], i[4], i[5], i[6], i[7], i[23], q[2], s[3], s[2], b[2], b[3], b[1],
            x[50], x[51], q[0], x[47], i[2])


def watch(connection, samples, stop):
    """Looks until all is acknowledged or the connection is gone."""
    due = time.monotonic()
    while not stop.is_set():
        now = time.monotonic()
        try:
            samples.append(look(connection, now))
        except OSError:
            return
        due += STEP
        time.sleep(max(0.0, due - time.monotonic()))


def settings(plan):
    for name, value in {**SETTINGS, "tcp_ecn": "1" if plan["ecn"] else "0"}.items():
        with open(f"/proc/sys/net/ipv4/{name}", "w") as file:
            file.write(value)


def answer(listener, flow, folder):
    """Sends what one flow asks for, and logs TCP_INFO meanwhile."""
    connection, _ = listener.accept()
    connection.recv(64)
    samples, stop = [], threading.Event()
    watcher = threading.Thread(target=watch, args=(connection, samples, stop))
    watcher.start()
    left = flow["size"]
    try:
        while left is None or left > 0:
            part = CHUNK if left is None or left >= len(CHUNK) else CHUNK[:left]
            connection.sendall(part)
            left = left if left is None else left - len(part)
        # The client closes when it has everything, and so the last ACK is seen.
        connection.recv(1)
    except OSError:
        pass
    stop.set()
    watcher.join()
    with open(os.path.join(folder, flow["name"] + ".info"), "w") as file:
        json.dump({"names": NAMES, "samples": samples}, file)


def serve(plan):
    settings(plan)
    for flow in plan["flows"]:
        if flow["stack"] == "quic":
            # stdout would go to the terminal of whoever runs the tables.
            quiet = [] if flow.get("loud") else ["--quiet"]
            subprocess.Popen([*flow["server"], *quiet], stdout=subprocess.DEVNULL)
    threads = []
    for flow in plan["flows"]:
        if flow["stack"] == "tcp":
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, flow["congestion"].encode())
            listener.bind(("", flow["port"]))
            listener.listen()
            threads.append(threading.Thread(target=answer, args=(listener, flow, plan["folder"])))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # COMMAND ends first, and the emulator then ends the servers of QUIC.
    time.sleep(600)


def read_all(read, flow, begin, end, noted):
    """Counts until the flow has all its bytes, or the time is over."""
    got = 0
    while flow["size"] is None or got < flow["size"]:
        part = read(1 << 18)
        now = time.monotonic()
        if not part or (end is not None and now > end):
            break
        got += len(part) if isinstance(part, bytes) else part
    noted[flow["name"]] = {"seconds": time.monotonic() - begin, "bytes": got, "begin": begin}


def fetch_tcp(flow, end, noted):
    begin = time.monotonic()
    # Not create_connection: the first time it looks for an address, it takes 2 ms to get ready for names.
    connection = socket.socket()
    connection.settimeout(30)
    connection.connect((os.environ["THALWEG_SERVER"], flow["port"]))
    connection.sendall(b"x" * 40)
    room = bytearray(1 << 18)
    read_all(lambda _: connection.recv_into(room), flow, begin, end, noted)
    connection.close()


def fetch_quic(flow, end, noted):
    begin = time.monotonic()
    client = subprocess.Popen(flow["client"], stdout=subprocess.PIPE)
    if flow["size"] is None:
        read_all(lambda size: os.read(client.stdout.fileno(), size), flow, begin, end, noted)
        client.kill()
    else:
        # The program says how long it took without its own start; the handshake comes before what it calls elapsed.
        said = json.loads(client.stdout.read() or b"{}")
        taken = said.get("elapsed_ms", 0) + (said.get("connection") or {}).get("handshake_ms", 0)
        noted[flow["name"]] = {"seconds": taken / 1e3, "bytes": said.get("bytes", 0), "begin": begin}
    client.wait()


def fetch(plan):
    settings(plan)
    # The other end may still be starting a server beside the one that listens already.
    time.sleep(plan["settle"])
    start = time.monotonic()
    end = None if plan["seconds"] is None else start + plan["seconds"]
    noted, threads = {}, []
    for flow in plan["flows"]:
        run = fetch_tcp if flow["stack"] == "tcp" else fetch_quic
        time.sleep(max(0.0, start + flow["offset"] - time.monotonic()))
        threads.append(threading.Thread(target=run, args=(flow, end, noted)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    with open(os.path.join(plan["folder"], "client.json"), "w") as file:
        json.dump(noted, file)
    # The server writes its log when the last connection is closed, which takes its time on a long path.
    time.sleep(plan["linger"])


def main():
    with open(sys.argv[2]) as file:
        plan = json.load(file)
    {"serve": serve, "fetch": fetch}[sys.argv[1]](plan)


if __name__ == "__main__":
    main()
