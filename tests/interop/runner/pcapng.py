"""Packet captures as pcapng (draft-ietf-opsawg-pcapng), with the TLS secrets inside: one file for Wireshark."""

import struct

SECTION_HEADER, INTERFACE, ENHANCED_PACKET, SECRETS = 0x0A0D0D0A, 1, 6, 10
BYTE_ORDER_MAGIC = 0x1A2B3C4D
LINKTYPE_RAW = 101  # packets begin with the IP header
TLS_KEY_LOG = 0x544C534B
OPTION_COMMENT, OPTION_NAME, OPTION_RESOLUTION = 1, 2, 9
LIMIT = 128 << 20  # bytes of one capture; what comes later is left out

UDP = 17


def padded(data):
    return data + bytes(-len(data) % 4)


def block(kind, body):
    length = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + length + body + length


def options(*pairs):
    parts = [struct.pack("<HH", code, len(value)) + padded(value) for code, value in pairs if value]
    return b"".join(parts) + bytes(4) if parts else b""


def section_header():
    return block(SECTION_HEADER, struct.pack("<IHHq", BYTE_ORDER_MAGIC, 1, 0, -1))


def secrets(key_log):
    """A Decryption Secrets Block out of the text of an SSLKEYLOGFILE."""
    return block(SECRETS, struct.pack("<II", TLS_KEY_LOG, len(key_log)) + padded(key_log))


def ipv4_udp(source, destination, payload):
    """An IP packet around a datagram between two (IPv4 address, port) pairs; checksums are left out."""
    def address(host):
        return bytes(map(int, host.split(".")))

    length = 28 + len(payload)
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, length & 0xFFFF, 0, 0, 64, UDP, 0, address(source[0]),
                     address(destination[0]))
    return ip + struct.pack(">HHHH", source[1], destination[1], (length - 20) & 0xFFFF, 0) + payload


class Writer:
    """Appends packets to a file until LIMIT."""

    def __init__(self, path, interface):
        self.file = open(path, "wb", buffering=1 << 16)
        self.file.write(section_header())
        about = options((OPTION_NAME, interface.encode()), (OPTION_RESOLUTION, b"\x09"))  # nanoseconds
        self.file.write(block(INTERFACE, struct.pack("<HHI", LINKTYPE_RAW, 0, 0) + about))
        self.written = 0

    def packet(self, time_ns, data, comment=""):
        if self.written > LIMIT:
            return
        head = struct.pack("<IIIII", 0, time_ns >> 32, time_ns & 0xFFFFFFFF, len(data), len(data))
        self.written += self.file.write(
            block(ENHANCED_PACKET, head + padded(data) + options((OPTION_COMMENT, comment.encode()))))

    def close(self):
        self.file.close()


def embed(capture, key_log):
    """Puts the secrets of the file `key_log` in front of the packets of the file `capture`."""
    text = key_log.read_bytes()
    head = section_header()
    with open(capture, "rb") as old:
        assert old.read(len(head)) == head, f"{capture} is not a capture of this module"
        rest = old.read()
    capture.write_bytes(head + secrets(text) + rest)
