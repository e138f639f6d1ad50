"""The interop peer on aioquic. The contract of environment, files, exit codes and evidence lines is in ../README.md."""

import asyncio
import faulthandler
import json
import os
import signal
import ssl
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

from aioquic.asyncio import QuicConnectionProtocol, serve
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted, StreamDataReceived, StreamReset
from aioquic.quic.logger import QuicLogger, QuicLoggerTrace
from aioquic.quic.packet import QuicProtocolVersion
from aioquic.tls import CipherSuite

# What aioquic can do. It has no ECN: it neither marks its packets nor reads the marks of others.
CASES = {
    "handshake", "transfer", "multiplexing", "retry", "resumption", "zerortt", "http3", "keyupdate", "chacha20", "v2",
    "transferloss",
}
EXIT_UNSUPPORTED = 127
# The error code with which a request for a missing file is reset.
NOT_FOUND = 0x404

TESTCASE = os.environ.get("TESTCASE", "")
ENV = os.environ.get


class Traces(QuicLogger):
    """Writes each event into QLOGDIR at once, so that a peer that is killed leaves its trace; counts key updates.

    Events of a packet that was received are written once aioquic has gone through its frames.
    """

    def start_trace(self, is_client, odcid):
        return Trace(is_client=is_client, odcid=odcid)

    def end_trace(self, trace):
        trace.close()


class Trace(QuicLoggerTrace):
    def __init__(self, *, is_client, odcid):
        super().__init__(is_client=is_client, odcid=odcid)
        self.updates = 0
        self.waiting = []
        side = "client" if is_client else "server"
        folder = ENV("QLOGDIR")
        path = Path(folder) / f"{odcid.hex()}_{side}.sqlog" if folder else os.devnull
        self.file = open(path, "w", buffering=1, encoding="utf-8")
        self.write({
            "qlog_format": "JSON-SEQ", "qlog_version": "0.3", "title": "aioquic",
            "trace": {"vantage_point": {"name": "aioquic", "type": side},
                      "common_fields": {"ODCID": odcid.hex(), "reference_time": 0, "time_format": "absolute"}},
        })

    def write(self, record):
        if not self.file.closed:
            self.file.write(f"\x1e{json.dumps(record)}\n")

    def flush(self):
        waiting, self.waiting = self.waiting, []
        for record in waiting:
            self.write(record)

    def close(self):
        self.flush()
        self.file.close()

    def log_event(self, *, category, event, data):
        record = {"time": 1000 * time.time(), "name": f"{category}:{event}", "data": data}
        if event.startswith(("packet_received", "packet_sent", "datagrams_")):
            self.flush()
        if event == "packet_received":
            # aioquic goes through the frames in the call that it is in.
            asyncio.get_running_loop().call_soon(self.flush)
            self.waiting.append(record)
        elif self.waiting:
            self.waiting.append(record)
        else:
            self.write(record)
        if event == "key_updated" and data.get("trigger") in ("local_update", "remote_update"):
            self.updates += data["key_type"].startswith("client_")


class Peer(QuicConnectionProtocol):
    """What both roles count; one evidence line per connection."""

    connections = []

    def __init__(self, quic, stream_handler=None):
        super().__init__(quic, stream_handler)
        self.handshake = None
        self.trace = None
        self.streams = 0
        self.printed = False
        self.http = None
        self.confirmed = asyncio.get_running_loop().create_future()
        self.connections.append(self)
        self.number = len(self.connections)

    def quic_event_received(self, event):
        if isinstance(event, HandshakeCompleted):
            self.handshake = event
            self.trace = self._quic._quic_logger
            if not self.confirmed.done():
                self.confirmed.set_result(None)
        elif isinstance(event, ConnectionTerminated):
            self.evidence()
            self.terminated(event)

    def terminated(self, event):
        """For the role to override."""

    def evidence(self):
        if self.printed or self.handshake is None:
            return
        self.printed = True
        quic = self._quic
        retry = quic._retry_count if quic._is_client else quic._retry_source_connection_id is not None
        updates = f" key_updates={self.trace.updates}" if self.trace is not None else ""
        print(
            f"INTEROP conn={self.number} version=0x{quic._version:08x}"
            f" cipher=0x{int(quic.tls.key_schedule.cipher_suite):04x} alpn={self.handshake.alpn_protocol}"
            f" resumed={int(self.handshake.session_resumed)}"
            f" early_data={'accepted' if self.handshake.early_data_accepted else 'none'}"
            f" retry={int(retry)}{updates} streams={self.streams}",
            flush=True,
        )


class Server(Peer):
    """Files of WWW over hq-interop or HTTP/3."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.requests = {}

    def quic_event_received(self, event):
        super().quic_event_received(event)
        if TESTCASE == "http3":
            if isinstance(event, HandshakeCompleted) and self.http is None:
                self.http = H3Connection(self._quic)
            if self.http is not None:
                for h3_event in self.http.handle_event(event):
                    if isinstance(h3_event, HeadersReceived):
                        self.answer_http(h3_event)
        elif isinstance(event, StreamDataReceived) and event.stream_id % 4 == 0:
            line = self.requests.setdefault(event.stream_id, bytearray())
            line += event.data
            if event.end_stream or b"\n" in line:
                del self.requests[event.stream_id]
                self.answer_hq(event.stream_id, bytes(line))

    def answer_hq(self, stream_id, line):
        self.streams += 1
        body = read_file(line.decode(errors="replace").removeprefix("GET ").strip())
        if body is None:
            self._quic.reset_stream(stream_id, NOT_FOUND)
        else:
            self._quic.send_stream_data(stream_id, body, end_stream=True)
        self.transmit()

    def answer_http(self, event):
        self.streams += 1
        body = read_file(dict(event.headers)[b":path"].decode(errors="replace"))
        status = b"404" if body is None else b"200"
        body = body or b""
        headers = [(b":status", status), (b"content-length", str(len(body)).encode())]
        self.http.send_headers(event.stream_id, headers, end_stream=not body)
        if body:
            self.http.send_data(event.stream_id, body, end_stream=True)
        self.transmit()


def read_file(path):
    name = path.lstrip("/")
    file = Path(ENV("WWW", "")) / name
    if not name or ".." in Path(name).parts or not file.is_file():
        return None
    return file.read_bytes()


class Client(Peer):
    """Fetches URLs at once over one connection, each into a file of DOWNLOADS."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.pending = {}

    def terminated(self, event):
        reason = f"connection closed: 0x{event.error_code:x} {event.reason_phrase}"
        for future, _ in self.pending.values():
            if not future.done():
                future.set_exception(RuntimeError(reason))
        if not self.confirmed.done():
            self.confirmed.set_exception(RuntimeError(reason))

    def quic_event_received(self, event):
        super().quic_event_received(event)
        if isinstance(event, StreamReset) and event.stream_id in self.pending:
            self.pending[event.stream_id][0].set_exception(RuntimeError(f"stream reset: 0x{event.error_code:x}"))
        elif self.http is not None:
            for h3_event in self.http.handle_event(event):
                if isinstance(h3_event, HeadersReceived) and dict(h3_event.headers)[b":status"] != b"200":
                    self.pending[h3_event.stream_id][0].set_exception(RuntimeError(f"{h3_event.headers}"))
                elif isinstance(h3_event, DataReceived):
                    self.received(h3_event.stream_id, h3_event.data, h3_event.stream_ended)
        elif isinstance(event, StreamDataReceived):
            self.received(event.stream_id, event.data, event.end_stream)

    def received(self, stream_id, data, end):
        if stream_id in self.pending:
            future, file = self.pending[stream_id]
            file.write(data)
            if end and not future.done():
                file.close()
                future.set_result(None)

    def request(self, url):
        """Sends the request; the future is done when the file is complete."""
        parts = urlsplit(url)
        stream_id = self._quic.get_next_available_stream_id()
        self.streams += 1
        file = open(Path(ENV("DOWNLOADS", "")) / Path(parts.path).name, "wb")
        future = asyncio.get_running_loop().create_future()
        self.pending[stream_id] = (future, file)
        if TESTCASE == "http3":
            if self.http is None:
                self.http = H3Connection(self._quic)
            headers = [
                (b":method", b"GET"), (b":scheme", b"https"), (b":authority", parts.netloc.encode()),
                (b":path", parts.path.encode()),
            ]
            self.http.send_headers(stream_id, headers, end_stream=True)
        else:
            self._quic.send_stream_data(stream_id, f"GET {parts.path}\r\n".encode(), end_stream=True)
        return future


def configuration(is_client):
    config = QuicConfiguration(is_client=is_client, alpn_protocols=["h3" if TESTCASE == "http3" else "hq-interop"])
    config.idle_timeout = 30.0
    if TESTCASE == "chacha20":
        config.cipher_suites = [CipherSuite.CHACHA20_POLY1305_SHA256]
    if TESTCASE == "v2":
        config.supported_versions = [QuicProtocolVersion.VERSION_2, QuicProtocolVersion.VERSION_1]
        if is_client:
            # From v1 to v2 within the handshake (RFC 9368), unless the server is known to lack that.
            direct = ENV("V2START") == "direct"
            config.original_version = QuicProtocolVersion.VERSION_2 if direct else QuicProtocolVersion.VERSION_1
    if TESTCASE == "keyupdate" or ENV("QLOGDIR"):
        config.quic_logger = Traces()
    if ENV("SSLKEYLOGFILE"):
        config.secrets_log_file = open(ENV("SSLKEYLOGFILE"), "a", encoding="ascii")
    return config


def address(variable):
    host, _, port = ENV(variable, "").rpartition(":")
    return host, int(port)


async def run_server():
    config = configuration(is_client=False)
    config.load_cert_chain(ENV("CERT"), ENV("KEY"))
    tickets = {}
    host, port = address("LISTEN")
    server = await serve(
        host, port, configuration=config, create_protocol=Server, retry=TESTCASE == "retry",
        session_ticket_fetcher=lambda label: tickets.pop(label, None),
        session_ticket_handler=lambda ticket: tickets.__setitem__(ticket.ticket, ticket),
    )
    bound = server._transport.get_extra_info("sockname")
    print(f"INTEROP listening={bound[0]}:{bound[1]}", flush=True)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()
    for connection in Peer.connections:
        connection.evidence()


async def fetch(urls, ticket=None, early=False, want_ticket=False):
    """One connection; returns its session ticket."""
    config = configuration(is_client=True)
    config.verify_mode = ssl.CERT_REQUIRED
    config.load_verify_locations(ENV("CA"))
    config.server_name = "localhost"
    config.session_ticket = ticket
    loop = asyncio.get_running_loop()
    arrived = loop.create_future()
    quic = QuicConnection(
        configuration=config,
        session_ticket_handler=lambda new: None if arrived.done() else arrived.set_result(new),
    )
    transport, client = await loop.create_datagram_endpoint(lambda: Client(quic), local_addr=("127.0.0.1", 0))
    try:
        client.connect(address("SERVER"), transmit=not early)
        if not early:
            await client.confirmed
        downloads = [client.request(url) for url in urls]
        client.transmit()
        if TESTCASE == "keyupdate":
            await client.ping()  # the handshake must be confirmed before keys may change
            client.request_key_update()
        await asyncio.gather(*downloads)
        return await asyncio.wait_for(arrived, 5) if want_ticket else None
    finally:
        client.evidence()
        client.close()
        await asyncio.wait_for(client.wait_closed(), 5)
        transport.close()


async def run_client():
    urls = ENV("REQUESTS", "").split()
    if TESTCASE in ("resumption", "zerortt"):
        ticket = await fetch(urls[:1], want_ticket=True)
        await fetch(urls[1:], ticket=ticket, early=TESTCASE == "zerortt")
    else:
        await fetch(urls)


def main():
    role = sys.argv[1] if len(sys.argv) == 2 else None
    if role not in ("server", "client"):
        sys.exit("usage: peer.py server|client")
    if TESTCASE not in CASES:
        print(f"aioquic peer: no such case: {TESTCASE!r}", file=sys.stderr)
        sys.exit(EXIT_UNSUPPORTED)
    faulthandler.register(signal.SIGUSR1)  # where it stands, for a run that does not end
    asyncio.run(run_server() if role == "server" else run_client())


main()
